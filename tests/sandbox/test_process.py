"""Guests in processes of their own: the same answers, walls around them, and a lost worker costs one chain."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import anyio
import orjson
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.guest import Plain, Runner, start
from gatemini.processes import mark, watchdog
from gatemini_sandbox import Calls, Done, Failed, GuestFault, Limits, Reply, Sandbox, frames, workers
from gatemini_sandbox.messages import Raw
from gatemini_sandbox.worker import pack_raw
from gatemini_sandbox.workers import unpack_raw

pytestmark = pytest.mark.anyio

needs_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="walls of the Linux kernel")


@pytest.fixture
def apart(module_cache: Path, sandbox: Sandbox) -> Iterator[Sandbox]:
    made = Sandbox(Limits(guests=2, cpu_seconds=2), cache_dir=module_cache, isolation="process")
    made.warm()
    yield made
    made.close()


def children() -> list[psutil.Process]:
    """Worker processes of this one."""
    found = []
    for child in psutil.Process().children():
        try:
            if "gatemini_sandbox.worker" in child.cmdline():
                found.append(child)
        except psutil.Error:
            continue
    return found


@pytest.mark.parametrize(
    "code",
    [
        "return 1",
        'return "text ü😀"',
        "return { rows: await Promise.all([demo.echo({ n: 1 }), demo.echo({ n: 2 })]) }",
        'console.log("a"); throw new TypeError("x")',
        "const a = null;\n return a.b",
        'await demo.fail({ message: "boom" })',
        "await new Promise(() => {})",
        "const t = Date.now(); await sleep(5); return Date.now() - t >= 4",
        "setInterval(() => {}, 10); return crypto.randomUUID()",
        "Promise.reject(new Error('x')); return { b: 10n }",
        "let x = 1; for (let i = 0; i < 1000; i++) x = [x]; await demo.sink({ x }); return 1",
        "syntax error here",
    ],
)
async def test_both_modes_give_the_same_end(apart, sandbox, code):
    assert await Runner(apart)(code, now_ms=1000.0) == await Runner(sandbox)(code, now_ms=1000.0)


async def test_a_worker_is_used_again_and_nothing_of_one_chain_is_in_the_next(apart):
    run = Runner(apart)
    await run("globalThis.left = 1")
    before = [child.pid for child in children()]
    assert await run.value("return typeof left") == "undefined"
    assert [child.pid for child in children()] == before


async def test_killing_a_worker_costs_its_chain_only(apart):
    before = {child.pid for child in children()}
    session = apart.session(Plain("await demo.echo({}); return 1"), start())
    step = await session.start()
    assert isinstance(step, Calls)
    victim = session._guest._process.pid
    assert victim in before
    os.kill(victim, signal.SIGKILL)
    end = await session.resume([Reply(step.calls[0].id, True, b"1")])
    assert isinstance(end, Failed)
    assert end.error.limit == "sandbox.worker_lost"
    assert await Runner(apart).value("return 2") == 2


@pytest.mark.parametrize("size", [1, 2_000_000], ids=["a small message", "one the pipe does not hold"])
async def test_a_wedged_worker_is_killed_and_replaced(apart, monkeypatch, size):
    monkeypatch.setattr(workers, "GRACE_SECONDS", -1.8)
    session = apart.session(Plain("await demo.echo({}); return 1"), start())
    step = await session.start()
    victim = session._guest._process.pid
    os.kill(victim, signal.SIGSTOP)
    end = await session.resume([Reply(step.calls[0].id, True, b'"' + b"x" * size + b'"')])
    assert isinstance(end, Failed)
    assert "did not answer in time" in end.error.message
    assert not psutil.pid_exists(victim)
    monkeypatch.undo()
    assert await Runner(apart).value("return 2") == 2


async def test_an_idle_worker_that_is_stopped_is_replaced_at_once_and_costs_no_chain(apart, monkeypatch):
    asked: list[int] = []
    monkeypatch.setattr(workers, "_cpu_seconds", lambda pid: asked.append(pid) or 0.0)
    idle = list(apart._workers._idle)
    assert idle
    for process in idle:
        os.kill(process.pid, signal.SIGSTOP)
    assert await Runner(apart).value("return [await demo.echo({ n: 1 })]") == [{"n": 1}]
    assert not any(process.alive() for process in idle)
    assert not set(asked) & {process.pid for process in idle}, "a spare one gets no longer than its probe"


async def test_a_worker_is_reached_through_descriptors_beyond_those_select_takes(module_cache, sandbox):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2000:
        pytest.skip("this process may not open so many")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    made = Sandbox(Limits(guests=1), cache_dir=module_cache, isolation="process")
    try:
        assert await Runner(made).value("return [await demo.echo({ n: 1 })]") == [{"n": 1}]
        assert made._workers._idle[0]._output.fileno() > 1023
    finally:
        made.close()
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@needs_linux
async def test_a_worker_started_beside_a_backend_does_not_wear_its_mark(apart):
    worn = mark.set_mark()
    worker = apart._workers._new()  # in the same turn of the event loop: the mark is still on
    try:
        assert worn
        assert watchdog.marked(worn) == set()
    finally:
        worker.kill()


async def test_cancelling_ends_the_worker_at_once(apart):
    session = apart.session(Plain("for (;;) {}"), start())
    with anyio.move_on_after(0.2) as scope:
        await session.start()
    assert scope.cancelled_caught
    session.close()
    assert await Runner(apart).value("return 1") == 1


async def test_chains_beyond_the_workers_wait_their_turn(apart):
    first = [apart.session(Plain("await demo.echo({})"), start()) for _ in range(2)]
    for session in first:
        await session.start()
    third = apart.session(Plain("return 3"), start())
    with anyio.move_on_after(0.05) as scope:
        await third.start()
    assert scope.cancelled_caught
    for session in first:
        session.close()
    end = await apart.session(Plain("return 4"), start()).start()
    assert isinstance(end, Done)


async def test_closing_the_sandbox_leaves_no_process(module_cache, sandbox):
    made = Sandbox(Limits(guests=1), cache_dir=module_cache, isolation="process")
    before = {child.pid for child in children()}
    made.warm()
    mine = {child.pid for child in children()} - before
    assert len(mine) == 1
    made.close()
    assert not mine & {child.pid for child in children()}


@needs_linux
def test_a_worker_has_no_environment_and_no_descriptors_but_its_pipes(apart):
    os.environ["SECRET_OF_THE_GATEWAY"] = "x"
    try:
        process = apart._workers.take()
    finally:
        del os.environ["SECRET_OF_THE_GATEWAY"]
    try:
        proc = Path(f"/proc/{process.pid}")
        assert (proc / "environ").read_bytes() == b""
        held = {int(entry.name): os.readlink(entry) for entry in (proc / "fd").iterdir()}
        pipes = [number for number, target in held.items() if target.startswith("pipe:")]
        others = {target.split(" ")[0] for number, target in held.items() if number not in pipes}
        assert sorted(pipes) == [0, 1]
        assert others <= {"/dev/null", "/memfd:wasm-memory-image"}  # the latter is the module's own data
    except PermissionError:
        pytest.skip("the worker cannot even be looked at")
    finally:
        process.kill()


PROBE = """
import ctypes, mmap, os, socket, subprocess, sys, threading
from gatemini_sandbox.confine import confine
applied = confine(1 << 30, lambda: None)

