"""Claims of requests, by which replicas find the one that serves a repeated request."""

from __future__ import annotations

import anyio
import pytest

from gatemini.http.replicas.claims import Claim, Claims
from gatemini.http.retries import Key
from gatemini.state.memory import MemoryStore

pytestmark = pytest.mark.anyio
KEY: Key = (("principal", ""), "session", 1, b"digest")


async def test_the_claim_of_a_request_that_was_answered_is_free_again() -> None:
    store = MemoryStore()
    one, two = Claims(store, "one"), Claims(store, "two")
    assert await one.take(KEY, "first") is None
    assert await two.take(KEY, "second") == Claim("one", "first")
    await one.release(KEY)
    assert await two.take(KEY, "second") is None


async def test_an_equal_request_right_after_the_answer_keeps_its_own_claim() -> None:
    store = MemoryStore()
    one, two = Claims(store, "one"), Claims(store, "two")
    await one.take(KEY, "first")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one.release, KEY)
        await anyio.wait_all_tasks_blocked()
        assert await one.take(KEY, "again") is None
    assert await two.take(KEY, "second") == Claim("one", "again")


async def test_one_replica_takes_over_the_claim_of_one_that_is_gone() -> None:
    store = MemoryStore()
    gone, one, two = (Claims(store, name) for name in ("gone", "one", "two"))
    await gone.take(KEY, "first")
    claim = await one.take(KEY, "second")
    assert claim == await two.take(KEY, "third") == Claim("gone", "first")
    assert await one.take_over(KEY, claim, "second")
    assert not await two.take_over(KEY, claim, "third")
    again = await two.take(KEY, "third")
    assert again == Claim("one", "second")
    assert await two.take_over(KEY, again, "third")
