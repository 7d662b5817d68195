"""Both eras on one path: sessions and what is theirs, progress, questions, cancelling, repeated requests."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.client import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult

from fixtures.backend_bench import ODD
from fixtures.daemons import LEDGER, LEGACY
from fixtures.http_gateway import MODERN_HEADERS, Served, messages, result, served, text, until
from gatemini.http.exchange import Exchange
from gatemini.http.replicas.forwarding import OwnerLost
from gatemini.policy.principal import local

pytestmark = pytest.mark.anyio

ERAS = ["legacy", "2026-07-28"]
KEEP = 'const kept = await results.save([1, 2, 3], {label: "mine"}); return kept.handle;'
ASKING = {"ask": {"command": sys.executable, "args": ["-P", str(Path(ODD).with_name("asking_server.py"))]}}
QUESTION = {
    "method": "elicitation/create",
    "params": {"mode": "form", "message": "May I?", "requestedSchema": {"type": "object", "properties": {}}},
}


def ledger(folder: Path) -> dict[str, Any]:
    command = ["-I", "-S", str(LEDGER), str(folder / "ledger")]
    return {"ledger": {"command": sys.executable, "args": command}}


def writes(folder: Path) -> list[str]:
    file = folder / "ledger"
    return file.read_text().split() if file.exists() else []


@pytest.mark.parametrize("mode", [*ERAS, "auto"])
async def test_the_official_client_of_either_era_calls_tools_over_http(tmp_path: Path, mode: str) -> None:
    async with served(tmp_path) as gateway, gateway.client(mode=mode) as client:
        assert len((await client.list_tools()).tools) == 7
        found = await client.call_tool("call_tool_chain", {"code": "return 6 * 7;"})
        assert not found.is_error
        assert found.content[0].text == "42"  # type: ignore[union-attr]
        assert (await client.list_resources()).resources


async def test_a_session_reaches_its_own_results_and_journals_and_no_other_does(tmp_path: Path) -> None:
    async with served(tmp_path) as gateway:
        first, second = await gateway.handshake(), await gateway.handshake()
        kept = result(await gateway.post(gateway.legacy_chain(KEEP), headers=first))
        load = f"return await results.load('{text(kept)}');"
        chain = kept["_meta"]["gatemini/chain"]["id"]
        mine = result(await gateway.post(gateway.legacy_chain(load), headers=first))
        assert json.loads(text(mine)) == [1, 2, 3]
        resume = gateway.legacy_chain(f"// @resume {chain}\n{KEEP}")
        for other in (
            result(await gateway.post(gateway.legacy_chain(load), headers=second)),
            await gateway.chain(load),
            await gateway.chain(load, session="a"),
            result(await gateway.post(resume, headers=second)),
        ):
            assert other["isError"]
        assert "another session" in text(result(await gateway.post(resume, headers=second)))


async def test_a_named_session_is_kept_apart_and_a_nameless_one_lists_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as gateway:
        listing = "return (await results.list()).length;"
        handle = text(await gateway.chain(KEEP, session="a"))
        assert text(await gateway.chain(listing, session="a")) == "1"
        assert text(await gateway.chain(listing, session="b")) == "0"
        assert (await gateway.chain(f"return await results.load('{handle}');", session="b"))["isError"]
        nameless = text(await gateway.chain(KEEP))
        assert text(await gateway.chain(listing)) == "0"
        assert json.loads(text(await gateway.chain(f"return await results.load('{nameless}');"))) == [1, 2, 3]


async def test_results_of_a_named_session_outlive_a_restart_of_the_server(tmp_path: Path) -> None:
    async with served(tmp_path) as gateway:
        handle = text(await gateway.chain(KEEP, session="a"))
    async with served(tmp_path) as gateway:
        assert json.loads(
            text(await gateway.chain(f"return await results.load('{handle}');", session="a"))
        ) == [1, 2, 3]


async def test_a_session_ends_with_delete_and_an_unknown_one_is_not_found(tmp_path: Path) -> None:
    async with served(tmp_path) as gateway:
        session = await gateway.handshake()
        assert (await gateway.http.delete(gateway.url, headers=session)).status_code == 200
        assert len(gateway.server.sessions) == 0
        gone = await gateway.post(gateway.legacy_chain("return 1;"), headers=session)
        nobody = await gateway.post(gateway.legacy_chain("return 1;"))
        assert (gone.status_code, nobody.status_code) == (404, 400)


@pytest.mark.proves("http.sessions.max", "http.sessions.idle")
async def test_idle_sessions_end_and_more_than_allowed_are_refused(tmp_path: Path) -> None:
    async with served(tmp_path, http={"sessions": {"max": 2, "idle": "1s"}}) as gateway:
        await gateway.chain("return 1;", session="a")
        await gateway.handshake()
        message, headers = gateway.modern_chain("return 1;", session="b")
        assert (await gateway.post(message, headers=headers)).status_code == 503
        await until(lambda: len(gateway.server.sessions) == 0)
        assert (await gateway.post(message, headers=headers)).status_code == 200


async def test_a_session_that_a_request_has_found_does_not_end_as_idle_before_it_is_in_flight(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, {}) as gateway:
        ident = (await gateway.handshake())["Mcp-Session-Id"]
        await gateway.chain("return 1;", session="named")
        sessions = gateway.server.sessions
        for each in sessions:
            each.used = float("-inf")
        found = [
            sessions.of_id(ident, local("http")),
            await sessions.of_principal(local("http"), "named"),
        ]
        assert sessions.sweep() == []
        assert found == list(reversed(list(sessions)))


@pytest.mark.parametrize("mode", ERAS)
async def test_progress_reaches_the_client_while_a_chain_runs(tmp_path: Path, mode: str) -> None:
    seen: list[str | None] = []

    async def progressed(_progress: float, _total: float | None, message: str | None) -> None:
        seen.append(message)

    async with served(tmp_path, ledger(tmp_path)) as gateway, gateway.client(mode=mode) as client:
        code = "await ledger.look({}); await ledger.look({seconds: 0.5}); return 1;"
        await client.call_tool("call_tool_chain", {"code": code}, progress_callback=progressed)
    assert any("ledger.look" in (message or "") for message in seen)


@pytest.mark.parametrize("mode", ERAS)
async def test_a_backend_asks_the_user_of_an_http_client(tmp_path: Path, mode: str) -> None:
    async def answered(_: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="accept", content={})

    async with (
        served(tmp_path, ASKING) as gateway,
        gateway.client(mode=mode, elicitation_callback=answered) as client,
    ):
        code = f"return await ask.ask({json.dumps(QUESTION)});"
        found = await client.call_tool("call_tool_chain", {"code": code})
        assert '"accept"' in found.content[0].text  # type: ignore[union-attr]


async def hang_up(gateway: Served, message: dict[str, Any], headers: dict[str, str], begun: Any) -> None:
    """Send a request and leave once it has begun."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(gateway.post, message, headers=headers))
        await until(begun)
        tasks.cancel_scope.cancel()


