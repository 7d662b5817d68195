"""Sessions: stepping, cancelling, closing; many at once; nothing of one in the next."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from fixtures.guest import Chain, Runner, freed
from fixtures.modes import MODES
from gatemini_sandbox.errors import SessionClosed
from gatemini_sandbox.host import Sandbox
from gatemini_sandbox.limits import Limits
from gatemini_sandbox.messages import Calls, Done, Failed, Reply

pytestmark = pytest.mark.anyio

LOOP = "for (;;) {}"


async def test_cancelling_a_running_guest_stops_and_frees_it(sandbox):
    session = Chain(sandbox, LOOP)
    with anyio.move_on_after(0.05) as scope:
        await session.start()
    assert scope.cancelled_caught
    await freed(sandbox)
    with pytest.raises(SessionClosed):
        await session.resume([])
    assert await Runner(sandbox).value("return 1") == 1


async def test_cancelling_in_a_later_step_stops_it_too(sandbox):
    session = Chain(sandbox, f"await demo.echo({{}}); {LOOP}")
    step = await session.start()
    assert isinstance(step, Calls)
    from_host = [reply_null(call.id) for call in step.calls]
    with anyio.move_on_after(0.05) as scope:
        await session.resume(from_host)
    assert scope.cancelled_caught
    await freed(sandbox)


def reply_null(number: int) -> Reply:

    return Reply(number, True, b"null")


async def test_a_chain_cancelled_before_it_has_a_thread_never_starts(module_cache):
    one = Sandbox(Limits(guests=1), cache_dir=module_cache, isolation="thread")
    one.warm()
    async with anyio.create_task_group() as tasks:
        busy = Chain(one, LOOP)
        tasks.start_soon(busy.start)
        await anyio.wait_all_tasks_blocked()
        waiting = Chain(one, "return 1")
        with anyio.move_on_after(0.02) as scope:
            await waiting.start()
        assert scope.cancelled_caught
        tasks.cancel_scope.cancel()
    await freed(one)
    assert await Runner(one).value("return 2") == 2
    one.close()


HELD = """
import os, sys, threading, time
from pathlib import Path
import anyio
from fixtures.guest import Runner
from gatemini_sandbox.host import Sandbox
from gatemini_sandbox.typescript.second_parser import oxc_module

def held():
    names = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    links = sorted(os.readlink(name) for name in names if os.path.lexists(name))
    return links, sorted(thread.name for thread in threading.enumerate())

async def open_and_close():
    made = Sandbox(cache_dir=Path(sys.argv[1]), isolation="thread")
    assert await Runner(made).value("return (await demo.echo({ a: 1 })).a") == 1
    assert len(held()[0]) > len(before[0])
    made.close()
    try:
        made.warm()
    except Exception as error:
        return type(error).__name__

oxc_module.load(Path(sys.argv[1]))  # kept as long as the process
before = held()
for _ in range(3):
    assert anyio.run(open_and_close) == "SessionClosed"
end = time.monotonic() + 20
while held() != before and time.monotonic() < end:
    time.sleep(0.01)
