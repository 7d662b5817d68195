"""Cancelling a chain, in each phase a call may be in: the backend hears of it, and no other call gets its answer."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from fixtures.backend_bench import ODD
from fixtures.running import running_app, until
from gatemini.app import App

pytestmark = pytest.mark.anyio

HANG = {
    "first tier": '{"tool": "odd.hang", "arguments": {}}',
    "first tier, several": '[{"tool": "odd.hang"}, {"tool": "odd.hang"}]',
    "second tier": "return await odd.hang({});",
    "sandbox": "const a = odd.hang({}); const b = odd.hang({}); return [await a, await b];",
    "composite": "const x = await composite.waits({}); return x;",
}


def odd(**keys: Any) -> dict[str, Any]:
    options = json.dumps(keys.pop("options", {}))
    return {"command": sys.executable, "args": ["-I", "-S", str(ODD), options], **keys}


@asynccontextmanager
async def gateway(tmp_path: Path, **keys: Any) -> AsyncIterator[App]:
    composites = {"waits": {"description": "waits", "code": "return await odd.hang({});"}}
    async with running_app(tmp_path, {"odd": odd(**keys)}, composite_tools=composites) as app:
        yield app


@asynccontextmanager
async def running(app: App, code: str) -> AsyncIterator[anyio.CancelScope]:
    """A chain at work; cancelled, as by its client, when the block ends."""
    async with anyio.create_task_group() as tasks:
        surface = app.surface(app.new_session())
        tasks.start_soon(surface.call_tool, "call_tool_chain", {"code": code})
        yield tasks.cancel_scope
        tasks.cancel_scope.cancel()


async def value(app: App, code: str) -> Any:
    result = await app.call_meta_tool("call_tool_chain", {"code": code})
    assert not result["isError"], result["content"][0]["text"]
    return json.loads(result["content"][0]["text"])


def open_calls(app: App) -> int:
    return app.manager.status("odd").calls_open


async def test_calls_in_flight_are_cancelled_at_the_backend(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    cancelled = 0
    async with gateway(tmp_path) as app:
        for how, code in HANG.items():
            with subtests.test(how):
                calls = 2 if how in ("first tier, several", "sandbox") else 1
                async with running(app, code):
                    await until(lambda: open_calls(app) == calls)  # noqa: B023
                assert open_calls(app) == 0
                before, cancelled = cancelled, len(await value(app, "return await odd.cancelled({});"))
                assert cancelled - before == calls


async def test_a_call_that_waits_for_its_turn_is_never_sent(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    async with gateway(tmp_path, max_concurrent_calls=1, options={"journal": str(journal)}) as app:
        async with running(app, HANG["second tier"]) as first:
            await until(lambda: open_calls(app) == 1)
            async with running(app, "return await odd.echo({ second: 1 });"):
                await anyio.wait_all_tasks_blocked()
            first.cancel()
        assert await value(app, "return await odd.echo({ third: 1 });") == {"third": 1}
        assert "second" not in journal.read_text()


async def test_a_call_that_waits_for_its_rate_is_never_sent(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    rate = {"max_calls": 1, "window": "10m"}
    async with gateway(tmp_path, rate_limit=rate, timeout="15m", options={"journal": str(journal)}) as app:
        await value(app, "return await odd.echo({ first: 1 });")
        async with running(app, "return await odd.echo({ second: 1 });"):
            await anyio.wait_all_tasks_blocked()
        assert open_calls(app) == 0
        assert "second" not in journal.read_text()


async def test_a_call_that_waits_for_its_backend_to_start_is_never_sent(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    options = {"delay": 0.3, "journal": str(journal)}
    async with gateway(tmp_path, lazy=True, options=options) as app:
        async with running(app, "return await odd.echo({ first: 1 });"):
            await until(lambda: app.manager.state("odd") == "starting")
        assert await value(app, "return await odd.echo({ second: 1 });") == {"second": 1}
        assert "first" not in journal.read_text()


async def test_a_late_answer_reaches_no_other_call(tmp_path: Path) -> None:
    async with gateway(tmp_path) as app:
        for late in range(3):
            async with running(app, f"return await odd.late({{ seconds: 0.05, late: {late} }});"):
                await until(lambda: open_calls(app) == 1)
        code = "return await Promise.all([1, 2, 3, 4].map((n) => odd.late({ seconds: 0.1, n })));"
        assert [answer["n"] for answer in await value(app, code)] == [1, 2, 3, 4]
        await until(lambda: app.manager.status("odd").stray_replies == 3)