@pytest.mark.proves("http.response")
@pytest.mark.parametrize("response", ["sse", "json"])
@pytest.mark.parametrize("modern", [True, False])
async def test_a_client_that_hangs_up_ends_its_chain_at_once_and_can_resume_it(
    tmp_path: Path, modern: bool, response: str
) -> None:
    code = 'await ledger.write({key: "a"}); await ledger.look({seconds: 0.2}); return "done";'
    slow = code.replace("0.2", "30")
    async with served(tmp_path, ledger(tmp_path), http={"response": response}) as gateway:
        session = {} if modern else await gateway.handshake()

        async def chain(code: str) -> dict[str, Any]:
            if modern:
                return await gateway.chain(code, session="a")
            return result(await gateway.post(gateway.legacy_chain(code), headers=session))

        message, headers = (
            gateway.modern_chain(slow, session="a") if modern else (gateway.legacy_chain(slow), session)
        )
        await hang_up(gateway, message, headers, lambda: gateway.server.app.tracker.recent(1))
        await until(lambda: gateway.server.endpoint.in_flight == 0)
        told = text(await chain("return 1;"))
        assert "// @resume chain_" in told
        assert "1 call that finished is answered from its journal" in told
    assert writes(tmp_path) == ["a"]


async def test_a_client_that_leaves_with_its_whole_answer_cancels_nothing() -> None:
    left: list[Exchange] = []
    sent: list[str] = []
    exchange = Exchange({}, b"", left.append)
    tidied = anyio.Event()

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"answer"})
        await tidied.wait()

    async def receive() -> Any:
        await anyio.wait_all_tasks_blocked()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message["type"])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(exchange.run, app, 60)
        assert await exchange.follow(receive, send)
        assert sent == ["http.response.start", "http.response.body"]
        assert left == []
        tidied.set()


