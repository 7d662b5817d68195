"""What every store does, in memory and on a real Redis server, where `a` and `b` are the stores of two replicas."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple

import anyio
import pytest

from fixtures.redis_server import RedisServer, redis_running
from gatemini.state.memory import MemoryStore
from gatemini.state.redis import TRIMMED_MESSAGES
from gatemini.state.store import StateStore

pytestmark = pytest.mark.anyio


class Pair(NamedTuple):
    a: StateStore
    b: StateStore


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis_running() as server:
        yield server


@pytest.fixture(params=["memory", "redis"])
async def stores(request: pytest.FixtureRequest) -> AsyncIterator[Pair]:
    if request.param == "memory":
        store = MemoryStore()
        yield Pair(store, store)
        return
    server: RedisServer = request.getfixturevalue("server")
    prefix = f"{request.node.name}:"
    async with server.store(prefix).opened() as a, server.store(prefix).opened() as b:
        yield Pair(a, b)


async def until_gone(store: StateStore, key: str) -> None:
    with anyio.fail_after(60):
        while await store.get(key) != [None]:  # noqa: ASYNC110 - there is no event
            await anyio.sleep(0.005)


async def test_what_one_puts_the_other_gets(stores: Pair) -> None:
    await stores.a.put("result:s:1", b"\x00one", 60)
    assert await stores.b.get("result:s:1", "result:s:2") == [b"\x00one", None]
    await stores.b.put("result:s:1", b"two", 60)
    assert await stores.a.get("result:s:1") == [b"two"]
    await stores.a.delete("result:s:1", "result:s:2")
    assert await stores.b.get("result:s:1") == [None]
    assert await stores.a.get() == []


async def test_of_many_that_put_a_new_value_one_succeeds(stores: Pair) -> None:
    won: list[int] = []

    async def attempt(number: int) -> None:
        if await stores[number % 2].put_new("approval:x", str(number).encode(), 60):
            won.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(attempt, number)
    assert len(won) == 1
    assert await stores.b.get("approval:x") == [str(won[0]).encode()]


async def test_of_many_that_take_a_value_one_gets_it(stores: Pair) -> None:
    await stores.a.put("grant:x", b"g", 60)
    taken: list[bytes | None] = []

    async def attempt(number: int) -> None:
        taken.append(await stores[number % 2].take("grant:x"))

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(attempt, number)
    assert sorted(filter(None, taken)) == [b"g"]


async def test_a_value_ends_after_its_time_unless_it_is_renewed(stores: Pair) -> None:
    await stores.a.put("session:short", b"1", 0.05)
    await stores.a.put("session:renewed", b"1", 0.2)
    await stores.b.renew(60, "session:renewed", "session:unknown")
    await until_gone(stores.b, "session:short")
    assert await stores.a.put_new("session:short", b"2", 60)
    await stores.a.put("session:other", b"1", 0.2)
    await until_gone(stores.a, "session:other")
    assert await stores.a.get("session:renewed", "session:unknown") == [b"1", None]


async def test_a_list_grows_at_its_end_and_is_read_from_an_index_on(stores: Pair) -> None:
    assert await stores.a.append("journal:s:c", [b"1", b"2"], 60) == 2
    assert await stores.b.append("journal:s:c", [b"3"], 60) == 3
    assert await stores.a.append("journal:s:c", [], 60) == 3
    assert await stores.b.entries("journal:s:c") == [b"1", b"2", b"3"]
    assert await stores.b.entries("journal:s:c", 2) == [b"3"]
    assert await stores.b.entries("journal:s:other") == []
    await stores.a.cut("journal:s:c", 2)
    assert await stores.b.append("journal:s:c", [b"4", b"5"], 60, 3) == 3
    assert await stores.a.entries("journal:s:c") == [b"3", b"4", b"5"]
    await stores.a.cut("journal:s:c", 3)
    assert await stores.b.entries("journal:s:c") == []


async def test_a_set_has_each_member_once(stores: Pair) -> None:
    await stores.a.add("reads:s", ["mail", "crm"], 60)
    await stores.b.add("reads:s", ["crm", "wiki"], 60)
    await stores.b.add("reads:s", [], 60)
    assert await stores.a.members("reads:s") == {"mail", "crm", "wiki"}
    assert await stores.a.members("reads:t") == set()


async def test_a_counter_counts_for_both_and_its_time_runs_from_the_first_count(stores: Pair) -> None:
    assert await stores.a.count("budget:s", 2, 0.3) == 2
    assert await stores.b.count("budget:s", 3, 60) == 5
    with anyio.fail_after(60):
        while await stores.a.count("budget:s", 0, 60) != 0:  # noqa: ASYNC110 - there is no event
            await anyio.sleep(0.01)


async def test_a_limit_admits_a_burst_of_its_size_and_says_how_long_to_wait(stores: Pair) -> None:
    assert [await stores[i % 2].admit("rate:p", 5, 1000) for i in range(5)] == [0.0] * 5
    wait = await stores.a.admit("rate:p", 5, 1000)
    assert 190 < wait <= 200
    assert await stores.b.admit("rate:q", 5, 1000) == 0.0


async def test_uses_come_back_evenly(stores: Pair) -> None:
    for _ in range(10):
        await stores.a.admit("rate:p", 10, 1)
    with anyio.fail_after(60):
        while (wait := await stores.b.admit("rate:p", 10, 1)) > 0:
            assert wait <= 0.1001
            await anyio.sleep(wait)


async def test_concurrent_calls_over_both_replicas_keep_a_limit_to_one_percent(stores: Pair) -> None:
    admitted: list[float] = []
    limit, period = 1000, 3600.0

    async def calls(store: StateStore) -> None:
        for _ in range(100):
            if await store.admit("rate:p", limit, period) == 0:
                admitted.append(1)

    start = anyio.current_time()
    async with anyio.create_task_group() as tasks:
        for number in range(16):
            tasks.start_soon(calls, stores[number % 2])
    came_back = (anyio.current_time() - start) * limit / period
    assert limit <= len(admitted) <= limit * 1.01 + came_back


async def test_a_lease_has_one_owner_until_it_ends_or_is_given_up(stores: Pair) -> None:
    assert await stores.a.lease("lease:x", "a", 60)
    assert not await stores.b.lease("lease:x", "b", 60)
    await stores.b.release("lease:x", "b")
    assert await stores.a.lease("lease:x", "a", 60)
    assert await stores.b.leased_by("lease:x") == "a"
    await stores.a.release("lease:x", "a")
    assert await stores.b.leased_by("lease:x") is None
    assert await stores.b.lease("lease:x", "b", 0.05)
    with anyio.fail_after(60):
        while not await stores.a.lease("lease:x", "a", 60):  # noqa: ASYNC110 - there is no event
            await anyio.sleep(0.005)


async def test_messages_reach_all_that_listen(stores: Pair) -> None:
    async with (
        stores.a.listen("tools", "tokens") as one,
        stores.b.listen("tools") as two,
    ):
        await stores.a.publish("tools", b"1")
        await stores.b.publish("tokens", b"2")
        await stores.b.publish("other", b"3")
        await stores.b.publish("tools", b"4")
        assert [await received(one) for _ in range(3)] == [("tools", b"1"), ("tokens", b"2"), ("tools", b"4")]
        assert [await received(two) for _ in range(2)] == [("tools", b"1"), ("tools", b"4")]


async def test_a_second_listener_of_a_channel_is_served_and_the_end_of_one_leaves_the_other(
    stores: Pair,
) -> None:
    async with stores.a.listen("tools") as one:
        async with stores.a.listen("tools"):
            pass
        await stores.b.publish("tools", b"1")
        assert await received(one) == ("tools", b"1")
    async with stores.a.listen("tools") as again:
        await stores.b.publish("tools", b"2")
        assert await received(again) == ("tools", b"2")


async def received(messages: Any) -> Any:
    with anyio.fail_after(60):
        return await anext(messages)


async def test_a_stream_keeps_its_messages_for_a_later_reader_and_goes_on(stores: Pair) -> None:
    await stores.a.send("parked:x", b"1", 60)
    await stores.a.send("parked:x", b"2", 60)
    reader = stores.b.read("parked:x")
    assert [await received(reader), await received(reader)] == [b"1", b"2"]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stores.a.send, "parked:x", b"3", 60)
        assert await received(reader) == b"3"
    await reader.aclose()  # type: ignore[attr-defined]


async def test_what_the_reader_of_a_stream_has_had_does_not_stay_on_the_server(server: RedisServer) -> None:
    async with server.store("trimmed:").opened() as store:
        for number in range(TRIMMED_MESSAGES + 2):
            await store.send("to:x", str(number).encode(), 60)
        reader = store.read("to:x")
        for number in range(TRIMMED_MESSAGES + 2):
            assert await received(reader) == str(number).encode()
        await store.send("to:x", b"last", 60)
        assert await received(reader) == b"last"
        assert server.cli("XLEN", "trimmed:to:x").strip() in (b":1", b":2")
        await reader.aclose()  # type: ignore[attr-defined]


async def test_a_reader_waits_for_a_stream_that_does_not_exist_yet(stores: Pair) -> None:
    got: list[bytes] = []

    async def read(started: anyio.Event) -> None:
        started.set()
        got.append(await received(stores.b.read("parked:y")))

    async with anyio.create_task_group() as tasks:
        started = anyio.Event()
        tasks.start_soon(read, started)
        await started.wait()
        await stores.a.send("parked:y", b"1", 60)
    assert got == [b"1"]


async def test_only_a_store_on_a_server_is_shared(stores: Pair) -> None:
    assert stores.a.shared == (not isinstance(stores.a, MemoryStore))
    assert stores.a.problem is None
