"""How long one call of a chain may take: the chain's time, the backend's own limit, and progress."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from fixtures.backend_bench import ODD
from fixtures.running import answer, running_app
from gatemini.chain import run
from gatemini.chain.answer import compose

pytestmark = pytest.mark.anyio

SLOW_SECONDS = 0.3
LATE = 'return await odd.late({ seconds: 1.5, value: "late" });'


def odd(**keys: Any) -> dict[str, dict[str, Any]]:
    return {"odd": {"command": sys.executable, "args": ["-I", "-S", str(ODD), "{}"], **keys}}


async def test_the_limit_of_a_backend_holds_in_a_chain_that_has_more_time(tmp_path: Path) -> None:
    async with running_app(tmp_path, odd(timeout="300ms")) as app:
        text, failed, _ = await answer(app, LATE, timeout=60_000)
        assert failed
        assert "within 0.3 s (backends.odd.timeout)" in text


async def test_progress_keeps_a_call_alive_beyond_the_limit_but_not_beyond_the_chain(tmp_path: Path) -> None:
    code = "return await odd.progress({ steps: 8, pause: 0.25 });"
    async with running_app(tmp_path, odd(timeout="1500ms")) as app:
        text, failed, _ = await answer(app, code, timeout=60_000)
        assert not failed, text
        text, failed, meta = await answer(app, code, timeout=700)
        assert failed
        assert "ChainTimeout" in text
        assert meta["calls"][0]["outcome"] == "cancelled"


@pytest.mark.long
async def test_a_chain_with_more_time_than_the_default_gives_it_to_its_calls(tmp_path: Path) -> None:
    async with running_app(tmp_path, odd()) as app:
        for code in (LATE, f"const x = 1; {LATE}"):
            text, failed, _ = await answer(app, code.replace("1.5", "31"), timeout=60_000)
            assert not failed, text


async def test_reducing_the_value_is_not_part_of_the_chains_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slow(*given: Any, **more: Any) -> Any:
        await anyio.sleep(SLOW_SECONDS)
        return await compose(*given, **more)

    monkeypatch.setattr(run, "compose", slow)
    async with running_app(tmp_path) as app:
        begun = time.monotonic()
        _, failed, meta = await answer(app, "const x = 1; return x;")
        took = (time.monotonic() - begun) * 1000
    assert not failed
    assert meta["ms"] <= took - SLOW_SECONDS * 1000