async def test_a_request_that_fails_before_its_answer_is_not_said_to_be_over_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path, {}) as gateway:

        async def fail(scope: Any, receive: Any, send: Any) -> None:
            raise OwnerLost("replica one is gone")

        monkeypatch.setattr(gateway.server.manager, "handle_request", fail)
        message, headers = gateway.modern_chain("return 1;", session="s")
        answer = await gateway.post(message, headers=headers)
        assert answer.status_code == 503
        assert "failed before its answer" in answer.json()["error"]["message"]


async def test_a_request_that_cannot_be_cancelled_since_its_session_has_ended_fells_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path, ledger(tmp_path)) as gateway:
        serve = gateway.server.manager.handle_request
        refused = anyio.Event()

        async def handle(scope: Any, receive: Any, send: Any) -> None:
            body = await receive()
            if b"notifications/cancelled" in body.get("body", b""):
                refused.set()
                raise anyio.ClosedResourceError  # as the SDK does once the session is closed

            async def again(unread: list[Any] = [body]) -> Any:  # noqa: B006 - read once
                return unread.pop() if unread else await receive()

            await serve(scope, again, send)

        session = await gateway.handshake()
        monkeypatch.setattr(gateway.server.manager, "handle_request", handle)
        message = gateway.legacy_chain("await ledger.look({seconds: 30});")
        await hang_up(gateway, message, session, lambda: gateway.server.endpoint.in_flight)
        await refused.wait()
        assert text(await gateway.chain("return 1;")) == "1"


@pytest.mark.parametrize("modern", [True, False])
async def test_a_request_repeated_while_the_first_runs_gets_the_same_answer_and_runs_once(
    tmp_path: Path, modern: bool
) -> None:
    code = 'await ledger.write({key: "a", seconds: 1}); return "done";'
    answers: list[dict[str, Any]] = []
    async with served(tmp_path, ledger(tmp_path)) as gateway:
        session = {} if modern else await gateway.handshake()
        message, headers = (
            gateway.modern_chain(code, session="a") if modern else (gateway.legacy_chain(code), session)
        )

        async def send() -> None:
            answers.append(result(await gateway.post(message, headers=headers)))

        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(send)
    assert [text(answer) for answer in answers] == ["done", "done"]
    assert writes(tmp_path) == ["a"]


async def test_a_repeated_request_is_joined_only_with_a_session_of_its_own(tmp_path: Path) -> None:
    async with served(tmp_path, ledger(tmp_path)) as gateway:
        message, headers = gateway.modern_chain('await ledger.write({key: "a", seconds: 1}); return 1;')
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(lambda: gateway.post(message, headers=headers))
    assert writes(tmp_path) == ["a", "a"]


async def test_a_request_whose_client_was_lost_goes_on_from_its_journal_when_it_is_repeated(
    tmp_path: Path,
) -> None:
    code = 'await ledger.write({key: "a"}); await ledger.look({seconds: 1}); return "done";'
    async with served(tmp_path, ledger(tmp_path)) as gateway:
        message, headers = gateway.modern_chain(code, session="a")
        await hang_up(gateway, message, headers, lambda: gateway.server.app.tracker.recent(1))
        again = result(await gateway.post(message, headers=headers))
    assert text(again).startswith("done")
    assert writes(tmp_path) == ["a"]


