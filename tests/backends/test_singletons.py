"""A backend of `instance_mode: singleton`: two managers on one store share one process, wherever a call comes in."""

from __future__ import annotations

import functools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import anyio
import psutil
import pytest

from fixtures.backend_bench import TEST_SECONDS, Bench, odd_config, running_bench
from gatemini.backends.calls.callers import Caller
from gatemini.backends.calls.failures import MAY_HAVE_RUN
from gatemini.backends.calls.large_messages import in_full
from gatemini.backends.singleton import links
from gatemini.backends.singleton.messages import request_of
from gatemini.backends.singleton.singletons import Singletons
from gatemini.backends.status import State
from gatemini.backends.transports.interface import Link, Receiver
from gatemini.backends.transports.opening import open_never
from gatemini.backends.wire import encode
from gatemini.config.model.schema import BackendConfig, HealthConfig
from gatemini.errors import BackendBusy, BackendCrashed, BackendProtocol, BackendTimeout
from gatemini.processes.children import Children
from gatemini.state.memory import MemoryStore
from gatemini.state.replicas import lease
from gatemini.state.replicas.peers import Peers

pytestmark = pytest.mark.anyio
ERAS = pytest.mark.parametrize("discover", ["error", "modern"])


class Store(MemoryStore):
    """A store that two managers share."""

    shared = True


@asynccontextmanager
async def bench_of(
    folder: Path, store: MemoryStore, replica: str, health: HealthConfig | None = None
) -> AsyncIterator[Bench]:
    peers = Peers(store, replica)
    async with anyio.create_task_group() as tasks, running_bench(folder, peers=peers, health=health) as bench:
        await tasks.start(peers.run)
        while not await peers.alive(replica) or (await store.get(f"alive:{replica}"))[0] is None:  # noqa: ASYNC110
            await anyio.sleep(0.001)
        yield bench
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def two(tmp_path: Path, *, options: Any = None, **keys: Any) -> AsyncIterator[tuple[Bench, Bench]]:
    """(the replica that runs the backend, the other one)."""
    store, health = Store(), HealthConfig(backoff_initial=0.01)
    async with bench_of(tmp_path / "one", store, "one", health) as one:
        await one.odd(options=options, instance_mode="singleton", **keys)
        async with bench_of(tmp_path / "two", store, "two", health) as other:
            await other.odd(options=options, instance_mode="singleton", **keys)
            yield one, other


async def raised(bench: Bench, tool: str, **arguments: Any) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the caller looks at it
        await bench.call(tool, arguments)
    return caught.value


@ERAS
async def test_two_replicas_have_one_process_and_its_tools(tmp_path: Path, discover: str) -> None:
    async with two(tmp_path, options={"on_discover": discover}) as (one, other):
        pid = await one.value("pid")
        assert await other.value("pid") == pid
        assert one.manager.status("odd").pid == pid
        assert other.manager.status("odd").pid is None
        assert other.manager.status("odd").era == one.manager.status("odd").era
        assert [t.name for t in other.tools["odd"] or []] == [t.name for t in one.tools["odd"] or []]
        assert len((await other.call("big", {"bytes": 3 << 20})).result["content"][0]["text"]) == 3 << 20
        assert await other.value("echo", {"x": ["ö" * 40_000]}) == {"x": ["ö" * 40_000]}
        error = await raised(
            other, "raw", text='{"jsonrpc":"2.0","id":ID,"error":{"code":-7,"message":"no"}}\n'
        )
        assert isinstance(error, BackendProtocol)
        assert (error.rpc_code, error.message) == (-7, "no")


async def test_odd_arguments_arrive_as_they_do_without_a_second_replica(tmp_path: Path) -> None:
    odd = {"integer": 2**70, "half": "\ud800", "float": 1e300, "text": "\u2028"}
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    async with two(tmp_path) as (one, other):
        assert await other.value("echo", odd) == await one.value("echo", odd)
        error = await raised(other, "echo", deep=deep)
        assert isinstance(error, BackendProtocol)
        assert "nested too deeply" in error.message
        assert await other.value("pid") == await one.value("pid")


async def test_a_structured_answer_of_megabytes_comes_whole(tmp_path: Path) -> None:
    value = {"rows": [{"name": f"row {n}", "text": "ü" * 500} for n in range(2000)]}
    result = {"content": [{"type": "text", "text": json.dumps(value)}], "structuredContent": value}
    async with two(tmp_path) as (one, other):
        for bench in (one, other):
            assert in_full((await bench.call("result", {"result": result})).result) == result


