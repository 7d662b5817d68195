"""Chains that wait for a user's answer while something else happens: loss of a process, reload, a lost client, the end.

What was really done is counted at a backend.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from mcp import Client
from mcp.client import ClientRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult, InputRequiredResult, TextContent

from fixtures.direct import DEMO_SERVER, chain_value, gateway, run_chain, write_config
from fixtures.modes import DEFAULT, MODES, OTHER
from fixtures.running import client_of
from gatemini.app import App
from gatemini.config.load import load_config
from gatemini.protocol.questions import parking
from gatemini.protocol.sessions.client_session import Session

pytestmark = pytest.mark.anyio

WAIT_SECONDS = 60.0
DEMO: dict[str, Any] = {"command": sys.executable, "args": ["-P", str(DEMO_SERVER)]}
BACKENDS = {"demo": DEMO, "asker": {"transport": "python", "module": "fixtures.demo_server:server"}}
CODE = """const before = await demo.write({ key: "a", value: 1 });
let ok;
try { ok = await asker.confirm({ q: "go on?" }); } catch (e) { ok = { failed: e.message }; }
await demo.write({ key: "b", value: ok });
return ok;"""


def configuration(folder: Path, mode: str, backends: dict[str, Any], **sandbox: Any) -> Path:
    return write_config(folder, backends, sandbox={"isolation": mode, **sandbox})


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def app(tmp_path: Path, mode: str) -> AsyncIterator[App]:
    async with App.open(configuration(tmp_path, mode, BACKENDS), environ={}) as running:
        assert await running.settled(WAIT_SECONDS)
        yield running


async def unused(_context: ClientRequestContext, _params: ElicitRequestParams) -> ElicitResult:
    raise AssertionError("the tests answer themselves")


def connect(app: App, session: Session | None = None) -> Client:
    return client_of(app, session, elicitation_callback=unused)


async def asked(client: Client, code: str = CODE) -> InputRequiredResult:
    result = await client.session.call_tool("call_tool_chain", {"code": code}, allow_input_required=True)
    assert isinstance(result, InputRequiredResult), result
    return result


async def again(client: Client, first: InputRequiredResult, code: str = CODE) -> CallToolResult:
    answers: Any = {
        key: ElicitResult(action="accept", content={"ok": True}) for key in first.input_requests or {}
    }
    result = await client.session.call_tool(
        "call_tool_chain",
        {"code": code},
        input_responses=answers,
        request_state=first.request_state,
        allow_input_required=True,
    )
    assert isinstance(result, CallToolResult)
    return result


def everything(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


def named_id(text: str) -> str:
    return text.partition("`// @resume ")[2].partition("`")[0]


async def written(client: Client) -> list[str]:
    """The keys `demo` has, each written once: a key that was written twice would count twice."""
    stats = await chain_value(client, "return await demo.stats({});")
    assert stats["writes"] == len(stats["written"])
    return list(stats["written"])


def sandboxes() -> set[psutil.Process]:
    """Sandbox processes of this one and of the gateways it started."""
    found = set()
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if "gatemini_sandbox.processes.process" in process.cmdline():
                found.add(process)
    return found


async def until(holds: Callable[[], bool]) -> None:
    """Poll: the end of another process is no event here."""
    with anyio.fail_after(WAIT_SECONDS):
        while not holds():  # noqa: ASYNC110
            await anyio.sleep(0.01)


@pytest.mark.long
async def test_after_the_loss_of_the_process_of_a_parked_chain_resuming_writes_nothing_twice(
    tmp_path: Path,
) -> None:
    config = configuration(tmp_path, "process", BACKENDS)
    async with App.open(config, environ={}) as app, connect(app) as client:
        first = await asked(client)
        for worker in app.sandbox._workers:
            os.kill(worker.pid, signal.SIGKILL)
        lost = await again(client, first)
        assert lost.is_error
        assert everything(lost).startswith("WorkerLost")
        assert await written(client) == ["a"]
        resumed = f"// @resume {named_id(everything(lost))}\n{CODE}"
        assert await chain_value(client, resumed) == {"ok": True, "action": "accept"}
        assert await written(client) == ["a", "b"]


async def test_an_unanswered_question_ends_the_chain_which_can_be_resumed_and_a_late_answer_is_refused(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connect(app) as client:
        monkeypatch.setattr(parking, "PARKED_SECONDS", 2.0)
        first = await asked(client)
        await until(lambda: app.parking.waiting == 0 and not app.chain.guests.borrowed_tokens)
        monkeypatch.undo()
        with pytest.raises(MCPError, match="no longer waiting"):
            await again(client, first)
        told = everything(await run_chain(client, "return 1;"))
        ident = named_id(told)  # the chain is named by the next answer: its own never left
        assert await written(client) == ["a"]
        resumed = f"// @resume {ident}\n{CODE}"
        second = await asked(client, resumed)  # the question is put again
        assert everything(await again(client, second, resumed)) == '{"ok":true,"action":"accept"}'
        assert await written(client) == ["a", "b"]
    await until(lambda: not any(worker.guests for worker in app.sandbox._workers))


async def test_removing_a_backend_fails_its_open_question_and_the_code_goes_on(
    app: App, tmp_path: Path, mode: str
) -> None:
    async with connect(app) as client:
        first = await asked(client)
        await app.reconfigure(load_config(configuration(tmp_path, mode, {"demo": DEMO}), environ={}))
        ended = await again(client, first)
        assert "failed" in everything(ended)
        assert "asker" in everything(ended)
        assert await written(client) == ["a", "b"]


async def test_a_parked_chain_keeps_the_limits_and_the_isolation_it_started_with(
    app: App, tmp_path: Path, mode: str
) -> None:
    other = OTHER if mode == DEFAULT else DEFAULT
    async with connect(app) as client:
        first = await asked(client)
        config = configuration(
            tmp_path, other, BACKENDS, memory_mb=64, max_calls=1, max_concurrent_sandboxes=1
        )
        await app.reconfigure(load_config(config, environ={}))
        assert everything(await again(client, first)) == '{"ok":true,"action":"accept"}'
        assert await written(client) == ["a", "b"]
        assert app.sandbox.isolation == mode
        more = await run_chain(client, "const a = await demo.echo({}); return await demo.echo({ a });")
        assert "limit.calls" in everything(more)


async def test_two_clients_that_resume_one_chain_at_once_do_it_once(app: App) -> None:
    slow = """await demo.write({ key: "a", value: 1 });
