"""The fixture backend `demo`: in-process and as a process it answers alike, in both protocol eras."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.context import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult

from fixtures.demo_server import server

pytestmark = pytest.mark.anyio

SCRIPT = Path(__file__).parents[1] / "fixtures" / "demo_server.py"


async def yes(_ctx: ClientRequestContext, _params: ElicitRequestParams) -> ElicitResult:
    return ElicitResult(action="accept", content={"ok": True})


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_question_is_asked_in_the_form_of_the_era(mode: str) -> None:
    async with Client(server, mode=mode, elicitation_callback=yes) as client:
        result = await client.call_tool("confirm", {"q": "go on?"})
    assert result.structured_content == {"ok": True, "action": "accept"}


async def test_writes_are_counted_for_one_connection() -> None:
    async with Client(server) as client:
        await client.call_tool("write", {"key": "a", "value": 1})
        await client.call_tool("write", {"key": "a", "value": 2})
        stats = (await client.call_tool("stats")).structured_content
    assert (stats["writes"], stats["written"]) == (2, {"a": 2})


async def test_a_cancelled_sleep_is_counted() -> None:
    async with Client(server) as client:
        with anyio.move_on_after(0.05):
            await client.call_tool("sleep", {"ms": 60_000})
        stats = (await client.call_tool("stats")).structured_content
    assert stats["cancelled"] == 1


async def test_progress_arrives_step_by_step() -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with Client(server) as client:
        await client.call_tool("progress", {"n": 2}, progress_callback=note)
    assert seen == [(1, 2, "step 1"), (2, 2, "step 2")]


async def test_as_a_process_it_gives_every_kind_of_block() -> None:
    parameters = StdioServerParameters(command=sys.executable, args=["-P", str(SCRIPT)])
    async with Client(parameters) as client:
        kinds = {}
        for tool in ("echo", "image", "audio", "link", "embedded", "mixed", "nothing"):
            result = await client.call_tool(tool, {})
            kinds[tool] = [block.type for block in result.content]
        failed = await client.call_tool("fail", {"message": "boom"})
    assert kinds == {
        "echo": ["text"],
        "image": ["image"],
        "audio": ["audio"],
        "link": ["resource_link"],
        "embedded": ["resource", "resource"],
        "mixed": ["text", "image", "text"],
        "nothing": [],
    }
    assert failed.is_error
