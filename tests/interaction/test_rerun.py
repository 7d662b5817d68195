"""Resumed chains through a real client: no write of a backend process happens twice. Writes are counted at the backend."""

import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, TextContent

from fixtures.direct import DEMO_SERVER, chain_value, gateway, run_chain
from fixtures.modes import MODES

pytestmark = pytest.mark.anyio

DEMO: dict[str, dict[str, Any]] = {
    "demo": {"command": sys.executable, "args": ["-P", str(DEMO_SERVER)], "retry": {"max_retries": 0}}
}
"""Without retries by the gateway, which would repeat a read after a crash unseen."""
WAIT_SECONDS = 60.0


def code(tag: str, ms: int) -> str:
    """Code that writes, waits for `ms`, in which the test interrupts it, and writes again; `tag` is the test's own."""
    return f"""const before = await demo.write({{ key: "{tag}-before", value: Math.random() }});
const seen = await demo.sleep({{ ms: {ms}, tag: "{tag}" }});
await demo.write({{ key: seen.tag + "-after", value: before }});
return ["done", before.key ?? "nothing"];"""


@pytest.fixture(scope="module", params=MODES)
async def client(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Client]:
    top = {"sandbox": {"isolation": request.param}}
    async with gateway(tmp_path_factory.mktemp("rerun"), DEMO, top=top) as connected:
        yield connected


def everything(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


def named_id(text: str) -> str:
    found = re.search(r"`// @resume (chain_[0-9a-f]+)`", text)
    assert found is not None, text
    return found[1]


async def stats(client: Client) -> dict[str, Any]:
    (told,) = await chain_value(client, "return [await demo.stats({})];")
    return dict(told)


async def until_sleeping(client: Client, times: int) -> None:
    """Until the backend has got so many `sleep` calls."""
    with anyio.fail_after(WAIT_SECONDS):
        while (await stats(client))["calls"].get("sleep", 0) < times:  # noqa: ASYNC110 - nothing says so
            await anyio.sleep(0.005)


def processes(name: str) -> list[psutil.Process]:
    """Descendants of this test with that word in their command line."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it may end while it is looked at
            if any(name in part for part in process.cmdline()):
                found.append(process)
    return found


async def test_after_a_timeout_a_resumed_chain_repeats_no_write(client: Client) -> None:
    before = await stats(client)
    text = code("timeout", 2500)
    interrupted = await run_chain(client, text, timeout=2000)
    assert interrupted.is_error
    ident = named_id(everything(interrupted))
    assert await chain_value(client, f"// @resume {ident}\n{text}") == ["done", "timeout-before"]
    after = await stats(client)
    assert after["writes"] - before["writes"] == 2
    assert {"timeout-before", "timeout-after"} <= set(after["written"])


async def test_after_a_cancel_the_next_answer_names_the_chain_to_resume(client: Client) -> None:
    before = await stats(client)
    text = code("cancel", 2500)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run_chain, client, text)
        await until_sleeping(client, before["calls"].get("sleep", 0) + 1)
        tasks.cancel_scope.cancel()
    ident = None
    with anyio.fail_after(WAIT_SECONDS):
        while ident is None:  # the notice of the cancel and the next request race
            found = re.search(r"`// @resume (chain_\w+)`", everything(await run_chain(client, "return 1;")))
            ident = found[1] if found else None
    assert await chain_value(client, f"// @resume {ident}\n{text}") == ["done", "cancel-before"]
    assert (await stats(client))["writes"] - before["writes"] == 2


async def test_after_a_crash_of_the_backend_a_resumed_chain_makes_only_what_is_left(client: Client) -> None:
    before = (await stats(client))["calls"].get("sleep", 0)
    text = code("crash", 2500)
    answers: list[str] = []

    async def run() -> None:
        answers.append(everything(await run_chain(client, text)))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await until_sleeping(client, before + 1)
        (backend,) = processes("demo_server.py")
        os.kill(backend.pid, signal.SIGKILL)
    ident = named_id(answers[0])
    assert "demo.write: ok" in answers[0]
    assert await chain_value(client, f"// @resume {ident}\n{text}") == ["done", "crash-before"]
    after = await stats(client)  # of the new process, which has seen nothing before the crash
    assert (after["writes"], list(after["written"])) == (1, ["crash-after"])


@pytest.mark.long
async def test_after_the_loss_of_its_sandbox_process_a_resumed_chain_repeats_no_write(
    tmp_path: Path,
) -> None:
    text = code("worker", 1500)
    async with gateway(tmp_path, DEMO, top={"sandbox": {"isolation": "process"}}) as client:
        answers: list[str] = []

        async def run() -> None:
            answers.append(everything(await run_chain(client, text)))

        await stats(client)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await until_sleeping(client, 1)
            for worker in processes("gatemini_sandbox"):
                worker.kill()
        assert answers[0].startswith("WorkerLost")
        assert "HINT: this is no fault of the code" in answers[0]
        ident = named_id(answers[0])
        assert await chain_value(client, f"// @resume {ident}\n{text}") == ["done", "worker-before"]
        assert (await stats(client))["writes"] == 2


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
async def test_after_sigkill_of_the_gateway_its_chains_are_refused_with_the_reason(
    tmp_path: Path, mode: str
) -> None:
    text = code("killed", 60000)
    known = {p.pid for p in processes("--direct")}
    top = {"sandbox": {"isolation": mode}}
    async with gateway(tmp_path, DEMO, top=top) as first:
        await stats(first)  # the backend is up
        ident = named_id(everything(await run_chain(first, text, timeout=1000)))
        begun = (await stats(first))["calls"].get("sleep", 0)
        (process,) = [p for p in processes("--direct") if p.pid not in known]

        async def again() -> None:
            with suppress(MCPError):
                await run_chain(first, f"// @resume {ident}\n{text}")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(again)
            await until_sleeping(first, begun + 1)
            os.kill(process.pid, signal.SIGKILL)
    async with gateway(tmp_path, DEMO, top=top) as second:
        refused = await run_chain(second, f"// @resume {ident}\n{text}")
        assert refused.is_error
        assert f"chain {ident} cannot be resumed: this gateway knows no such chain" in everything(refused)
        assert "the gateway was restarted since" in everything(refused)
        assert (await stats(second))["writes"] == 0


async def test_a_dry_run_reaches_the_backend_with_reads_only(client: Client) -> None:
    before = await stats(client)
    result = await run_chain(client, "// @dry-run\n" + code("dry", 1))
    blocks = [block.text for block in result.content if isinstance(block, TextContent)]
    assert json.loads(blocks[0])[0] == "done"
    assert '1. would call demo.write with {"key":"dry-before"' in blocks[-1]
    assert '2. would call demo.write with {"key":"dry-after"' in blocks[-1]
    assert (await stats(client))["writes"] == before["writes"]
