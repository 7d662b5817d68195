"""`tools/call` without the SDK gets the same answers as through it, and only for clients the SDK has accepted."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from fixtures.running import running_app
from gatemini.app import App
from gatemini.protocol.mcp_server import build_server
from gatemini.protocol.stdio.descriptors import Wire
from gatemini.protocol.stdio.shortcut import Shortcut
from gatemini.protocol.stdio.stdio_streams import serve_wire

pytestmark = pytest.mark.anyio

WAIT_SECONDS = 60.0
INFO = {"name": "raw", "version": "1"}
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": INFO,
    "io.modelcontextprotocol/clientCapabilities": {},
}
DIFFERS = {"id", "gatemini/chain"}
"""Keys with values that differ between two answers to the same call."""


class Client:
    """A client that writes and reads lines itself and sends `meta` with every request."""

    def __init__(self, write: int, read: int, meta: dict[str, Any] | None) -> None:
        self.meta = meta
        self._write, self._read = write, read
        self._rest = b""
        self._id = 0
        self.seen: list[dict[str, Any]] = []

    def send(self, message: dict[str, Any]) -> None:
        os.write(self._write, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def reply(self, ident: Any, result: dict[str, Any]) -> None:
        self.send({"id": ident, "result": result})

    def ask(self, method: str, params: dict[str, Any], *, meta: dict[str, Any] | None = None) -> int:
        self._id += 1
        told = {**(self.meta or {}), **(meta or {})}
        self.send(
            {"id": self._id, "method": method, "params": {**params, **({"_meta": told} if told else {})}}
        )
        return self._id

    async def message(self) -> dict[str, Any]:
        with anyio.fail_after(WAIT_SECONDS):
            while b"\n" not in self._rest:
                await anyio.wait_readable(self._read)
                self._rest += os.read(self._read, 1 << 16)
        line, _, self._rest = self._rest.partition(b"\n")
        self.seen.append(json.loads(line))
        return self.seen[-1]

    async def answer(self, ident: int) -> dict[str, Any]:
        while (message := await self.message()).get("id") != ident:
            pass
        return message

    async def request(self, method: str, params: dict[str, Any], **more: Any) -> dict[str, Any]:
        return await self.answer(self.ask(method, params, **more))

    def start(self, code: str, **more: Any) -> int:
        return self.ask("tools/call", {"name": "call_tool_chain", "arguments": {"code": code}}, **more)

    async def chain(self, code: str, **more: Any) -> dict[str, Any]:
        return await self.answer(self.start(code, **more))

    def leave(self) -> None:
        os.close(self._write)


class Watched(Shortcut):
    """Counts the lines that it served."""

    taken = 0

    def takes(self, line: bytes) -> bool:
        took = super().takes(line)
        self.taken += took
        return took


@asynccontextmanager
async def connected(
    app: App, *, modern: bool = False, capabilities: dict[str, Any] | None = None
) -> AsyncIterator[tuple[Client, Watched]]:
    """Connect a client in a session of its own, after the handshake."""
    theirs_read, write = os.pipe()
    read, theirs_write = os.pipe()
    meta = {**MODERN, "io.modelcontextprotocol/clientCapabilities": capabilities or {}} if modern else None
    client = Client(write, read, meta)
    surface = app.surface(app.new_session())
    shortcut = Watched(surface)
    server = build_server(surface, shortcut)

    async def serve() -> None:
        async with serve_wire(Wire(theirs_read, theirs_write), shortcut) as streams:
            await server.run(*streams, server.create_initialization_options())

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(serve)
            if modern:
                await client.request("server/discover", {})
            else:
                hello = {
                    "protocolVersion": "2025-06-18",
                    "capabilities": capabilities or {},
                    "clientInfo": INFO,
                }
                await client.request("initialize", hello)
                client.send({"method": "notifications/initialized"})
            yield client, shortcut
            group.cancel_scope.cancel()
    finally:
        for fd in (theirs_read, read, theirs_write):
            os.close(fd)


def comparable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: comparable(item) for key, item in value.items() if key not in DIFFERS}
    return [comparable(item) for item in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    folder: Path = tmp_path_factory.mktemp("shortcut")
    async with running_app(folder) as running:
        yield running


@pytest.mark.parametrize("modern", [False, True], ids=["handshake era", "stateless era"])
@pytest.mark.parametrize(
    "params",
    [
        {"name": "call_tool_chain", "arguments": {"code": '{"tool": "demo.echo", "arguments": {"a": 1}}'}},
        {"name": "call_tool_chain", "arguments": {"code": "console.log(1); return [1, 'ü', null]"}},
        {"name": "call_tool_chain", "arguments": {"code": "return await demo.image({})"}},
        {"name": "call_tool_chain", "arguments": {"code": "throw new Error('\\u{1F600}')"}},
        {"name": "call_tool_chain", "arguments": {}},
        {"name": "call_tool_chain"},
        {"name": "search_tools", "arguments": {"query": "echo"}},
        {"name": "no_such_tool", "arguments": {"a": 1}},
    ],
    ids=lambda params: json.dumps(params)[:60],
)
async def test_the_shortcut_gives_the_answer_of_the_sdk(
    app: App, modern: bool, params: dict[str, Any]
) -> None:
    async with connected(app, modern=modern) as (client, shortcut):
        long = await client.request("tools/call", params)
        assert shortcut.taken == 0
        short = await client.request("tools/call", params)
        assert shortcut.taken == 1
    assert comparable(short) == comparable(long)


@pytest.mark.parametrize("capability", ["elicitation", "sampling", "roots"])
async def test_modern_clients_that_support_questions_go_through_the_sdk(app: App, capability: str) -> None:
    async with connected(app, modern=True, capabilities={capability: {}}) as (client, shortcut):
        for _ in range(2):
            await client.chain("return 1")
        assert shortcut.taken == 0


async def test_the_shortcut_sends_requests_to_a_client_of_the_handshake_era(app: App) -> None:
    async with connected(app, capabilities={"elicitation": {}}) as (client, shortcut):
        await client.chain("return 1")
        ident = client.start("return (await demo.confirm({ q: 'sure?' })).ok")
        question = await client.message()
        assert (question["method"], question["params"]["message"]) == ("elicitation/create", "sure?")
        client.reply(question["id"], {"action": "accept", "content": {"ok": True}})
        assert (await client.answer(ident))["result"]["content"][0]["text"] == "true"
        assert shortcut.taken == 1


async def test_a_request_with_another_envelope_goes_through_the_sdk(app: App) -> None:
    async with connected(app, modern=True) as (client, shortcut):
        await client.chain("return 1")
        await client.chain("return 1", meta={"io.modelcontextprotocol/clientInfo": {**INFO, "version": "2"}})
        refused = await client.chain(
            "return 1", meta={"io.modelcontextprotocol/protocolVersion": "1999-01-01"}
        )
        assert shortcut.taken == 0
        assert "error" in refused


async def test_an_envelope_of_the_other_era_is_refused_as_before(app: App) -> None:
    async with connected(app) as (client, shortcut):
        await client.chain("return 1")
        refused = await client.chain("return 1", meta=MODERN)
        assert (shortcut.taken, refused["error"]["code"]) == (0, -32600)


async def test_nothing_is_taken_before_a_handshake_that_the_sdk_has_seen(app: App) -> None:
    async with connected(app) as (client, shortcut):
        await client.chain("return 1")
        await client.request(
            "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": INFO}
        )
        await client.chain("return 1")
        assert shortcut.taken == 0
        await client.chain("return 1")
        assert shortcut.taken == 1


@pytest.mark.parametrize("as_text", [False, True], ids=["id as number", "id as text"])
async def test_a_cancelled_request_is_never_answered(app: App, as_text: bool) -> None:
    async with connected(app) as (client, _):
        await client.chain("return 1")
        ident = client.start("for (;;) await new Promise(r => setTimeout(r, 1000))")
        client.send(
            {
                "method": "notifications/cancelled",
                "params": {"requestId": str(ident) if as_text else ident},
            }
        )
        assert (await client.chain("return 2"))["result"]["content"][0]["text"] == "2"
        assert ident not in [message.get("id") for message in client.seen]


async def test_large_answers_come_whole_and_in_order_while_others_are_written(app: App) -> None:
    async with connected(app) as (client, _):
        await client.chain("return 1")
        large = [client.start(f"return '{letter}'.repeat(200000)") for letter in "abc"]
        small = [client.start(f"return {n}") for n in range(20)]
        waiting = {*large, *small}
        while waiting:
            waiting.discard((await client.message()).get("id", 0))
        assert all("error" not in message for message in client.seen)


async def test_open_calls_get_an_error_when_the_connection_ends(app: App) -> None:
    async with connected(app) as (client, _):
        await client.chain("return 1")
        ident = client.start("await new Promise(r => setTimeout(r, 5000))")
        client.leave()
        assert (await client.answer(ident))["error"]["code"] == -32000


async def test_a_request_with_an_id_of_thousands_of_digits_is_served(app: App) -> None:
    async with connected(app) as (client, _):
        await client.chain("return 1")
        ident: Any = "9" * 5000
        client.send({"method": "notifications/cancelled", "params": {"requestId": ident}})
        call = {"name": "call_tool_chain", "arguments": {"code": "return 2"}}
        client.send({"id": ident, "method": "tools/call", "params": call})
        assert (await client.answer(ident))["result"]["content"][0]["text"] == "2"
