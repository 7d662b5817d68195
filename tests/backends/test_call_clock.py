"""The time of one request: it runs out once, stands still while somebody is asked, and stops with the request."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from gatemini.backends.conversation.call_clock import CallClock

pytestmark = pytest.mark.anyio

SHORT = 0.01
NEVER = 600.0
BOUND = 20.0


async def test_it_is_over_when_the_seconds_have_run() -> None:
    over = anyio.Event()
    CallClock(SHORT, over.set)
    with anyio.fail_after(BOUND):
        await over.wait()


async def test_one_that_was_stopped_is_never_over() -> None:
    over, later = anyio.Event(), anyio.Event()
    clock = CallClock(SHORT, over.set)
    clock.stop()
    asyncio.get_running_loop().call_later(4 * SHORT, later.set)
    with anyio.fail_after(BOUND):
        await later.wait()
    assert not over.is_set()


async def test_it_stands_still_until_it_goes_on_with_what_was_left() -> None:
    over, later = anyio.Event(), anyio.Event()
    clock = CallClock(SHORT, over.set)
    clock.pause()
    asyncio.get_running_loop().call_later(4 * SHORT, later.set)
    with anyio.fail_after(BOUND):
        await later.wait()
        assert not over.is_set()
        clock.resume()
        await over.wait()


async def test_pausing_twice_keeps_what_was_left_the_first_time() -> None:
    over = anyio.Event()
    clock = CallClock(NEVER, over.set)
    clock.pause()
    clock.pause()
    assert clock.left == pytest.approx(NEVER, abs=BOUND)
    clock.resume()
    clock.stop()
