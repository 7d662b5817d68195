"""Health, restarts, limits, memory: pure decisions first, then real processes that misbehave."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.backend_bench import Bench, odd_config, running_bench
from gatemini.backends.calls.call_limits import RateWindow
from gatemini.backends.health import Breaker, MemoryWatch
from gatemini.backends.restarts import Restarts
from gatemini.backends.status import State
from gatemini.config.model.schema import HealthConfig, RateLimit
from gatemini.errors import BackendBusy, BackendCrashed, BackendError, BackendUnhealthy
from gatemini.processes.process_facts import resident_sizes

pytestmark = pytest.mark.anyio

SETTINGS = HealthConfig()


def test_backoff_doubles_from_one_second_to_thirty() -> None:
    restarts = Restarts(SETTINGS)
    seen = []
    for _ in range(8):
        restarts.start_failed(0.0)
        seen.append(restarts.backoff())
    assert seen == [1, 2, 4, 8, 16, 30, 30, 30]
    assert restarts.blocked(10.0) == 20.0
    restarts.healthy()
    assert restarts.blocked(0.0) == 0.0


def test_five_restarts_within_a_minute_are_enough() -> None:
    restarts = Restarts(SETTINGS)
    for now in range(5):
        assert restarts.automatic(float(now)) == 1.0
        restarts.restarted(float(now), by_itself=True)
    assert restarts.automatic(5.0) is None
    assert restarts.automatic(61.0) == 1.0, "the window slides"


def test_restarts_for_calls_do_not_count_as_automatic_ones() -> None:
    restarts = Restarts(SETTINGS)
    for now in range(20):
        restarts.restarted(float(now), by_itself=False)
    assert restarts.automatic(20.0) == 1.0
    assert restarts.total == 20


def test_a_backend_that_never_starts_is_given_up() -> None:
    restarts = Restarts(SETTINGS)
    for _ in range(5):
        restarts.start_failed(0.0)
    assert restarts.automatic(1000.0) is None


def test_the_third_missed_probe_restarts_or_opens_the_circuit() -> None:
    breaker = Breaker(SETTINGS)
    assert [breaker.failure(0.0, may_restart=True) for _ in range(3)] == ["wait", "wait", "restart"]
    breaker = Breaker(SETTINGS)
    for _ in range(2):
        breaker.failure(0.0, may_restart=False)
    assert breaker.failure(0.0, may_restart=False) == "open"
    assert breaker.next_probe(0.0) == 90.0, "interval times recovery_multiplier"
    breaker.probing()
    assert breaker.circuit == "half-open"
    assert breaker.failure(90.0, may_restart=True) == "open", "one probe only"
    breaker.probing()
    breaker.success()
    assert (breaker.circuit, breaker.next_probe(0.0)) == ("closed", 30.0)


def test_memory_warns_once_at_80_percent_and_restarts_over_the_limit_with_a_pause() -> None:
    watch = MemoryWatch(SETTINGS, 100)
    mb = 1 << 20
    assert [watch.sample(n * mb, 0.0) for n in (70, 85, 90, 70, 85)] == ["ok", "warn", "ok", "ok", "warn"]
    assert watch.sample(101 * mb, 10.0) == "restart"
    assert watch.sample(101 * mb, 20.0) != "restart", "cooling down"
    assert watch.sample(101 * mb, 71.0) == "restart"
    assert watch.peak == 101 * mb


@given(st.lists(st.integers(0, 20).map(lambda n: n / 4), max_size=60))
def test_no_window_ever_sees_more_starts_than_its_limit(pauses: list[float]) -> None:
    window = RateWindow(RateLimit(max_calls=3, window=10.0))
    now, starts = 0.0, []
    for pause in pauses:
        now += pause
        delay = window.take(now)
        if delay == 0:
            starts.append(now)
        else:
            assert window.take(now + delay) == 0, "the delay it names is enough"
            now += delay
            starts.append(now)
    for start in starts:
        assert sum(start - 10.0 < s <= start for s in starts) <= 3


async def test_calls_beyond_the_rate_fail_with_nothing_sent(bench: Bench, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    await bench.odd(options={"journal": str(journal)}, rate_limit={"max_calls": 2, "window": "1h"})
    for _ in range(2):
        await bench.call("echo")
    with pytest.raises(BackendBusy, match="rate_limit"):
        await bench.call("echo", timeout=0.1)
    assert len(journal.read_text().splitlines()) == 2


async def test_calls_beyond_the_rate_wait_for_their_turn(bench: Bench) -> None:
    await bench.odd(rate_limit={"max_calls": 2, "window": "300ms"})
    began = time.monotonic()
    for _ in range(3):
        await bench.call("echo")
    assert time.monotonic() - began >= 0.3


async def test_calls_beyond_the_concurrency_limit_wait_and_all_are_answered(bench: Bench) -> None:
    await bench.odd(max_concurrent_calls=2)
    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(bench.call, "late", {"seconds": 0.02})
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(bench.call, "hang")
            await bench.until_true(lambda: bench.manager.status("odd").calls_open == 2)
            with pytest.raises(BackendBusy, match="max_concurrent_calls"):
                await bench.call("echo", timeout=0.1)
            scope.cancel()
    assert await bench.value("echo", {"free": 1}) == {"free": 1}, "cancelled calls give their places back"


async def test_a_backend_that_stops_answering_probes_is_restarted(
    tmp_path: Path, quick_health: HealthConfig
) -> None:
    async with running_bench(tmp_path, health=quick_health) as bench:
        await bench.odd()
        first = bench.manager.status("odd").pid
        await bench.call("stop_reading")
        await bench.until(lambda: bench.manager.status("odd").restarts == 1)
        await bench.manager.wait_ready("odd", 60)
        assert bench.manager.status("odd").pid != first
        assert ("odd", State.UNHEALTHY) in bench.states


async def test_without_restarts_left_the_circuit_opens_and_calls_are_refused_at_once(
    tmp_path: Path, quick_health: HealthConfig
) -> None:
    health = quick_health.model_copy(update={"max_restarts": 0, "recovery_multiplier": 100.0})
    async with running_bench(tmp_path, health=health) as bench:
        await bench.odd()
        await bench.call("stop_reading")
        await bench.until(lambda: bench.manager.state("odd") is State.UNHEALTHY)
        assert bench.manager.status("odd").circuit == "open"
        assert "see what keeps it busy" in (bench.manager.status("odd").remedy or "")
        with pytest.raises(BackendUnhealthy, match="health probes"):
            await bench.call("echo")


@pytest.mark.parametrize("what", ["a call", "a resource"])
async def test_an_answer_closes_the_circuit_that_a_probe_opened_meanwhile(
    tmp_path: Path, quick_health: HealthConfig, what: str
) -> None:
    """Both are out at once; the probe is given up, the answer comes: what is shown healthy takes the next call."""
    told = tmp_path / "told"
    once = {"failure_threshold": 1, "max_restarts": 0, "recovery_multiplier": 1000.0, "timeout": 1.0}
    async with running_bench(tmp_path, health=quick_health.model_copy(update=once)) as bench:
        await bench.odd(
            options={"silent_ping": True, "told": str(told), "late_resource": str(tmp_path / "go")}
        )
        await bench.until_true(lambda: told.exists() and "ping" in told.read_text())
        async with anyio.create_task_group() as tasks:
            if what == "a call":
                tasks.start_soon(bench.value, "late_until", {"exists": str(tmp_path / "go")})
            else:
                tasks.start_soon(bench.read_resource, "odd://late")
            await bench.until(lambda: bench.manager.state("odd") is State.UNHEALTHY)
            assert bench.manager.status("odd").circuit == "open"
            (tmp_path / "go").touch()
        assert bench.manager.state("odd") is State.HEALTHY
        assert await bench.value("echo", {"n": 1}) == {"n": 1}


async def test_unanswered_probes_during_a_long_call_do_not_restart_the_backend(
    tmp_path: Path, quick_health: HealthConfig
) -> None:
    async with running_bench(tmp_path, health=quick_health) as bench:
        bench.manager.add(odd_config(options={"silent_ping": True}, lazy=True))
        await bench.value("late", {"seconds": 0.8})  # which starts it: no probe comes before the call
        assert bench.manager.status("odd").restarts == 0


async def test_a_crash_while_idle_is_followed_by_a_restart(
    tmp_path: Path, quick_health: HealthConfig
) -> None:
    async with running_bench(tmp_path, health=quick_health) as bench:
        await bench.odd()
        with pytest.raises(BackendCrashed):
            await bench.call("die", {"code": 9})
        await bench.until(lambda: bench.states[-1] == ("odd", State.HEALTHY) and len(bench.states) > 2)


async def test_a_restart_takes_no_longer_than_its_limit(tmp_path: Path, quick_health: HealthConfig) -> None:
    health = quick_health.model_copy(update={"restart_timeout": 0.3, "max_restarts": 1})
    async with running_bench(tmp_path, health=health) as bench:
        await bench.odd(options={"ready_once": str(tmp_path / "started")})
        with pytest.raises(BackendCrashed):
            await bench.call("die", {"code": 1})
        await bench.until_true(lambda: "restart_timeout" in (bench.manager.error("odd") or ""))
        assert "did not get ready within 0.3 s (health.restart_timeout)" in (bench.manager.error("odd") or "")


async def test_a_backend_that_always_fails_to_start_is_tried_a_few_times_only(
    tmp_path: Path, quick_health: HealthConfig
) -> None:
    health = quick_health.model_copy(update={"max_restarts": 2, "backoff_initial": 0.01, "backoff_max": 0.02})
    async with running_bench(tmp_path, health=health) as bench:
        bench.manager.add(odd_config(options={"exit_code": 1, "stderr": "no\n"}))
        await bench.until(lambda: bench.states.count(("odd", State.STOPPED)) == 2)
        with anyio.move_on_after(0.3) as quiet:
            await bench.until(lambda: bench.states.count(("odd", State.STOPPED)) > 2)
        assert quiet.cancelled_caught, "no restart loop"


async def test_a_backend_over_its_memory_is_drained_and_restarted(
    tmp_path: Path, quick_health: HealthConfig, caplog: pytest.LogCaptureFixture
) -> None:
    health = quick_health.model_copy(update={"drain_timeout": 60.0})
    async with running_bench(tmp_path, health=health) as bench:
        await bench.odd(max_memory_mb=60)
        first = bench.manager.status("odd").pid
        answers: list[object] = []

        async def slow() -> None:
            answers.append(await bench.value("late", {"seconds": 0.4}))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(slow)
            await bench.value("eat", {"mb": 80})
            await bench.until(lambda: bench.manager.status("odd").restarts == 1)
        await bench.manager.wait_ready("odd", 60)
        status = bench.manager.status("odd")
        assert status.pid != first
        assert (status.peak_rss or 0) > 80 << 20
        assert answers == [{"seconds": 0.4}], "the call that was open ended first"
        told = [m for m in caplog.messages if m.startswith("odd") and "max_memory_mb is 60" in m]
        assert "is restarted" in told[-1], "nobody is warned of a process that is being let go"


@pytest.mark.parametrize("why", ["a restart", "a new configuration"])
async def test_a_call_that_does_not_end_holds_up_a_change_for_drain_timeout_and_no_longer(
    tmp_path: Path, quick_health: HealthConfig, why: str
) -> None:
    """Were the bound missing, nothing would end the call: it waits for an hour."""
    health = quick_health.model_copy(update={"drain_timeout": 0.2, "interval": 3600.0})
    async with running_bench(tmp_path, health=health) as bench:
        await bench.odd(max_memory_mb=60)
        first = bench.manager.status("odd").pid
        ended: list[BackendError] = []

        async def hang() -> None:
            with pytest.raises(BackendError) as stopped:
                await bench.call("hang", timeout=3600)
            ended.append(stopped.value)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hang)
            await bench.until_true(lambda: bench.manager.status("odd").calls_open == 1)
            if why == "a restart":
                await bench.value("eat", {"mb": 80})
            else:
                await bench.manager.apply({"odd": odd_config(namespace="other")})
        await bench.manager.wait_ready("odd", 60)
        assert bench.manager.status("odd").pid != first
        assert ended[0].sent, "it may have run"
        done = "restarted" if why == "a restart" else "stopped"
        assert f"odd was {done} while the call was open" in ended[0].message


async def test_the_memory_of_an_ended_process_is_not_shown(bench: Bench) -> None:
    await bench.odd()
    await bench.manager.measure_new()
    measured = bench.manager.status("odd").rss
    assert measured
    with pytest.raises(BackendCrashed):
        await bench.call("die")
    await bench.until(lambda: bench.states[-1] == ("odd", State.STOPPED))
    await bench.until_true(lambda: bench.manager.status("odd").rss is None)
    assert bench.manager.status("odd").peak_rss == measured


async def test_memory_counts_what_a_child_started(bench: Bench) -> None:
    await bench.odd()
    pid = bench.manager.status("odd").pid
    assert pid is not None
    alone = resident_sizes([pid])[pid]
    await bench.call("fork")
    assert resident_sizes([pid])[pid] > alone
    assert resident_sizes([2**22 + 1]) == {}


async def test_a_lazy_backend_starts_with_its_first_call(bench: Bench) -> None:
    bench.manager.add(odd_config(lazy=True))
    assert bench.manager.state("odd") is State.STOPPED
    assert bench.manager.status("odd").pid is None
    assert await bench.value("echo", {"n": 1}) == {"n": 1}
    assert bench.manager.status("odd").restarts == 0


async def test_an_unhealthy_backend_does_not_affect_others(
    tmp_path: Path, quick_health: HealthConfig
) -> None:
    async with running_bench(tmp_path, health=quick_health) as bench:
        await bench.odd("good")
        for name, options in {
            "exits": {"exit_code": 1},
            "silent": {"on_discover": "silent", "on_initialize": "silent"},
            "broken": {"on_list": "error"},
        }.items():
            bench.manager.add(odd_config(name, options=options, connect_timeout="300ms"))
        await bench.odd("dies")
        await bench.odd("floods")
        async with anyio.create_task_group() as tasks:

            async def trouble(tool: str, name: str, **arguments: int) -> None:
                for _ in range(8):
                    with contextlib.suppress(BackendError):
                        await bench.call(tool, arguments, name=name, timeout=1.0)

            tasks.start_soon(trouble, "die", "dies")
            tasks.start_soon(lambda: trouble("flood", "floods", times=300))
            for number in range(100):
                assert await bench.value("echo", {"n": number}, name="good") == {"n": number}
        assert bench.manager.state("good") is State.HEALTHY
        assert bench.manager.status("good").restarts == 0
