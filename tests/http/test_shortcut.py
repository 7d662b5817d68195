"""Calls of 2026-07-28 that are served without the SDK answer as those that it serves, and it serves all others."""

from __future__ import annotations

import gc
import json
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from starlette.types import Receive, Scope, Send

from fixtures.daemons import LEDGER
from fixtures.http_gateway import Served, messages, served, text, until
from gatemini.http import shortcut

pytestmark = pytest.mark.anyio

VERSION, INFO, CAPABILITIES = (
    f"io.modelcontextprotocol/{name}" for name in ("protocolVersion", "clientInfo", "clientCapabilities")
)


class Watched:
    """A server, and the number of its requests that the SDK has served."""

    def __init__(self, gateway: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gateway = gateway
        self.begin("mine")
        serve = gateway.server.manager.handle_request

        async def counted(scope: Scope, receive: Receive, send: Send) -> None:
            self.by_sdk += 1
            await serve(scope, receive, send)

        monkeypatch.setattr(gateway.server.manager, "handle_request", counted)

    def begin(self, session: str) -> None:
        """Send what follows in this session, and count anew."""
        self.session, self.by_sdk = session, 0

    async def call(
        self,
        code: str,
        meta: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        **more: Any,
    ) -> httpx2.Response:
        """Call a chain, with members of `_meta` and headers besides the usual ones."""
        message, own = self.gateway.modern_chain(code, session=self.session, **more)
        message["params"]["_meta"].update(meta or {})
        return await self.gateway.post(message, headers={**own, **(headers or {})})

    async def post(self, method: str, params: dict[str, Any]) -> httpx2.Response:
        message, headers = self.gateway.modern(method, params, session=self.session)
        return await self.gateway.post(message, headers=headers)


@asynccontextmanager
async def watched(folder: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> AsyncIterator[Watched]:
    async with served(folder, **options) as gateway:
        yield Watched(gateway, monkeypatch)


def comparable(answer: httpx2.Response) -> tuple[int, dict[str, str], Any]:
    """An answer without ids, handles and times."""
    body = re.sub(r'"(id|ms)":("?)[\w.-]+\2', r'"\1":0', re.sub(r'": ', '":', answer.text))
    body = re.sub(r"\b(res|chain)_\w+", "one", body)
    headers = {name: value for name, value in answer.headers.items() if name != "content-length"}
    return answer.status_code, headers, json.loads(body)


CODES = (
    "return { n: 1, text: 'ä\u2028😀' };",
    '{"tool": "demo.echo", "arguments": {"n": 1}}',
    '{"tool": "demo.nothing", "arguments": {}}',
    "return demo.mixed({});",
    "return demo.fail({});",
    "return await demo.missing({});",
    "return (",
    "",
)


async def test_an_answer_is_the_same_as_the_sdks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with watched(tmp_path, monkeypatch) as server:
        for code in CODES:
            server.begin(f"session {CODES.index(code)}")
            await server.call(code)  # the first answer says more where the type of a result was not known
            await server.post("tools/list", {})
            first = await server.call(code)
            second = await server.call(code)
            assert server.by_sdk == 3, code
            assert comparable(second) == comparable(first), code
            assert second.json()["id"] == first.json()["id"] + 1, code


async def test_any_other_tool_and_arguments_of_any_form_are_answered_as_the_sdk_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = [
        {"name": "search_tools", "arguments": {"query": "echo"}},
        {"name": "no_such_tool", "arguments": {}},
        {"name": "call_tool_chain", "arguments": {"code": "return 1;", "timeout": 2**80}},
        {"name": "call_tool_chain"},
        {"name": "call_tool_chain", "arguments": '{"code": "return 1;"}'},
        {"name": "call_tool_chain", "arguments": [1]},
        {"name": "call_tool_chain", "arguments": {"code": "return 1;"}, "requestState": "forged"},
    ]
    async with watched(tmp_path, monkeypatch) as server:
        for params in asked:
            await server.post("tools/list", {})
            by_sdk = await server.post("tools/call", params)
            await server.call("return 1;")
            again = await server.post("tools/call", params)
            assert comparable(again) == comparable(by_sdk), params


UNUSUAL: list[tuple[dict[str, Any], dict[str, str], int]] = [
    ({}, {"Mcp-Name": "search_tools"}, 400),
    ({}, {"Mcp-Method": "tools/list"}, 400),
    ({}, {"MCP-Protocol-Version": "2026-07-29"}, 400),
    ({VERSION: "2026-07-29"}, {}, 400),
    ({CAPABILITIES: 1}, {}, 400),
    ({}, {"accept": "text/html"}, 406),
    ({}, {"content-type": "text/plain"}, 400),
    ({INFO: {"name": "another", "version": "2"}}, {}, 200),
    ({CAPABILITIES: {"elicitation": {}}}, {}, 200),
    ({"progressToken": 7}, {}, 200),
    ({"io.modelcontextprotocol/logLevel": "debug"}, {}, 200),
    ({"example.com/other": 1}, {}, 200),
]


async def test_a_request_that_says_something_else_goes_to_the_sdk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watched(tmp_path, monkeypatch) as server:
        for number, (meta, headers, status) in enumerate(UNUSUAL):
            server.begin(f"session {number}")
            for expected in (1, 1):
                assert (await server.call("return 1;")).status_code == 200
                assert server.by_sdk == expected, (meta, headers)
            assert (await server.call("return 1;", meta, headers)).status_code == status, (meta, headers)
            assert server.by_sdk == 2, (meta, headers)


async def test_two_clients_that_share_a_session_are_each_known_by_their_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watched(tmp_path, monkeypatch) as server:
        for name in ("one", "one", "two", "one"):
            meta = {INFO: {"name": name, "version": "1"}}
            message, headers = server.gateway.modern_chain("return 1;")
            message["params"]["_meta"].update(meta)
            await server.gateway.post(message, headers=headers)
            [session] = server.gateway.server.sessions
            assert session.session.client == name
        assert server.by_sdk == 3


async def test_an_answer_that_takes_long_becomes_a_stream_with_comments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shortcut, "PING_SECONDS", 0.02)
    async with watched(tmp_path, monkeypatch) as server:
        await server.call("return 1;")
        answer = await server.call("return demo.sleep({ ms: 800 });")
        assert server.by_sdk == 1
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.text.count(": ping\r\n\r\n") >= 2
        [message] = messages(answer)
        assert message["result"]["resultType"] == "complete"


async def test_with_json_as_the_response_it_stays_a_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shortcut, "PING_SECONDS", 0.02)
    async with watched(tmp_path, monkeypatch, http={"response": "json"}) as server:
        await server.call("return 1;")
        answer = await server.call("return demo.sleep({ ms: 100 });", headers={"accept": "application/json"})
        again = await server.call("return demo.sleep({ ms: 100 });", headers={"accept": "application/json"})
        assert server.by_sdk == 2
        assert (answer.headers["content-type"], again.headers["content-type"]) == ("application/json",) * 2
        assert text(again.json()["result"]) == text(answer.json()["result"])


async def test_a_client_that_hangs_up_cancels_its_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watched(tmp_path, monkeypatch) as server:
        await server.call("return 1;")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.call, "return demo.sleep({ ms: 60000 });")
            await until(lambda: server.gateway.server.endpoint.in_flight)
            tasks.cancel_scope.cancel()
        await until(lambda: not server.gateway.server.endpoint.in_flight)
        assert server.by_sdk == 1


async def test_a_call_leaves_nothing_of_the_gateway_to_the_garbage_collector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Objects that refer to each other are found by passes over the whole heap only, which took a quarter of the time."""
    ledger = {"command": sys.executable, "args": ["-I", "-S", str(LEDGER), str(tmp_path / "ledger")]}
    code = '{"tool": "ledger.look", "arguments": {}}'
    async with watched(tmp_path, monkeypatch, backends={"ledger": ledger}) as server:
        for _ in range(3):
            await server.call(code)
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            await server.call(code)
            gc.collect()
            left = {each for each in map(type, gc.garbage) if each.__module__.startswith("gatemini.")}
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
        assert server.by_sdk == 1
        assert left == set()
