"""What the store of several replicas does while its server is gone, and when it is back."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from fixtures.redis_server import KEY, RedisServer, redis_running, redis_server
from fixtures.running import until
from gatemini.errors import StateUnavailable
from gatemini.state import redis_commands
from gatemini.state.redis import RedisStore
from gatemini.state.redis_commands import OPERATION_SECONDS, Commands

__all__ = ["redis_server"]
pytestmark = pytest.mark.anyio


async def test_operations_fail_at_once_without_a_server_and_work_again_when_it_is_back(
    redis_server: RedisServer,
) -> None:
    async with redis_server.store().opened() as store:
        await store.put("session:x", b"1", 600)
        assert await store.admit("rate:p", 1, 3600) == 0
        await anyio.to_thread.run_sync(redis_server.stop)
        await until(lambda: store.problem is not None)
        with anyio.fail_after(5), pytest.raises(StateUnavailable, match="the state store cannot be reached"):
            await store.get("session:x")
        await anyio.to_thread.run_sync(redis_server.start)
        await until(lambda: store.problem is None)
        assert await store.get("session:x") == [b"1"]
        assert await store.admit("rate:p", 1, 3600) > 0


async def test_operations_wait_for_a_server_that_restarts(redis_server: RedisServer) -> None:
    async with redis_server.store().opened() as store:
        await store.put("session:x", b"1", 600)
        await anyio.to_thread.run_sync(redis_server.stop)
        found: list[object] = []

        async def use() -> None:
            found.extend(await store.get("session:x"))
            found.append(await store.put_new("session:x", b"2", 600))
            found.append(await store.append("journal:x", [b"3"], 600))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(use)
            await anyio.wait_all_tasks_blocked()
            await anyio.to_thread.run_sync(redis_server.start)
        assert found == [b"1", False, 1]
        assert store.problem is None


async def test_what_was_sent_when_the_server_went_is_sent_again_unless_that_might_do_it_twice(
    redis_server: RedisServer,
) -> None:
    async with redis_server.store().opened() as store:
        await store.put("grant:x", b"1", 600)
        outcomes: list[object] = []

        async def use(operation: Callable[[], Awaitable[object]]) -> None:
            try:
                outcomes.append(await operation())
            except StateUnavailable as error:
                outcomes.append(error.message)

        with redis_server.paused():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(use, partial(store.get, "grant:x"))
                tasks.start_soon(use, partial(store.put_new, "claim:x", b"1", 600))
                tasks.start_soon(use, partial(store.take, "grant:x"))
                await anyio.wait_all_tasks_blocked()
                redis_server.kill()
                await anyio.to_thread.run_sync(redis_server.start)
        assert sorted(outcomes, key=str) == [
            True,
            [b"1"],
            "the state store cannot be reached: the connection broke before the answer",
        ]


async def test_a_server_without_memory_is_named_as_one_that_refuses(redis_server: RedisServer) -> None:
    async with redis_server.store().opened() as store:
        redis_server.cli("CONFIG", "SET", "maxmemory", "1")
        with pytest.raises(StateUnavailable, match=r"refused a command: .*maxmemory"):
            await store.put("x", b"1", 60)
        assert await store.get("x") == [None]


async def test_listeners_and_readers_go_on_after_an_outage(redis_server: RedisServer) -> None:
    async with redis_server.store().opened() as a, redis_server.store().opened() as b:
        reader = a.read("parked:x")
        async with a.listen("tools") as messages:
            await b.send("parked:x", b"1", 600)
            assert await anext(reader) == b"1"
            await anyio.to_thread.run_sync(redis_server.stop)
            await until(lambda: a.problem is not None and b.problem is not None)
            with pytest.raises(StateUnavailable):
                async with a.listen("other"):
                    pass
            await anyio.to_thread.run_sync(redis_server.start)
            await until(lambda: a.problem is None and b.problem is None)
            await b.send("parked:x", b"2", 600)
            with anyio.fail_after(60):
                assert await anext(reader) == b"2"
            async with a.listen("tools"):  # which waits until the channel is subscribed to again
                await b.publish("tools", b"3")
            with anyio.fail_after(60):
                assert await anext(messages) == ("tools", b"3")


async def test_a_server_that_hangs_costs_one_operation_its_time_and_is_noticed_without_traffic(
    redis_server: RedisServer,
) -> None:
    async with redis_server.store().opened() as store:
        await store.put("session:x", b"1", 600)
        with redis_server.paused():
            start = anyio.current_time()
            with pytest.raises(StateUnavailable):
                await store.get("session:x")
            assert anyio.current_time() - start < 10 * OPERATION_SECONDS
            await until(lambda: store.problem is not None)
        await until(lambda: store.problem is None)
        assert await store.get("session:x") == [b"1"]


async def test_an_operation_that_is_cancelled_leaves_no_answer_to_the_next(redis_server: RedisServer) -> None:
    async with redis_server.store().opened() as store:
        for number in range(50):
            await store.put(f"session:{number}", str(number).encode(), 600)
        for number in range(50):
            with anyio.move_on_after(0.0005 * (number % 3)):
                await store.get(f"session:{number}")
            following = (number + 1) % 50
            assert await store.get(f"session:{following}") == [str(following).encode()]


async def test_an_answer_without_a_command_ends_the_connection_and_not_the_gateway() -> None:
    connections: list[Odd] = []

    class Odd:
        """A connection that answers each command, the first one also once before its first command."""

        def __init__(self) -> None:
            self.answers = ["PONG"] if connections else ["PONG", "unasked"]
            self.more = anyio.Event()
            connections.append(self)

        def pack_command(self, *words: object) -> list[object]:
            return [words]

        async def send_command(self, *words: object) -> None:
            await anyio.lowlevel.checkpoint()

        async def send_packed_command(self, packed: list[object], check_health: bool) -> None:
            self.answers += ["sent"] * len(packed)
            self.more.set()

        async def read_response(self, disable_decoding: bool = False) -> str:
            if not self.answers:
                self.more = anyio.Event()
                await self.more.wait()
            return self.answers.pop(0)

        async def disconnect(self, nowait: bool = False) -> None:
            pass

    class Pool:
        def make_connection(self) -> Odd:
            return Odd()

    commands = Commands(Pool(), anyio.lowlevel.checkpoint)  # type: ignore[arg-type]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(commands.run)
        assert await commands.call("GET", "x") == "sent"
        tasks.cancel_scope.cancel()
    assert len(connections) == 2


@contextmanager
def one_address(first: RedisServer, second: RedisServer) -> Iterator[tuple[str, Callable[[], None]]]:
    """(an address that leads to the first server, what a failover to the second does); it ends no connection."""
    with tempfile.TemporaryDirectory(prefix="redis") as folder:
        address = Path(folder) / "sock"
        address.symlink_to(first.socket)

        def fail_over() -> None:
            (Path(folder) / "new").symlink_to(second.socket)
            (Path(folder) / "new").replace(address)
            assert first.cli("REPLICAOF", "127.0.0.1", "1") == b"+OK\r\n"

        yield f"redis+unix://{address}", fail_over


@pytest.mark.parametrize("operation", ["put", "lease", "send"])
async def test_a_server_that_becomes_a_replica_is_left_for_the_one_at_its_address(
    operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the first operation is: a command, a script, or one that is not sent twice."""
    monkeypatch.setattr(redis_commands, "SETTLED_SECONDS", 0.0)
    with redis_running() as first, redis_running() as second, one_address(first, second) as (url, fail_over):
        async with RedisStore(url, "gatemini:", [KEY]).opened() as store, store.listen("news") as news:
            await store.put("session:x", b"1", 600)
            reader = store.read("to:x")
            await store.send("to:x", b"before", 600)
            assert await anext(reader) == b"before"
            await anyio.to_thread.run_sync(fail_over)
            use: dict[str, Callable[[], Awaitable[object]]] = {
                "put": partial(store.put, "session:x", b"2", 600),
                "lease": partial(store.lease, "lease:x", "a", 600),
                "send": partial(store.send, "to:x", b"after", 600),
            }
            await use[operation]()
            assert second.cli("DBSIZE") == b":1\r\n"
            await store.send("to:x", b"last", 600)
            with anyio.fail_after(60):
                assert await anext(reader) in (b"after", b"last")
                while True:  # the subscription is made anew, too
                    await store.publish("news", b"1")
                    with anyio.move_on_after(0.1):
                        assert await anext(aiter(news)) == ("news", b"1")
                        break
            await reader.aclose()  # type: ignore[attr-defined]


async def test_a_server_that_stays_a_replica_refuses_at_once_and_serves_again_as_a_primary(
    redis_server: RedisServer,
) -> None:
    async with redis_server.store().opened() as store:
        await store.put("session:x", b"1", 600)
        await anyio.to_thread.run_sync(redis_server.cli, "REPLICAOF", "127.0.0.1", "1")
        with (
            anyio.fail_after(OPERATION_SECONDS - 0.5),
            pytest.raises(StateUnavailable, match="read only replica"),
        ):
            await store.put("session:x", b"2", 600)
        await anyio.to_thread.run_sync(redis_server.cli, "REPLICAOF", "NO", "ONE")
        await store.put("session:x", b"3", 600)
        assert await store.get("session:x") == [b"3"]
