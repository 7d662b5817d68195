"""Requests that a balancer sends again while the first is in progress or being cancelled."""

from __future__ import annotations

import anyio
import pytest

from gatemini.http.exchange import Exchange
from gatemini.http.retries import Key, Retries

pytestmark = pytest.mark.anyio
KEY: Key = (("principal", ""), "session", 1, b"digest")


def exchange() -> Exchange:
    return Exchange({"type": "http"}, b"", lambda exchange: None)


async def test_of_two_repeats_of_a_cancelled_request_one_begins_and_the_other_joins_it() -> None:
    retries, cancelled = Retries(), exchange()
    retries.begin(KEY, cancelled)
    cancelled.leave()
    begun: list[Exchange] = []
    joined: list[Exchange] = []

    async def repeat() -> None:
        found = await retries.join(KEY)
        if found is not None:
            joined.append(found)
            return
        begun.append(exchange())
        retries.begin(KEY, begun[-1])

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(repeat)
            tasks.start_soon(repeat)
            await anyio.wait_all_tasks_blocked()
            retries.end(KEY, cancelled)
            cancelled.ended.set()
    assert len(begun) == 1
    assert joined == begun