async def test_a_lost_request_that_may_have_been_done_is_not_repeated(tmp_path: Path) -> None:
    async with served(tmp_path, ledger(tmp_path)) as gateway:
        message, headers = gateway.modern_chain(
            'await ledger.write({key: "a", seconds: 9}); return 1;', session="a"
        )
        await hang_up(gateway, message, headers, lambda: writes(tmp_path) == ["a"])
        again = result(await gateway.post(message, headers=headers))
    assert again["isError"]
    assert "never answered" in text(again)
    assert writes(tmp_path) == ["a"]


async def test_a_client_that_stays_gets_its_answer_when_one_that_joined_it_leaves(tmp_path: Path) -> None:
    async with served(tmp_path, ledger(tmp_path)) as gateway:
        code = 'await ledger.write({key: "a", seconds: 1}); return "done";'
        message, headers = gateway.modern_chain(code, session="a")
        answers: list[httpx2.Response] = []

        async def send() -> None:
            answers.append(await gateway.post(message, headers=headers))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            await until(lambda: writes(tmp_path) == ["a"])
            with anyio.move_on_after(0.2):
                await gateway.post(message, headers=headers)
    assert text(result(answers[0])) == "done"


async def test_a_client_cancels_its_request_and_the_chain_ends(tmp_path: Path) -> None:
    async with served(tmp_path, ledger(tmp_path)) as gateway:
        session = await gateway.handshake()
        message = gateway.legacy_chain('await ledger.write({key: "a", seconds: 20}); return 1;')
        answers: list[httpx2.Response] = []

        async def send() -> None:
            answers.append(await gateway.post(message, headers=session))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            await until(lambda: writes(tmp_path) == ["a"])
            cancel = {
                "jsonrpc": "2.0",
                "method": "notifications/cancelled",
                "params": {"requestId": message["id"]},
            }
            assert (await gateway.post(cancel, headers=session)).status_code == 202
        assert messages(answers[0])[-1]["error"]["code"] == -32800


async def test_a_subscription_of_the_stateless_era_is_a_stream_of_its_own(tmp_path: Path) -> None:
    async with served(tmp_path) as gateway:
        wanted = {"notifications": {"resourcesListChanged": True}}
        message, headers = gateway.modern("subscriptions/listen", wanted)
        sent = {
            **headers,
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
        }
        async with gateway.http.stream("POST", gateway.url, json=message, headers=sent) as stream:
            lines = stream.aiter_lines()
            first = [line async for line in _until_data(lines)]
            assert "acknowledged" in first[-1]
        assert MODERN_HEADERS.items() <= headers.items()


async def _until_data(lines: Any) -> Any:
    async for line in lines:
        yield line
        if line.startswith("data:"):
            return


@pytest.mark.proves("http.sessions.mode")
async def test_stateless_serves_older_clients_without_a_session(tmp_path: Path) -> None:
    async with served(tmp_path, http={"sessions": {"mode": "stateless"}}) as gateway:
        first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": LEGACY}
        answer = await gateway.post(first)
        assert answer.status_code == 200
        assert "mcp-session-id" not in answer.headers
        headers = {"MCP-Protocol-Version": "2025-06-18"}
        answer = await gateway.post(gateway.legacy_chain("return 6 * 7;"), headers=headers)
        assert text(result(answer)) == "42"


async def test_a_session_hears_of_calls_only_once_it_has_subscribed_to_what_they_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path) as gateway:
        changes, heard = gateway.server.app.changes, set[str]()
        listen, leave = changes.listen, changes.leave
        monkeypatch.setattr(
            changes, "listen", lambda each, *kinds: (heard.update(kinds), listen(each, *kinds))
        )
        monkeypatch.setattr(
            changes, "leave", lambda each, *kinds: (heard.difference_update(kinds), leave(each, *kinds))
        )
        session = await gateway.handshake()
        assert heard == {"tools", "state"}
        for method, expected in (
            ("resources/subscribe", {"tools", "state", "calls"}),
            ("resources/unsubscribe", {"tools", "state"}),
        ):
            params = {"uri": "gatemini://recent"}
            request = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
            assert result(await gateway.post(request, headers=session)) == {}
            assert heard == expected
        await gateway.http.delete(gateway.url, headers=session)
        assert heard == set()
