"""Sandbox processes: the same answers as on threads, many guests in one, walls around them, and how they are shared."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import psutil
import pytest

from fixtures.guest import Chain, Runner
from gatemini.processes import process_mark, watchdog
from gatemini_sandbox.host import Sandbox
from gatemini_sandbox.limits import Limits
from gatemini_sandbox.messages import Calls, Done, Failed, Reply
from gatemini_sandbox.processes import process_pool, spawn
from gatemini_sandbox.processes.supervised_worker import ProcessWorker
from gatemini_sandbox.session import LARGE_CODE

pytestmark = pytest.mark.anyio

needs_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="walls of the Linux kernel")

Make = Callable[..., Sandbox]


@pytest.fixture
def make(module_cache: Path, sandbox: Sandbox) -> Iterator[Make]:
    made: list[Sandbox] = []

    def one(*limits: Limits, **more: object) -> Sandbox:
        made.append(Sandbox(*limits, cache_dir=module_cache, isolation="process", **more))
        return made[-1]

    yield one
    for each in made:
        each.close()


@pytest.fixture
def apart(make: Make) -> Sandbox:
    return make(Limits(guests=2, cpu_seconds=2), processes=1)


def pids(sandbox: Sandbox, lane: str = "small") -> list[int]:
    return [worker.pid for worker in sandbox._workers if worker.lane == lane]


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
        "const rows = await demo.echo({}); const x = rows.missing",
        "fetch('x')",
        "return [typeof __backends, Object.keys(__backends)]",
        "enum A { X, Y = 5 }\nnamespace N { export const y = A.Y }\nreturn N.y",
    ],
)
async def test_both_modes_give_the_same_end(in_process, sandbox, code):
    assert await Runner(in_process)(code, now_ms=1000.0) == await Runner(sandbox)(code, now_ms=1000.0)


async def test_one_process_runs_chain_after_chain_and_many_at_once_and_mixes_none(apart):
    run, answers = Runner(apart), {}
    await run("globalThis.left = 1; Array.prototype.left = 2; console.log('mine')")
    end = await run("console.log('yours'); return [typeof left, typeof [].left]")
    assert (end.text, end.console.lines) == ('["undefined","undefined"]', ["yours"])

    async def one(number: int) -> None:
        answers[number] = await Runner(apart).value(f"return (await demo.echo({{ n: {number} }})).n")

    async with anyio.create_task_group() as tasks:
        for number in range(30):
            tasks.start_soon(one, number)
    assert answers == {number: number for number in range(30)}
    assert len(pids(apart)) == 1


async def test_chains_go_to_the_least_busy_process_and_further_ones_start_when_all_are_full(make):
    two = make(Limits(), processes=2, guests_per_process=2)
    two.warm()
    usual = set(pids(two))
    assert len(usual) == 2
    waiting = []
    for count in (1, 2, 2, 2, 3):
        chain = Chain(two, "await demo.echo({}); return 1")
        assert isinstance(await chain.start(), Calls)
        waiting.append(chain)
        assert sum(worker.guests > 0 for worker in two._workers) == count
    for chain in waiting:
        chain.close()


async def test_with_one_guest_for_each_process_two_chains_never_share_one(make):
    alone = make(Limits(), processes=1, guests_per_process=1)
    chains = [Chain(alone, "return await demo.echo({})") for _ in range(3)]
    steps = [await chain.start() for chain in chains]
    assert [worker.guests for worker in alone._workers] == [1, 1, 1]
    for chain, step in zip(chains, steps, strict=True):
        assert isinstance(await chain.resume([Reply(step.calls[0].id, True, b"1")]), Done)


async def test_large_code_runs_beside_no_small_one_and_its_process_is_let_go(apart, monkeypatch):
    monkeypatch.setattr(process_pool, "IDLE_SECONDS", 0.0)
    large = f"// {'x' * LARGE_CODE}\nreturn await demo.echo({{}})"
    chain = Chain(apart, large)
    step = await chain.start()
    assert [(worker.lane, worker.guests) for worker in apart._workers] == [("large", 1)]
    end = await chain.resume([Reply(step.calls[0].id, True, b"1")])
    assert end.text == "1"
    assert await Runner(apart).value("return 2") == 2
    with anyio.fail_after(60):
        while pids(apart, "large"):  # noqa: ASYNC110 - nothing says so
            await anyio.sleep(0.001)


async def test_changed_limits_start_new_processes_and_the_old_one_ends_with_its_chain(apart):
    chain = Chain(apart, "return await demo.echo({})")
    step = await chain.start()
    old = psutil.Process(pids(apart)[0])
    apart.set_limits(Limits(guests=1))
    assert await Runner(apart).value("return 1") == 1
    assert old.is_running()
    assert isinstance(await chain.resume([Reply(step.calls[0].id, True, b"1")]), Done)
    assert not old.is_running()


async def test_cancelling_ends_the_guest_and_not_its_process(apart):
    other = Chain(apart, "return await demo.echo({})")
    step = await other.start()
    session = Chain(apart, "for (;;) {}")
    with anyio.move_on_after(0.2) as scope:
        await session.start()
    assert scope.cancelled_caught
    assert isinstance(await other.resume([Reply(step.calls[0].id, True, b"1")]), Done)
    with anyio.fail_after(60):
        while apart._workers[0].guests:  # noqa: ASYNC110 - nothing says so
            await anyio.sleep(0.001)


async def test_requests_are_read_while_code_computes_after_an_answer(apart) -> None:
    computing = Chain(apart, "await demo.echo({}); for (;;) {}")
    step = await computing.start()
    with anyio.move_on_after(60) as until_answered:

        async def run_another() -> None:
            assert await Runner(apart).value("return 41 + (await demo.echo({ n: 1 })).n") == 42
            until_answered.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_another)
            end = await computing.resume([Reply(step.calls[0].id, True, b"1")])
            pytest.fail(f"the other chain was answered after this one: {end}")
    assert until_answered.cancel_called
    with anyio.fail_after(60):
        while apart._workers[0].guests:  # noqa: ASYNC110 - nothing says so
            await anyio.sleep(0.001)
    assert len(pids(apart)) == 1


async def test_a_chain_that_waits_for_its_calls_takes_no_place_from_another(make) -> None:
    one = make(Limits(guests=1), processes=1)
    outer = Chain(one, "return 1 + await demo.echo({})")
    waiting = await outer.start()
    with anyio.fail_after(60):
        assert await Runner(one).value("return 41") == 41
    end = await outer.resume([Reply(waiting.calls[0].id, True, b"41")])
    assert end.text == "42"


@pytest.mark.parametrize("guests", [32, 1])
async def test_guests_that_wait_count_towards_the_memory_of_all_in_one_process_or_many(make, guests) -> None:
    shared = make(Limits(total_memory_mb=64, memory_mb=64), processes=1, guests_per_process=guests)
    hold = "globalThis.held = new Uint8Array(40e6).fill(1); await demo.echo({})"
    first, second = (Chain(shared, hold) for _ in range(2))
    assert isinstance(await first.start(), Calls)
    end = await second.start()
    assert isinstance(end, Failed)
    assert end.error.limit == "limit.total_memory"
    first.close()
    second.close()
    assert await Runner(shared).value("return 1") == 1


@pytest.mark.parametrize(
    ("code", "exchanges"),
    [("return 1", 1), ("return Object.keys(__backends)", 2), ("try { fetch('x') } catch { return 1 }", 2)],
)
async def test_code_takes_one_exchange_and_a_second_if_it_needs_the_catalog(
    make, monkeypatch, code, exchanges
):
    asking = make(Limits(), processes=1, watched=frozenset({"fetch"}))
    sent: list[str] = []
    send = ProcessWorker.send
    monkeypatch.setattr(
        ProcessWorker,
        "send",
        lambda worker, request: (sent.append(type(request).__name__), send(worker, request)),
    )
    for _ in range(2):  # new, and known
        sent.clear()
        assert isinstance(await Runner(asking)(code), Done)
        assert sent == ["Run"] * exchanges


async def test_large_messages_cross_in_both_directions_while_others_go_on(apart):
    text = '"' + "é" * 6_000_000 + '"'
    assert await Runner(apart).value("return await demo.echo({})", lambda _: text.encode()) == text[1:-1]


async def test_a_process_is_reached_through_descriptors_beyond_those_select_takes(make):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2000:
        pytest.skip("this process may not open so many")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        assert await Runner(make(Limits(guests=1))).value("return [await demo.echo({ n: 1 })]") == [{"n": 1}]
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@needs_linux
async def test_a_sandbox_process_does_not_have_the_mark_of_a_backend():
    worn = process_mark.set_mark()
    child = spawn.Child()  # in the same turn of the event loop: the mark is still on
    try:
        assert worn
        assert watchdog.marked(worn) == set()
    finally:
        child.kill()
        child.reap()


def test_a_process_started_early_is_the_first_one_that_is_used(make):
    spawn.start_early()
    early = spawn._early[0].pid
    made = make(Limits(), processes=1)
    made.warm()
    assert pids(made) == [early]


def test_closing_the_sandbox_leaves_no_process(make):
    made = make(Limits(guests=1), processes=1)
    made.warm()
    (pid,) = pids(made)
    made.close()
    assert not psutil.pid_exists(pid)


LIGHT = """
import sys
import gatemini_sandbox
found = {"wasmtime", "tree_sitter", "quickjs_rs", "numpy", "mcp", "gatemini"} & set(sys.modules)
assert not found, found
"""


def test_importing_the_package_loads_no_engine_and_no_parser():
    subprocess.run([sys.executable, "-P", "-c", LIGHT], check=True, timeout=60)


@needs_linux
def test_a_process_has_no_environment_and_no_descriptors_but_its_socket(make, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_GATEWAY", "x")
    made = make(Limits(), processes=1)
    made.warm()
    proc = Path(f"/proc/{pids(made)[0]}")
    try:
        assert (proc / "environ").read_bytes() == b""
        held = {int(entry.name): os.readlink(entry) for entry in (proc / "fd").iterdir()}
        sockets = [number for number, target in held.items() if target.startswith("socket:")]
        others = {target.split(" ")[0] for number, target in held.items() if number not in sockets}
        assert sockets == [0]
        assert others <= {"/dev/null", "/memfd:wasm-memory-image"}  # the latter is the module's own data
    except PermissionError:
        pytest.skip("the process cannot even be looked at")


PROBE = """
import ctypes, mmap, os, socket, subprocess, sys, threading
from gatemini_sandbox.processes.confine import confine
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
    seen = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    if "seccomp" not in seen.get("applied", "") or "landlock" not in seen["applied"]:
        pytest.skip(f"this kernel has not both walls: {seen.get('applied')}")
    assert seen.pop("applied").startswith("rlimit_core")
    assert seen.pop("memory") == "done"
    assert set(seen.values()) == {"refused"}, seen
