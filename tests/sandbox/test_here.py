"""Short steps run on the event loop; one that turns out long is left at the first tick and goes on on a thread."""

from __future__ import annotations

import threading

import anyio
import pytest

from fixtures.guest import Plain, Runner, start
from gatemini_sandbox import Calls, Done, Limits, Reply, Sandbox
from gatemini_sandbox.guest import Guest
from gatemini_sandbox.here import BURST_SECONDS, HERE, SHORT_SECONDS, SMALL_BYTES, LoopShare
from gatemini_sandbox.messages import encode_start

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(not HERE, reason="calls cannot change threads here")]

COUNT = "let s = 0; for (let n = 0; n < 3e6; n++) s += n % 7; "  # some tenths of a second
COUNTED = 8999994
TRIES = 20
"""Where other programs keep the processors from this one, a short step now and then lasts as long as a long one."""


@pytest.fixture
def threads_used(monkeypatch):
    """Names of the threads that took a guest's whole step, and of those that went on with one."""
    used: list[tuple[str, str]] = []

    def noted(name):
        original = getattr(Guest, name)

        def method(guest, *given):
            used.append((name, threading.current_thread().name))
            return original(guest, *given)

        monkeypatch.setattr(Guest, name, method)

    for name in ("begin", "resume", "go_on", "begin_here", "resume_here"):
        noted(name)
    return used


@pytest.fixture
def sandbox(module_cache):
    made = Sandbox(Limits(), cache_dir=module_cache)
    made.warm()
    yield made
    made.close()


async def ended(session, *replies: bytes):
    """The last step of a session whose calls are answered by `replies`, one for each step."""
    step = await session.start()
    for reply in replies:
        assert isinstance(step, Calls)
        step = await session.resume([Reply(step.calls[0].id, True, reply)])
    session.close()
    return step


async def test_short_steps_need_no_thread(sandbox, threads_used):
    for _ in range(TRIES):
        threads_used.clear()
        session = sandbox.session(Plain("return (await demo.echo({})).n + 1"), start())
        assert (await ended(session, b'{"n":1}')).text == "2"
        if "go_on" not in [name for name, _ in threads_used]:
            break
    assert [name for name, _ in threads_used] == ["begin_here", "resume_here"]
    assert {thread for _, thread in threads_used} == {threading.current_thread().name}


async def test_a_step_that_turns_out_long_goes_on_on_a_thread_with_the_same_value(sandbox, threads_used):
    step = await ended(sandbox.session(Plain(COUNT + "return s"), start()))
    assert int(step.text) == COUNTED
    assert [name for name, _ in threads_used] == ["begin_here", "go_on"]
    assert threads_used[1][1] != threading.current_thread().name


async def test_after_a_long_step_the_next_is_not_tried_on_the_loop_until_one_was_short(sandbox, threads_used):
    code = COUNT + "for (let n = 0; n < 3; n++) await demo.echo({}); return s"
    step = await ended(sandbox.session(Plain(code), start()), b"1", b"2", b"3")
    assert int(step.text) == COUNTED
    assert [name for name, _ in threads_used][:3] == ["begin_here", "go_on", "resume"]


async def test_large_replies_go_to_a_thread(sandbox, threads_used):
    large = b'"' + b"x" * SMALL_BYTES + b'"'
    step = await ended(sandbox.session(Plain("return (await demo.echo({})).length"), start()), large)
    assert (step.text, threads_used[-1][0]) == (str(SMALL_BYTES), "resume")


async def test_code_that_may_hold_a_regular_expression_is_read_on_a_thread(sandbox, threads_used):
    """Compiling `/(?:(?:a{1,255}){1,255}){2,3}/` and the like takes as long as its writer wants."""
    nested = "/" + "(?:" * 12 + "a" + "){2,3}" * 12 + "/"
    step = await ended(sandbox.session(Plain(f"return {nested}.source.length"), start()))
    assert int(step.text) == len(nested) - 2
    assert [name for name, _ in threads_used] == ["begin"]


