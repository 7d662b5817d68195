"""The bytes of every call are counted, whatever its outcome."""

import sys
from pathlib import Path
from typing import Any

import pytest

from fixtures.direct import DEMO_SERVER
from fixtures.running import running_app

OVER_A_PIPE = {"demo": {"command": sys.executable, "args": ["-P", str(DEMO_SERVER)]}}
pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("backends", [None, OVER_A_PIPE], ids=["in process", "over a pipe"])
async def test_the_bytes_of_raw_and_failed_calls_are_counted_too(tmp_path: Path, backends: Any) -> None:
    async with running_app(tmp_path, *([backends] if backends else [])) as app:
        for code in (
            "const r = await demo.echo({ a: 1 }); return 1;",
            "const r = await demo.echo.raw({ a: 1 }); return 1;",
            "return await demo.fail({ message: 'no' });",
        ):
            await app.call_meta_tool("call_tool_chain", {"code": code})
        counted = [call["bytes"] for call in app.tracker.recent(3)]
    assert all(size > 0 for size in counted), counted


async def test_a_call_counts_with_the_size_of_its_json_and_an_answer_with_that_of_its_value(
    tmp_path: Path,
) -> None:
    async with running_app(tmp_path) as app:
        await app.call_meta_tool("call_tool_chain", {"code": "return (await demo.rows({ n: 300 })).length;"})
        await app.call_meta_tool(
            "call_tool_chain", {"code": "return JSON.stringify(await demo.rows({ n: 300 }));"}
        )
        (first, again) = app.tracker.recent(2)
        answers = app.tracker.stats()["per_call"]
    assert first["bytes"] == again["bytes"] > 9_000
    small, large = (answer["processed"] for answer in answers)
    assert small == len("300")
    assert 9_000 < large < first["bytes"], "the table of it has fewer bytes"
