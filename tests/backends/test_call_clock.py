"""The timer of one request pauses while the client answers a question."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from gatemini.backends.conversation.call_clock import CallClock

pytestmark = pytest.mark.anyio

SHORT = 0.01
NEVER = 600.0
BOUND = 20.0


async def test_a_paused_timer_resumes_with_the_remaining_time() -> None:
    over, later = anyio.Event(), anyio.Event()
    clock = CallClock(SHORT, over.set)
    clock.pause()
    asyncio.get_running_loop().call_later(4 * SHORT, later.set)
    with anyio.fail_after(BOUND):
        await later.wait()
        assert not over.is_set()
        clock.resume()
        await over.wait()


async def test_a_second_pause_changes_nothing() -> None:
    over = anyio.Event()
    clock = CallClock(NEVER, over.set)
    clock.pause()
    clock.pause()
    assert clock.left == pytest.approx(NEVER, abs=BOUND)
    clock.resume()
    clock.stop()