await demo.sleep({ ms: 1500, tag: "x" });
await demo.write({ key: "b", value: 2 });
return "end";"""
    async with connect(app) as client:
        ident = named_id(everything(await run_chain(client, slow, timeout=1000)))
        answers: list[str] = []

        async def resume() -> None:
            answers.append(everything(await run_chain(client, f"// @resume {ident}\n{slow}")))

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(resume)
        assert sum(text.startswith("end") for text in answers) == 1
        assert sum("it is still running" in text for text in answers) == 4
        assert await written(client) == ["a", "b"]


async def test_the_end_of_a_session_ends_its_parked_guests(app: App) -> None:
    session = app.new_session()
    async with connect(app, session) as client:
        await asked(client)
        await asked(client)
        assert app.parking.waiting == 2
    app.parking.end_session(session.id)
    await until(
        lambda: app.parking.waiting == 0 and not any(worker.guests for worker in app.sandbox._workers)
    )
    async with connect(app) as other:
        assert (await chain_value(other, "return await demo.stats({});"))["writes"] == 2


@pytest.mark.long
@pytest.mark.parametrize("end", ["the client closes", "kill -9"])
async def test_parked_chains_end_with_their_gateway(tmp_path: Path, mode: str, end: str) -> None:
    before = sandboxes()
    known = set(psutil.Process().children())
    (tmp_path / "second").mkdir()
    top = {"sandbox": {"isolation": mode}}
    async with gateway(tmp_path, BACKENDS, top=top, elicitation_callback=unused) as client:
        first = await asked(client)
        (process,) = [p for p in psutil.Process().children() if p not in known]
        mine = {process, *process.children(recursive=True)}
        assert bool(sandboxes() - before) == (mode == "process")
        if end == "kill -9":
            process.kill()
    await until(lambda: not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in mine))
    if end == "kill -9":
        async with gateway(tmp_path / "second", BACKENDS, top=top, elicitation_callback=unused) as client:
            with pytest.raises(MCPError, match="Invalid or expired requestState"):
                await again(client, first)
            assert await written(client) == []
