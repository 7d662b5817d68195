"""What a call brought is counted, whatever became of it."""

import sys
from pathlib import Path

import pytest

from fixtures.direct import DEMO_SERVER
from fixtures.running import running_app

pytestmark = pytest.mark.anyio


async def test_the_bytes_of_raw_and_failed_calls_are_counted_too(tmp_path: Path) -> None:
    # Over a pipe: only there does an answer have a size.
    async with running_app(
        tmp_path, {"demo": {"command": sys.executable, "args": ["-P", str(DEMO_SERVER)]}}
    ) as app:
        for code in (
            "const r = await demo.echo({ a: 1 }); return 1;",
            "const r = await demo.echo.raw({ a: 1 }); return 1;",
            "return await demo.fail({ message: 'no' });",
        ):
            await app.call_meta_tool("call_tool_chain", {"code": code})
        counted = [call["bytes"] for call in app.tracker.recent(3)]
    assert all(size > 0 for size in counted), counted