@ERAS
async def test_progress_and_cancels_reach_the_one_process(tmp_path: Path, discover: str) -> None:
    async with two(tmp_path, options={"on_discover": discover}) as (_, other):
        found: list[float] = []
        await other.manager.call_tool(
            "odd", "progress", {"steps": 3}, timeout=TEST_SECONDS, on_progress=lambda p, *_: found.append(p)
        )
        assert found == [1, 2, 3]
        with pytest.raises(BackendTimeout):
            await other.call("hang", timeout=0.05)
        with anyio.move_on_after(0.05):
            await other.call("hang")
        with anyio.fail_after(TEST_SECONDS):
            while len(await other.value("cancelled")) < 2:  # noqa: ASYNC110 - there is no event
                await anyio.sleep(0.01)


async def test_a_question_reaches_the_client_behind_the_call_and_no_other(tmp_path: Path) -> None:
    async with two(tmp_path) as (one, other):

        async def answer(method: str, params: Any) -> Any:
            return {"action": "accept", "content": {"method": method}}

        async def ask(bench: Bench) -> Any:
            outcome = await bench.manager.call_tool(
                "odd",
                "ask",
                {"method": "elicitation/create"},
                timeout=TEST_SECONDS,
                caller=Caller(session="s", ask=answer),
            )
            return json.loads(outcome.result["content"][0]["text"])

        assert (await ask(other))["result"]["content"] == {"method": "elicitation/create"}
        assert (await ask(one))["result"]["action"] == "accept"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one.call, "hang")
            await Bench.until_true(lambda: one.manager.status("odd").calls_open == 1)
            assert "several clients" in (await ask(other))["error"]["message"]
            tasks.cancel_scope.cancel()


@ERAS
async def test_a_change_of_the_tools_reaches_all_replicas(tmp_path: Path, discover: str) -> None:
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("set_tools", "fresh")]
    async with two(tmp_path, options={"on_discover": discover}) as (one, other):
        await other.call("set_tools", {"tools": tools})
        for bench in (one, other):
            await bench.until(lambda bench=bench: "fresh" in [t.name for t in bench.tools["odd"] or []])


async def test_the_limits_of_a_backend_hold_for_its_one_process(tmp_path: Path) -> None:
    limits = {"max_concurrent_calls": 1, "semaphore_timeout": "50ms", "retry": {"max_retries": 0}}
    async with two(tmp_path, **limits) as (one, other), anyio.create_task_group() as tasks:
        tasks.start_soon(other.call, "hang")
        await Bench.until_true(lambda: one.manager.status("odd").calls_open == 1)
        assert isinstance(await raised(one, "pid"), BackendBusy)
        tasks.cancel_scope.cancel()


async def test_a_crash_is_the_error_of_the_open_call_and_one_replica_starts_it_again(tmp_path: Path) -> None:
    async with two(tmp_path) as (one, other):
        before = await other.value("pid")
        error = await raised(other, "die", code=3)
        assert isinstance(error, BackendCrashed)
        assert error.sent
        assert "look" in (error.hint or "")
        assert "exited with code 3" in error.message
        assert await other.value("pid") == await one.value("pid") != before


async def test_a_replica_that_stops_hands_it_over_after_its_open_calls(tmp_path: Path) -> None:
    release = tmp_path / "release"
    async with two(tmp_path) as (one, other), anyio.create_task_group() as tasks:
        before, answers = await one.value("pid"), dict[str, Any]()

        async def call(tool: str, **arguments: Any) -> None:
            answers[tool] = await other.value(tool, arguments)

        tasks.start_soon(functools.partial(call, "late_until", exists=str(release)))
        await Bench.until_true(lambda: one.manager.status("odd").calls_open == 1)
        tasks.start_soon(one.manager.singletons.hand_over)
        await other.until(lambda: other.manager.state("odd") is State.STARTING)
        tasks.start_soon(call, "pid")
        release.touch()
        await Bench.until_true(lambda: len(answers) == 2)
        assert answers["late_until"] == {"exists": str(release)}
        assert before != answers["pid"] == other.manager.status("odd").pid


