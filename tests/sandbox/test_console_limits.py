"""The console's two limits are the configuration's, in both kinds of isolation."""

from pathlib import Path

import pytest

from fixtures.modes import MODES
from fixtures.running import answer, running_app

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("isolation", MODES)
async def test_console_bytes_and_line_length_follow_the_configuration(tmp_path: Path, isolation: str) -> None:
    sandbox = {"isolation": isolation, "max_console_bytes": 1000, "max_console_line": 40}
    async with running_app(tmp_path, sandbox=sandbox) as app:
        text, failed, _ = await answer(
            app, "for (let i = 0; i < 500; i++) console.log('x'.repeat(100)); throw new Error('end');"
        )
    assert failed
    shown = [line for line in text.splitlines() if line.startswith("xxx")]
    assert shown
    assert all(line == "x" * 40 + "…" for line in shown)
    assert len(shown) == 1000 // 44  # 40 characters, the ellipsis in three bytes, the end of the line
    assert f"{500 - len(shown)} more lines dropped" in text


async def test_a_larger_console_keeps_more_than_the_default(tmp_path: Path) -> None:
    async with running_app(tmp_path, sandbox={"max_console_bytes": 1 << 20}) as app:
        session = app.new_session()
        session.client = "gatemini-test"  # a client that takes long texts
        code = "for (let i = 0; i < 5000; i++) console.log('line ' + i + ' '.repeat(50)); throw new Error('end');"
        result = await app.call_meta_tool("call_tool_chain", {"code": code}, session)
    assert "line 4999" in result["content"][0]["text"]
    assert "dropped" not in result["content"][0]["text"]
