"""Dedicated instances, fallbacks and prerequisites: which process serves a call, and what runs beside it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from fixtures.backend_bench import TEST_SECONDS, Bench, odd_config, running_bench
from gatemini.backends.calls.callers import Caller
from gatemini.backends.calls.retry import Retries
from gatemini.backends.fallback_chain import FALLBACK_META, candidates
from gatemini.config.model.backend import RetryConfig
from gatemini.config.model.schema import BackendConfig
from gatemini.errors import (
    BackendBusy,
    BackendCrashed,
    BackendError,
    BackendProtocol,
    BackendStarting,
    BackendStopped,
    BackendUnhealthy,
)
from gatemini.model import CallOutcome

pytestmark = pytest.mark.anyio


async def test_no_two_sessions_share_an_instance_and_the_limit_holds(bench: Bench) -> None:
    await bench.odd(instance_mode="dedicated", pool={"max_instances": 3, "replenish_delay": "10ms"})
    seen: set[Any] = set()
    for round_ in range(3):
        pids: list[Any] = []

        async def one(session: str, pids: list[Any] = pids) -> None:
            pids.append(await pid_for(bench, session))
            bench.manager.end_session(session)

        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(one, f"{round_}-{number}")
            await anyio.wait_all_tasks_blocked()
            assert (bench.manager.status("odd").instances or 0) <= 3
        seen |= {*pids}
    assert len(seen) == 15, "an instance never changes hands"


async def pid_for(bench: Bench, session: str) -> Any:
    caller = Caller(session=session)
    outcome = await bench.manager.call_tool("odd", "pid", {}, timeout=TEST_SECONDS, caller=caller)
    return outcome.result["content"][0]["text"]


async def test_each_session_gets_its_own_process_and_keeps_it(bench: Bench) -> None:
    await bench.odd(instance_mode="dedicated", pool={"replenish_delay": "10ms"})
    first, second = await pid_for(bench, "a"), await pid_for(bench, "b")
    assert first != second
    assert await pid_for(bench, "a") == first
    bench.manager.end_session("a")
    await bench.until_true(lambda: not psutil.pid_exists(int(first)))
    assert await pid_for(bench, "a") not in (first, second)
    assert await pid_for(bench, "b") == second


def one_instance(acquire_timeout: str) -> dict[str, Any]:
    pool = {"max_instances": 1, "min_idle": 0, "acquire_timeout": acquire_timeout}
    return {"instance_mode": "dedicated", "pool": pool}


async def test_a_session_without_an_instance_waits_for_one(bench: Bench) -> None:
    await bench.odd(**one_instance("60s"))
    await pid_for(bench, "a")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pid_for, bench, "b")
        await anyio.wait_all_tasks_blocked()
        bench.manager.end_session("a")
    assert bench.manager.status("odd").instances == 1


async def test_a_session_without_an_instance_fails_after_acquire_timeout(bench: Bench) -> None:
    await bench.odd(**one_instance("200ms"))
    await pid_for(bench, "a")
    with pytest.raises(BackendBusy, match="instances of odd are taken"):
        await pid_for(bench, "b")


async def test_a_new_configuration_lets_the_open_call_of_a_session_end_first(bench: Bench) -> None:
    await bench.odd(instance_mode="dedicated", pool={"min_idle": 0})
    answers: list[Any] = []

    async def late() -> None:
        caller = Caller(session="a")
        outcome = await bench.manager.call_tool(
            "odd", "late", {"seconds": 0.5}, timeout=TEST_SECONDS, caller=caller
        )
        answers.append(outcome.result["content"][0]["text"])

    before = await pid_for(bench, "a")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(late)
        await anyio.wait_all_tasks_blocked()
        await bench.manager.apply({"odd": odd_config(instance_mode="dedicated", namespace="other")})
    assert answers == ['{"seconds": 0.5}']
    assert await pid_for(bench, "a") != before


async def test_idle_instances_are_started_and_all_of_them_end(tmp_path: Path) -> None:
    async with running_bench(tmp_path) as bench:
        await bench.odd(instance_mode="dedicated", pool={"min_idle": 2})
        assert bench.manager.status("odd").idle_instances == 2
        await pid_for(bench, "a")
        await bench.manager.remove("odd")
        assert bench.tools["odd"] is None


async def test_a_fallback_answers_and_is_named(bench: Bench) -> None:
    await bench.odd("second")
    bench.manager.add(odd_config("first", options={"exit_code": 1}, fallback_chain=("absent", "second")))
    outcome = await bench.call("echo", {"n": 1}, name="first")
    assert outcome.result["content"][0]["text"] == '{"n": 1}'
    assert outcome.result["_meta"][FALLBACK_META]["backend"] == "second"
    assert "exited with code 1" in outcome.notes[-1]


NO_SUCH_PROGRAM = {"name": "first", "command": "no-such-program"}


async def test_a_fallback_that_runs_answers_before_one_that_never_starts(bench: Bench) -> None:
    bench.manager.add(odd_config("never", options={"asleep": 600}))
    await bench.odd("second")
    bench.manager.add(BackendConfig(**NO_SUCH_PROGRAM, fallback_chain=("never", "second")))
    outcome = await bench.call("echo", name="first")
    assert outcome.answered_by == "second"


@pytest.mark.long
async def test_a_fallback_that_never_starts_leaves_time_to_start_another(bench: Bench) -> None:
    bench.manager.add(odd_config("never", options={"asleep": 600}))
    bench.manager.add(odd_config("lazy", lazy=True))
    bench.manager.add(BackendConfig(**NO_SUCH_PROGRAM, fallback_chain=("never", "lazy")))
    outcome = await bench.call("echo", name="first", timeout=10)
    assert outcome.answered_by == "lazy"


@pytest.mark.long
@pytest.mark.parametrize("waits_for", ["its start", "a place", "an instance"])
async def test_waiting_for_a_backend_leaves_time_for_its_fallback(bench: Bench, waits_for: str) -> None:
    """The first may take half of the time where one other is there to answer."""
    first = {
        "its start": {"options": {"asleep": 600}},
        "a place": {"max_concurrent_calls": 1},
        "an instance": one_instance("60s"),
    }[waits_for]
    bench.manager.add(odd_config("first", fallback_chain=("second",), **first))
    await bench.odd("second")

    async def call(tool: str, session: str, timeout: float) -> CallOutcome:
        whose = Caller(session=session)
        return await bench.manager.call_tool("first", tool, {}, timeout=timeout, caller=whose)

    async with anyio.create_task_group() as tasks:
        if waits_for != "its start":
            await call("echo", "a", TEST_SECONDS)
            tasks.start_soon(call, "hang", "a", TEST_SECONDS)
            await anyio.wait_all_tasks_blocked()
        outcome = await call("echo", "b", 2)
        assert outcome.answered_by == "second"
        tasks.cancel_scope.cancel()


async def test_no_fallback_where_the_call_may_have_run(bench: Bench, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    await bench.odd("second", options={"journal": str(journal)})
    await bench.odd("first", fallback_chain=("second",))
    with pytest.raises(BackendCrashed):
        await bench.call("die", name="first")
    with pytest.raises(BackendProtocol):
        await bench.call("raw", {"text": '{"id":ID,"error":{"message":"no"}}\n'}, name="first")
    assert not journal.exists()


async def test_a_repeatable_call_may_fall_back_after_a_crash(bench: Bench, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    await bench.odd("second", options={"journal": str(journal)})
    await bench.odd("first", fallback_chain=("second",), retry={"max_retries": 0})
    with pytest.raises((BackendCrashed, BackendStopped)):
        await bench.call("read_die", name="first")
    assert journal.read_text().split()[0] == "read_die"


@pytest.mark.parametrize(
    ("second", "told"),
    [
        (BackendStarting("still starting"), "it crashed"),
        (BackendBusy("no place got free"), "it crashed"),
        (BackendUnhealthy("no probe was answered"), "it crashed"),
        (BackendBusy("HTTP 429", details={"remote": True}), "HTTP 429"),
        (BackendProtocol("no such city", sent=True), "no such city"),
    ],
)
def test_a_retry_that_only_waited_raises_the_crash_before_it(second: BackendError, told: str) -> None:
    retries = Retries(RetryConfig(max_retries=1), deadline=TEST_SECONDS, repeatable=True)
    assert retries.wait_after(BackendCrashed("it crashed", sent=True), 0.0) == RetryConfig().initial_delay
    with pytest.raises(BackendError, match=told):
        retries.wait_after(second, 1.0)


async def test_only_fallbacks_that_may_have_the_tool_get_a_share_of_the_time(bench: Bench) -> None:
    await bench.odd("none", options={"tools": []})
    await bench.odd("other", options={"tools": [{"name": "other", "inputSchema": {"type": "object"}}]})
    await bench.odd("same")
    bench.manager.add(odd_config("unknown", lazy=True))
    chain = ("absent", "none", "unknown", "other", "same")
    await bench.odd("first", fallback_chain=chain)
    backends = {name: bench.manager._find(name) for name in ("first", *chain[1:])}
    assert candidates("echo", backends["first"], backends) == ["same", "unknown"]


def sleeping(folder: Path, **keys: Any) -> tuple[dict[str, Any], Callable[[], int]]:
    """A prerequisite that runs until it is ended, and how many of it run now."""
    code = f"import time; time.sleep(600)  # {folder}"
    wanted = {"command": sys.executable, "args": ("-I", "-c", code), "startup_delay": "10ms", **keys}
    return wanted, lambda: sum(code in (p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"]))


async def test_a_prerequisite_runs_before_the_backend_and_ends_with_it(bench: Bench, tmp_path: Path) -> None:
    wanted, running = sleeping(tmp_path)
    await bench.odd(prerequisite=wanted)
    assert running() == 1
    await bench.manager.remove("odd")
    assert running() == 0


async def test_a_prerequisite_that_runs_already_is_left_alone(bench: Bench, tmp_path: Path) -> None:
    code = f"import time; time.sleep(600)  # {tmp_path}"
    async with await anyio.open_process([sys.executable, "-I", "-c", code]) as running:
        wanted = {"command": "no-such-program", "process_match": str(tmp_path)}
        await bench.odd(prerequisite=wanted)
        await bench.manager.remove("odd")
        assert running.returncode is None
        running.kill()


async def test_backends_that_need_the_same_prerequisite_start_it_once(bench: Bench, tmp_path: Path) -> None:
    """As a server that listens on a port: a second one fails."""
    started = tmp_path / "started"
    code = f"import time; open({str(started)!r}, 'x').close(); time.sleep(600)"
    wanted = {
        "command": sys.executable,
        "args": ("-I", "-c", code),
        "process_match": str(started),
        "startup_delay": "300ms",
    }
    for name in ("one", "two", "three"):
        bench.manager.add(odd_config(name, prerequisite=wanted))
    for name in ("one", "two", "three"):
        await bench.manager.wait_ready(name, 60)
        assert bench.manager.status(name).restarts == 0


async def test_a_prerequisite_of_several_backends_ends_with_the_last_of_them(
    bench: Bench, tmp_path: Path
) -> None:
    wanted, running = sleeping(tmp_path, process_match=str(tmp_path))
    await bench.odd("first", prerequisite=wanted)
    await bench.odd("second", prerequisite=wanted)
    await bench.manager.remove("first")
    assert running() == 1
    await bench.manager.remove("second")
    assert running() == 0


@pytest.mark.parametrize("managed", [True, False])
async def test_all_instances_of_a_backend_share_one_prerequisite(
    bench: Bench, tmp_path: Path, managed: bool
) -> None:
    wanted, running = sleeping(tmp_path, managed=managed)
    await bench.odd(instance_mode="dedicated", pool={"min_idle": 0}, prerequisite=wanted)
    first = int(await pid_for(bench, "a"))
    await pid_for(bench, "b")
    bench.manager.end_session("a")
    await bench.until_true(lambda: not psutil.pid_exists(first))
    assert running() == 1
    await bench.manager.remove("odd")
    assert running() == (0 if managed else 1)
    for process in psutil.process_iter(["cmdline"]):
        if wanted["args"][2] in (process.info["cmdline"] or []):
            process.kill()


async def test_a_prerequisite_that_fails_is_the_error_shown(bench: Bench) -> None:
    wanted = {"command": "sh", "args": ("-c", "echo no database >&2; exit 2")}
    bench.manager.add(odd_config(prerequisite=wanted))
    with pytest.raises(BackendStopped, match="no database"):
        await bench.call("echo")
    bench.manager.add(odd_config("other", prerequisite={"command": "no-such-program"}))
    with pytest.raises(BackendStopped, match="prerequisite: command not found"):
        await bench.call("echo", name="other")
    await bench.odd("third", prerequisite={"command": "true"})
