"""The results of a session in the shared store, written by several calls at once and through outages."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from gatemini.errors import StateUnavailable
from gatemini.output.store.results import ResultStore
from gatemini.policy.flow.labels import Held
from gatemini.state import session_results
from gatemini.state.memory import MemoryStore
from gatemini.state.session_labels import SessionLabels
from gatemini.state.session_results import SessionResults

pytestmark = pytest.mark.anyio


class SlowStore(MemoryStore):
    """A store that lets other tasks run before each write, and fails the writes of keys in `failing`."""

    failing: tuple[str, ...] = ()

    async def put(self, key: str, value: bytes, ttl: float) -> None:
        await anyio.lowlevel.checkpoint()
        if key.startswith(self.failing):
            raise StateUnavailable("the server is down")
        await super().put(key, value, ttl)


def session(store: MemoryStore) -> tuple[ResultStore, SessionResults]:
    results = ResultStore()
    shared = SessionResults(store, "s", results, 60)
    results.replicas = shared
    return results, shared


async def listed(store: MemoryStore) -> list[dict[str, Any]]:
    _, other = session(store)
    await other.look()
    return other.elsewhere()


async def test_calls_that_end_at_once_write_each_result_and_wait_until_it_is_there() -> None:
    store = SlowStore()
    results, shared = session(store)

    async def call(number: int) -> None:
        handle = results.save([number])
        await shared.flush()
        assert await store.get(f"result:s:{handle}") != [None]

    async with anyio.create_task_group() as tasks:
        for number in range(5):
            tasks.start_soon(call, number)
    assert len(await listed(store)) == 5


async def test_results_are_listed_after_an_outage_in_the_middle_of_writing() -> None:
    store = SlowStore()
    results, shared = session(store)
    first, second = results.save([1]), results.save([2])
    store.failing = (f"result:s:{second}",)
    await shared.flush()
    store.failing = ()
    await shared.flush()
    assert [each["handle"] for each in await listed(store)] == [first, second]


async def test_an_outage_keeps_only_the_latest_results_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_results, "WAITING_BYTES", 10)
    store = SlowStore()
    results, shared = session(store)
    store.failing = ("result:",)
    handles = []
    for _ in range(3):
        handles.append(results.save(text="abcd"))
        await shared.flush()
    results.drop(handles[2])
    await shared.flush()
    store.failing = ()
    await shared.flush()
    assert [each["handle"] for each in await listed(store)] == handles[1:2]


async def test_results_that_an_outage_has_lost_take_no_room_in_the_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session_results, "WAITING_BYTES", 4)
    monkeypatch.setattr(session_results, "SHARED_BYTES", 8)
    store = SlowStore()
    results, shared = session(store)
    store.failing = ("result:",)
    handles = [results.save(text=data) for data in ("abcd", "efgh")]
    await shared.flush()
    store.failing = ()
    handles.append(results.save(text="ijkl"))
    await shared.flush()
    assert [each["handle"] for each in await listed(store)] == handles[1:]


async def test_results_beyond_what_a_session_may_have_in_the_store_stay_with_their_replica(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session_results, "SHARED_BYTES", 10)
    store = SlowStore()
    results, shared = session(store)
    handles = [results.save(text=data) for data in ("abcd", "efgh", "ijkl", "m")]
    await shared.flush()
    assert [each["handle"] for each in await listed(store)] == [*handles[:2], handles[3]]
    results.drop(handles[0])
    handles.append(results.save(text="nopq"))
    await shared.flush()
    assert [each["handle"] for each in await listed(store)] == [handles[1], *handles[3:]]
    assert handles[2] in results


async def test_labels_of_a_session_that_goes_on_calling_are_never_lost() -> None:
    now = 0.0
    store = MemoryStore(lambda: now)

    def replica() -> tuple[Held, SessionLabels]:
        held = Held()
        return held, SessionLabels(store, "s", held, lambda: True, clock=lambda: now)

    held, labels = replica()
    held.add(("private",), "mail.read")
    await labels.flush()
    for _ in range(100):
        now += 20 * 3600.0
        await labels.learn()
    other, its = replica()
    await its.learn()
    assert other.reads("private") == "mail.read"


async def test_labels_are_renewed_by_the_next_call_where_the_store_was_away() -> None:
    class Store(MemoryStore):
        away = False

        async def renew(self, ttl: float, *keys: str) -> None:
            if self.away:
                raise StateUnavailable("away")
            await super().renew(ttl, *keys)

    now = 0.0
    store = Store(lambda: now)
    held = Held()
    labels = SessionLabels(store, "s", held, lambda: True, idle=48 * 3600.0, clock=lambda: now)
    held.add(("private",), "mail.read")
    await labels.flush()
    await labels.learn()
    now, store.away = 3700.0, True
    with pytest.raises(StateUnavailable):
        await labels.learn()
    now, store.away = 7200.0, False
    await labels.learn()
    now += 48 * 3600.0
    assert await store.members("reads:s")