async def test_a_replica_whose_lease_is_over_writes_nothing_and_ends_its_process(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    async with two(tmp_path, options={"journal": str(journal)}) as (one, other):
        before = await one.value("pid")
        lose_lease(one)
        assert await other.value("echo", {"n": 1}) == {"n": 1}
        assert await one.value("echo", {"n": 2}) == {"n": 2}
        assert await other.value("pid") == await one.value("pid") != before
    lines = journal.read_text().splitlines()
    assert sorted(line for line in lines if "echo" in line) == ['echo {"n": 1}', 'echo {"n": 2}']


@pytest.mark.long
async def test_a_process_that_does_not_end_by_itself_is_killed_before_the_lease_ends(tmp_path: Path) -> None:
    stubborn = {"ignore_end": True, "ignore_term": True}
    async with two(tmp_path, options=stubborn, shutdown_grace_period=20) as (one, other):
        process = psutil.Process(await one.value("pid"))
        lose_lease(one)
        with anyio.fail_after(15):
            while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:  # noqa: ASYNC110
                await anyio.sleep(0.01)
        assert await other.value("pid") == await one.value("pid") != process.pid


def lose_lease(bench: Bench) -> None:
    """What a pause does that is longer than the lease: nothing has noticed yet that its time is over."""
    session = bench.manager._find("odd").session
    assert session is not None
    guarded = session.peer._link
    assert isinstance(guarded, links.GuardedLink)
    guarded._lease._until = -1.0


async def test_a_lost_message_ends_the_connection_and_the_next_call_reaches_the_same_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two(tmp_path) as (_, other):
        pid = await other.value("pid")
        with monkeypatch.context() as loss:
            loss.setattr(Store, "take", nothing)
            error = await raised(other, "echo", x="x" * 20_000)
        assert isinstance(error, BackendCrashed)
        assert error.hint == MAY_HAVE_RUN
        assert await other.value("pid") == pid


@pytest.mark.parametrize("replica", [0, 1])
async def test_a_notification_that_nests_deeply_ends_nothing(tmp_path: Path, replica: int) -> None:
    deep = "[" * 900 + "]" * 900
    async with two(tmp_path) as benches:
        pid = await benches[1].value("pid")
        for method in ("notifications/message", "notifications/tools/list_changed"):
            note = f'{{"jsonrpc":"2.0","method":"{method}","params":{{"level":"error","data":{deep}}}}}'
            await benches[replica].call("raw", {"text": note + '\n{"jsonrpc":"2.0","id":ID,"result":{}}\n'})
        assert await benches[1].value("pid") == pid


async def test_a_replica_that_loses_the_lease_while_it_starts_a_backend_does_not_start_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.01)
    monkeypatch.setattr(lease, "LEASE_SECONDS", 3.1)

    @asynccontextmanager
    async def open_link(_: Receiver) -> AsyncIterator[Link]:
        monkeypatch.setattr(Store, "lease", never)
        await anyio.sleep_forever()
        yield Link("odd", receiver)

    config, receiver = odd_config(instance_mode="singleton"), Mock(Receiver)
    opened = Singletons(Peers(Store(), "one"), Children(None), {}.get).opener(config, open_link)
    with anyio.fail_after(TEST_SECONDS), pytest.raises(BackendCrashed, match="lost the lease"):
        async with opened(receiver):
            raise AssertionError


def test_a_backend_without_a_process_needs_no_lease() -> None:
    config = BackendConfig(name="http", url="https://x/mcp", instance_mode="singleton")
    singletons = Singletons(Peers(Store(), "one"), Children(None), {}.get)
    assert singletons.opener(config, open_never) is open_never


def test_only_a_request_is_answered_as_not_sent() -> None:
    """An answer to a question has the id of the question, which a call may have as well."""
    sent = [
        {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {}},
        {"jsonrpc": "2.0", "id": 7, "result": {"method": "x"}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"id": 7, "method": "x"}},
    ]
    assert [request_of(encode(message)) for message in sent] == [7, 0, 0]


class SlowStore(Store):
    """A store whose answer to a lease comes after what another replica has sent because of it."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = anyio.Event()

    async def lease(self, key: str, owner: str, ttl: float) -> bool:
        got = await super().lease(key, owner, ttl)
        if owner.startswith("one:"):
            await self.sent.wait()
            await anyio.wait_all_tasks_blocked()
        return got

    async def send(self, stream: str, message: bytes, ttl: float) -> None:
        await super().send(stream, message, ttl)
        self.sent.set()


async def test_a_replica_that_knows_of_a_lease_before_its_owner_does_connects(tmp_path: Path) -> None:
    store = SlowStore()
    async with bench_of(tmp_path / "one", store, "one") as one:
        one.manager.add(odd_config(instance_mode="singleton"))
        with anyio.fail_after(TEST_SECONDS):
            while await store.leased_by(links.key("odd")) is None:  # noqa: ASYNC110 - there is no event
                await anyio.sleep(0.001)
        async with bench_of(tmp_path / "two", store, "two") as other:
            await other.odd(instance_mode="singleton", connect_timeout=20)
            assert await other.value("pid") == one.manager.status("odd").pid


async def test_an_outage_of_the_store_longer_than_the_lease_ends_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.01)
    monkeypatch.setattr(lease, "LEASE_SECONDS", 3.1)
    async with two(tmp_path) as (one, other):
        pid = one.manager.status("odd").pid
        with monkeypatch.context() as outage:
            outage.setattr(Store, "lease", never)
            await Bench.until_true(lambda: one.manager.status("odd").pid != pid)
        assert await other.value("pid") == await one.value("pid") != pid


async def nothing(*_: Any) -> None:
    """Find no value: it has expired."""


async def never(*_: Any) -> bool:
    await anyio.sleep_forever()
    raise AssertionError
