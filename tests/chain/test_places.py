"""Places for guests: chains that wait for calls leave them to others, and waiting for one is named."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from fixtures.running import answer, running_app
from gatemini.errors import ChainTimeout

pytestmark = pytest.mark.anyio


async def test_a_chain_that_waits_for_a_call_keeps_no_other_from_running(tmp_path: Path) -> None:
    ended: list[str] = []
    async with running_app(tmp_path, sandbox={"max_concurrent_sandboxes": 1}) as app:

        async def run(name: str, code: str) -> None:
            text, is_error, _ = await answer(app, code)
            assert not is_error, text
            ended.append(name)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, "waiting", "let x = await demo.sleep({ ms: 1500, tag: 't' }); return [x];")
            tasks.start_soon(run, "other", "let y = 1; return y + 1;")
    assert ended == ["other", "waiting"]


def test_a_timeout_that_other_chains_caused_says_so() -> None:
    assert "2,000 ms, of which it waited 1,500 ms" in ChainTimeout.after(2, 1.5).message
    assert "waited" not in ChainTimeout.after(2, 0.5).message