async def test_a_guest_with_much_in_its_memory_is_stepped_on_a_thread(sandbox, threads_used):
    code = "const kept = []; for (let n = 0; n < 2e5; n++) kept.push({ n }); await demo.echo({}); return kept.length"
    step = await ended(sandbox.session(Plain(code), start()), b"1")
    assert (step.text, threads_used[-1][0]) == ("200000", "resume")


@pytest.mark.parametrize(
    "code",
    [
        "try { await demo.fail({ message: 'no' }) } catch {}; " + COUNT + "throw new Error('late')",
        "Object.defineProperty(Object.prototype, 'then', { get() { for (;;); }, configurable: true }); await demo.echo({})",
        "await new Promise((done) => setTimeout(() => { for (;;); }, 0))",
        "Promise.reject({ get message() { for (;;); } }); return 1",
        "return { get x() { for (;;); } }",
        "throw { get message() { for (;;); } }",
        "Promise.reject(1); await demo.echo({}); for (;;);",
    ],
)
async def test_wherever_code_runs_long_the_loop_is_free(module_cache, code):
    short = Sandbox(Limits(cpu_seconds=0.3), cache_dir=module_cache)
    short.warm()
    turns, over = 0, anyio.Event()

    async def others() -> None:
        nonlocal turns
        while not over.is_set():
            turns += 1
            await anyio.sleep(0.01)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(others)
        step = await Runner(short)(code)
        over.set()
    assert turns > 3, step
    assert await Runner(short).value("return 2") == 2
    assert short.ledger.sizes == {}
    short.close()


async def test_a_chain_cancelled_while_its_step_is_left_is_freed(module_cache):
    one = Sandbox(Limits(guests=2), cache_dir=module_cache)
    one.warm()
    for _ in range(5):
        session = one.session(Plain("for (;;);"), start())
        with anyio.move_on_after(0.01) as scope:
            await session.start()
        assert scope.cancelled_caught
    assert one.ledger.sizes == {}
    assert await Runner(one).value("return 2") == 2
    one.close()


async def test_a_guest_freed_with_a_step_left_ends_its_call(sandbox):
    guest = sandbox.guest(Limits(), start())
    program = Plain("for (;;);")
    assert guest.begin_here(encode_start(start(), Limits()), program.js.encode()) is None
    assert guest.left
    guest.close()
    assert sandbox.ledger.sizes == {}
    assert await Runner(sandbox).value("return 2") == 2


async def test_recursion_runs_out_of_the_stack_of_a_step_on_the_loop_as_on_a_thread(sandbox):
    end = await Runner(sandbox).error("const f = (n) => f(n + 1) + 1; return f(0)")
    assert end.error.limit == "sandbox.stack" or "stack" in end.error.message.lower()
    assert isinstance(await Runner(sandbox)("return 1"), Done)


async def test_many_short_steps_in_a_row_let_others_in(sandbox):
    turns, over = 0, anyio.Event()

    async def others() -> None:
        nonlocal turns
        while not over.is_set():
            turns += 1
            await anyio.lowlevel.checkpoint()

    session = sandbox.session(Plain("for (let n = 0; n < 500; n++) await demo.echo({}); return 1"), start())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(others)
        step = await ended(session, *[b"1"] * 500)
        over.set()
    assert isinstance(step, Done)
    assert turns >= 3


def test_what_long_steps_may_take_from_the_loop_is_bounded_and_comes_back():
    now = 0.0
    share = LoopShare(lambda: now)
    share.spend(SHORT_SECONDS)
    held = 0.0
    while share.open():
        share.spend(0.01)
        held += 0.01
    assert held <= BURST_SECONDS + 0.01
    now += 1.0
    assert share.open()


def test_the_share_of_long_steps_in_the_long_run():
    now = 0.0
    share = LoopShare(lambda: now)
    held = 0.0
    while now < 10.0:
        if share.open():
            share.spend(0.01)
            held += 0.01
        now += 0.01
    assert held < 0.3 * now
