"""The timer of one request pauses while the client answers a question."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from gatemini.backends.conversation.call_clock import CallClock

pytestmark = pytest.mark.anyio

SHORT = 0.01
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
