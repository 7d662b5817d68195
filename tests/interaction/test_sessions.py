"""Sessions of one gateway: each has its own instance of a dedicated backend, and nothing of it outlives it."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from fixtures.backend_bench import ODD
from fixtures.running import running_app
from gatemini.app import App
from gatemini.protocol.sessions.client_session import Session

pytestmark = pytest.mark.anyio

ODD_ONE = {"command": sys.executable, "args": ["-I", "-S", str(ODD)], "instance_mode": "dedicated"}


@asynccontextmanager
async def gateway(tmp_path: Path, **pool: Any) -> AsyncIterator[App]:
    settings = {"replenish_delay": "10ms", **pool}
    async with running_app(tmp_path, {"demo": {**ODD_ONE, "pool": settings}}) as app:
        yield app


async def value(app: App, session: Session, code: str) -> Any:
    result = await app.surface(session).call_tool("call_tool_chain", {"code": code})
    assert not result["isError"], result["content"][0]["text"]
    return json.loads(result["content"][0]["text"])


PID = "return await demo.pid({});"


async def test_two_sessions_have_an_instance_each_in_every_tier(tmp_path: Path) -> None:
    tiers = [
        '{"tool": "demo.pid", "arguments": {}}',
        "demo.pid({})",
        "const p = await demo.pid({}); return p;",
    ]
    async with gateway(tmp_path) as app:
        one, two = app.new_session(), app.new_session()
        own, others = await value(app, one, PID), await value(app, two, PID)
        assert own != others
        for code in tiers:
            assert (await value(app, one, code), await value(app, two, code)) == (own, others)


async def test_the_end_of_a_session_ends_its_instance_and_a_fresh_one_takes_its_place(tmp_path: Path) -> None:
    async with gateway(tmp_path, min_idle=1) as app:
        session = app.new_session()
        own = await value(app, session, PID)
        with anyio.fail_after(60):
            while app.manager.status("demo").idle_instances != 1:  # noqa: ASYNC110 - there is no event
                await anyio.sleep(0.01)
        before = {child.pid for child in psutil.Process().children(recursive=True)}
        app.end_session(session)
        with anyio.fail_after(60):
            while before <= {child.pid for child in psutil.Process().children(recursive=True)}:  # noqa: ASYNC110
                await anyio.sleep(0.01)
            while app.manager.status("demo").idle_instances != 1:  # noqa: ASYNC110 - there is no event
                await anyio.sleep(0.01)
        assert await value(app, app.new_session(), PID) != own


async def test_a_session_over_the_limit_gets_an_error_that_names_the_limit(tmp_path: Path) -> None:
    async with gateway(tmp_path, min_idle=0, max_instances=1, acquire_timeout="50ms") as app:
        one, two = app.new_session(), app.new_session()
        await value(app, one, PID)
        refused = await app.surface(two).call_tool("call_tool_chain", {"code": PID})
        assert refused["isError"]
        assert "pool.max_instances" in refused["content"][0]["text"]
        app.end_session(one)
        with anyio.fail_after(60):
            while (await app.surface(two).call_tool("call_tool_chain", {"code": PID}))["isError"]:
                pass


async def test_http_has_no_instances_of_its_own_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    backend = {"url": "http://127.0.0.1:9/mcp", "instance_mode": "dedicated"}
    async with running_app(tmp_path, {"far": backend}) as app:
        assert app.manager.status("far").instances is None
    assert "instance_mode dedicated has no effect on streamable-http" in caplog.text