assert held() == before, (held(), before)
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="descriptors can be listed on Linux only")
async def test_closed_sandboxes_leave_no_descriptor_and_no_thread(module_cache, sandbox):
    """In a process of its own: other sandboxes of this one come and go."""
    done = await anyio.run_process(
        [sys.executable, "-P", "-c", HELD, str(module_cache)],
        check=False,
        stderr=None,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    assert done.returncode == 0, done.stdout


async def test_a_chain_cancelled_while_the_sandbox_starts_does_not_begin(module_cache):
    made = Sandbox(Limits(guests=1), cache_dir=module_cache, isolation="thread")
    with made._lock:
        worker = made._new("small")
    async with anyio.create_task_group() as tasks:
        with worker._starting:
            tasks.start_soon(Chain(made, LOOP).start)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await anyio.wait_all_tasks_blocked()
    assert worker.guests == 0
    assert await Runner(made).value("return 1") == 1
    made.close()


async def test_closing_between_steps_frees_the_guest_and_a_closed_session_does_nothing(sandbox):
    session = Chain(sandbox, "await demo.echo({})")
    with pytest.raises(SessionClosed):
        await session.resume([])
    await session.start()
    with pytest.raises(SessionClosed):
        await session.start()
    assert len(sandbox._workers[0]._worker.ledger.sizes) == 1
    session.close()
    session.close()
    await freed(sandbox)
    with pytest.raises(SessionClosed):
        await session.resume([])


async def test_busy_guests_leave_the_event_loop_alone(tight):
    ends: list[Failed] = []

    async def busy() -> None:
        ends.append(await Runner(tight).error(LOOP))

    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(busy)
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        assert ends == []  # the loop has turned twenty times while eight guests were busy
    assert {end.error.limit for end in ends} == {"limit.cpu"}


async def test_guests_that_compute_for_long_take_turns_and_a_short_chain_waits_for_none(
    module_cache, monkeypatch
):
    monkeypatch.setattr("gatemini_sandbox.webassembly.engine.free_cores", lambda: 1)
    turned = Sandbox(Limits(cpu_seconds=0.3, guests=4), cache_dir=module_cache, isolation="thread")
    turned.warm()
    ends: list[Failed] = []

    async def busy() -> None:
        ends.append(await Runner(turned).error(LOOP))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(busy)
        for number in range(5):
            assert await Runner(turned).value(f"return {number}") == number
        assert ends == []
    assert [end.error.limit for end in ends] == ["limit.cpu"] * 3
    turned.close()


async def test_a_guest_waiting_for_its_turn_can_be_cancelled(module_cache, monkeypatch):
    monkeypatch.setattr(
        "gatemini_sandbox.webassembly.engine.free_cores", lambda: 0
    )  # no guest ever gets a turn
    stuck = Sandbox(Limits(guests=1), cache_dir=module_cache, isolation="thread")
    stuck.warm()
    with anyio.move_on_after(0.2) as scope:
        await Chain(stuck, LOOP).start()
    assert scope.cancelled_caught
    await freed(stuck)
    stuck.close()


async def test_the_time_of_a_chain_counts_its_waiting(module_cache):
    brief = Sandbox(Limits(wall_seconds=0.05), cache_dir=module_cache, isolation="thread")
    brief.warm()
    end = await Runner(brief).error("await sleep(600); return 1")
    assert end.error.limit == "limit.time"
    assert "0.05 s" in end.error.message
    longer = Chain(brief, "await sleep(600); return 1", wall_seconds=30)
    step = await longer.start()
    assert isinstance(step, Calls)
    assert 50 < step.wake_ms <= 600
    longer.close()
    brief.close()


async def test_code_over_its_limit_is_refused(module_cache):
    small = Sandbox(Limits(code_bytes=100), cache_dir=module_cache, isolation="thread")
    small.warm()
    end = await Runner(small).error("// " + "x" * 300)
    assert end.error.limit == "limit.code"
    small.close()


async def test_all_guests_together_have_a_memory_limit(module_cache):
    # One guest holds half of it between steps; the other meets the limit when it grows.
    shared = Sandbox(Limits(total_memory_mb=64, memory_mb=256), cache_dir=module_cache, isolation="thread")
    shared.warm()
    holder = Chain(shared, "globalThis.held = new Uint8Array(30e6).fill(1); await demo.echo({})")
    await holder.start()
    end = await Runner(shared).error("const a = []; for (;;) a.push(new Uint8Array(1e6).fill(1))")
    assert end.error.limit == "limit.total_memory"
    assert "64 MiB" in end.error.message
    holder.close()
    assert await Runner(shared).value("return 1") == 1
    shared.close()


@pytest.mark.parametrize("isolation", MODES)
async def test_a_run_that_repeats_another_reads_the_same_times_and_goes_on_from_them(module_cache, isolation):
    code = """
        const first = [Date.now(), performance.now(), new Date().toISOString()];
        await sleep(3); await demo.echo({});
        return [...first, Date.now()]"""
    made = Sandbox(Limits(guests=1), cache_dir=module_cache, isolation=isolation)

    async def once(clock=()):
        session = Chain(made, code, now_ms=1e12, clock=clock)
        step = await session.start()
        while isinstance(step, Calls):
            if not step.calls:
                await anyio.sleep((step.wake_ms or 0) / 1000)
            step = await session.resume([reply_null(call.id) for call in step.calls])
        assert isinstance(step, Done), step
        return step.text, list(session.session.readings)

    text, readings = await once()
    assert await once(readings) == (text, readings)
    _, more = await once(readings[:-1])
    assert more[:-1] == readings[:-1]
    assert more[-1] >= readings[-2]
    made.close()


@pytest.mark.parametrize("isolation", MODES)
async def test_changed_limits_hold_for_the_chains_that_begin_then(module_cache, isolation):
    code = "const held = new Uint8Array(60e6); return held.length"
    made = Sandbox(Limits(memory_mb=128), cache_dir=module_cache, isolation=isolation)
    assert await Runner(made).value(code) == 60_000_000
    before = Chain(made, "await demo.echo({}); " + code)
    waiting = await before.start()
    made.set_limits(Limits(memory_mb=32))
    assert (await Runner(made).error(code)).error.limit == "limit.memory"
    end = await before.resume([Reply(waiting.calls[0].id, True, b"1")])
    assert end.text == "60000000"
    before.close()
    made.close()


async def test_fewer_guests_run_at_once_after_their_number_was_lowered_and_more_after_it_was_raised(
    module_cache,
):
    made = Sandbox(Limits(guests=3), cache_dir=module_cache, isolation="thread")
    made.warm()
    ends: list[int] = []

    async def busy(scope: anyio.CancelScope) -> None:
        with scope:
            await Chain(made, LOOP).start()

    async def brief(number: int) -> None:
        ends.append(await Runner(made).value(f"return {number}"))

    async with anyio.create_task_group() as tasks:
        loops = [anyio.CancelScope() for _ in range(3)]
        for scope in loops:
            tasks.start_soon(busy, scope)
        await anyio.wait_all_tasks_blocked()
        made.set_limits(Limits(guests=1))
        loops[0].cancel()
        loops[1].cancel()  # one still runs: all that may
        tasks.start_soon(brief, 1)
        with anyio.move_on_after(0.2):
            await anyio.sleep_forever()
        assert ends == []
        made.set_limits(Limits(guests=2))
        with anyio.fail_after(60):
            while not ends:
                await anyio.lowlevel.checkpoint()
        loops[2].cancel()
    assert ends == [1]
    made.close()


@pytest.mark.parametrize("memory_mb", [8, 12, 16, 24])
async def test_a_chain_without_memory_for_its_error_ends_and_does_not_wait_for_its_timers(
    module_cache: Path, memory_mb: int
) -> None:
    sandbox = Sandbox(Limits(memory_mb=memory_mb), cache_dir=module_cache, isolation="thread")
    try:
        end = await Chain(sandbox, "for (;;) setTimeout(() => {}, 1e6);").start()
    finally:
        sandbox.close()
    assert isinstance(end, Failed)
    assert end.error.limit == "limit.memory"