def tried(what):
    try:
        what()
        return "done"
    except (OSError, RuntimeError, ValueError):
        return "refused"

print("applied", ",".join(applied))
print("read", tried(lambda: open("/etc/hostname").read()))
print("write", tried(lambda: open("/tmp/gatemini-probe", "w")))
print("list", tried(lambda: os.listdir("/")))
print("socket", tried(lambda: socket.socket()))
print("fork", tried(os.fork))
print("exec", tried(lambda: os.execv("/bin/true", ["true"])))
print("kill", tried(lambda: os.kill(os.getppid(), 0)))
print("code", tried(lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)))
print("memory", tried(lambda: mmap.mmap(-1, 4096)))
print("thread", tried(lambda: threading.Thread(target=print).start()))
sys.stdout.flush()
os._exit(0)
"""


@needs_linux
def test_the_walls_refuse_files_network_processes_and_new_code():
    done = subprocess.run(
        [sys.executable, "-P", "-c", textwrap.dedent(PROBE)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    told = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    if "seccomp" not in told.get("applied", "") or "landlock" not in told["applied"]:
        pytest.skip(f"this kernel has not both walls: {told.get('applied')}")
    assert told.pop("applied").startswith("rlimit_core")
    assert told.pop("memory") == "done"
    assert set(told.values()) == {"refused"}, told


def feed(data: bytes):
    left = memoryview(data)

    def receive(size: int) -> bytes:
        nonlocal left
        part, left = bytes(left[:size]), left[size:]
        if len(part) < size:
            raise GuestFault("the end")
        return part

    return receive


@given(st.integers(0, 255), st.lists(st.binary(max_size=50), max_size=6))
def test_a_frame_arrives_as_it_was_sent(operation, parts):
    assert frames.read(feed(frames.pack(operation, parts))) == (operation, parts)


@given(st.binary(max_size=60))
def test_reading_frames_is_total(data):
    with contextlib.suppress(GuestFault):
        frames.read(feed(data))


def test_a_frame_too_large_is_refused_before_it_is_read():
    with pytest.raises(GuestFault, match="a frame of"):
        frames.read(feed(b"\xff\xff\xff\xff"))


def test_a_step_crosses_the_pipe_unchanged():
    raw = Raw([b"o1", b"o2"], "trapped", b"t", b"s", b"c", "limit.cpu", "detail", True, [7, 8])
    assert unpack_raw(frames.RAW, pack_raw(raw)) == raw


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [b"{}", b"", b""],
        [b"nonsense", b"", b"", b"", b""],
        [b"[]", b"", b"", b"", b""],
        [orjson.dumps({"end": "won", "reason": "", "detail": "", "full": False}), b"", b"", b"", b""],
        [orjson.dumps({"end": None, "reason": 1, "detail": "", "full": False}), b"", b"", b"", b""],
        [
            orjson.dumps({"end": None, "reason": "", "detail": "", "full": False}),
            b"",
            b"",
            b"x" * 70_000,
            b"",
        ],
        [orjson.dumps({"end": None, "reason": "", "detail": "", "full": False}), b"", b"", b"", b"odd"],
    ],
)
def test_a_worker_that_says_nonsense_is_a_fault(parts):
    with pytest.raises(GuestFault):
        unpack_raw(frames.RAW, parts)


async def test_a_chain_that_waits_for_another_keeps_it_from_no_worker(
    module_cache: Path, sandbox: Sandbox
) -> None:
    one = Sandbox(Limits(guests=1), cache_dir=module_cache, isolation="process")
    outer = one.session(Plain("return 1 + await demo.echo({})"), start())
    waiting = await outer.start()
    assert isinstance(waiting, Calls)
    with anyio.fail_after(60):
        assert await Runner(one).value("return 41") == 41
    end = await outer.resume([Reply(waiting.calls[0].id, True, b"41")])
    assert isinstance(end, Done)
    assert end.text == "42"
    outer.close()
    one.close()


async def test_guests_that_wait_count_towards_the_memory_of_all(module_cache: Path, sandbox: Sandbox) -> None:
    shared = Sandbox(Limits(total_memory_mb=64, memory_mb=64), cache_dir=module_cache, isolation="process")
    hold = "globalThis.held = new Uint8Array(40e6).fill(1); await demo.echo({})"
    first, second = (shared.session(Plain(hold), start()) for _ in range(2))
    assert isinstance(await first.start(), Calls)
    end = await second.start()
    assert isinstance(end, Failed)
    assert end.error.limit == "limit.total_memory"
    first.close()
    second.close()
    assert await Runner(shared).value("return 1") == 1
    shared.close()
