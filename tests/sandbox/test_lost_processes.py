"""Sandbox processes that are killed, stopped, silent, lying or cannot be had: chains in them end, and nothing hangs."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import anyio
import psutil
import pytest

from fixtures.guest import Chain, Runner
from fixtures.paused import pause
from gatemini_sandbox.errors import WorkerLost
from gatemini_sandbox.host import Sandbox
from gatemini_sandbox.limits import Limits
from gatemini_sandbox.messages import Calls, Failed, Reply
from gatemini_sandbox.processes import supervised_worker

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        not sys.platform.startswith("linux"), reason="programs are started by their first line"
    ),
]

SECONDS = 0.5
"""How long a silent process of these tests is waited for."""

ACTOR = """\
#!{python}
import os, struct, sys, time
sys.path[:0] = {path!r}
from gatemini_sandbox.messages import *
from gatemini_sandbox.processes.process import Inbox, send

inbox = Inbox()

def say(data):
    os.write(0, data)

def begun():
    inbox.next()
    send(Ready([]))
    return inbox.next().session

def silent():
    while True:
        time.sleep(3600)

{play}
"""
"""A program in the place of a sandbox process: the same socket and frames, another mind."""


@pytest.fixture
def apart(module_cache: Path, sandbox: Sandbox) -> Iterator[Sandbox]:
    limits = Limits(
        guests=4, cpu_seconds=SECONDS, calls=3, other_messages=3, value_bytes=100, console_bytes=256
    )
    made = Sandbox(limits, cache_dir=module_cache, isolation="process", processes=1)
    yield made
    made.close()


UNREADY = {
    "never becomes ready": ("silent()", "did not answer in time"),
    "ends before it is ready": ("inbox.next(); sys.exit(3)", "ended"),
    "becomes ready in no message": ("inbox.next(); say(b'\\x02\\0\\0\\0no'); silent()", "no message"),
    "answers the settings with a step": ("inbox.next(); send(Dropped(1)); silent()", "did not start"),
}
LIES = {
    "says half a frame and ends": ("say(struct.pack('<I', 100) + b'half')", "ended"),
    "says a length without end": ("say(b'\\xff' * 4); silent()", "a frame of 4294967295 bytes"),
    "says a length of nothing": ("say(bytes(4)); silent()", "no message"),
    "says noise": ("say(struct.pack('<I', 64) + os.urandom(64)); silent()", ""),
    "closes its socket and lives on": ("os.close(0); silent()", "ended"),
    "answers nobody": ("send(Dropped(n)); send(Stepped(n + 1, Calls([]))); silent()", "for no session"),
    "becomes ready once more": ("send(Ready([])); silent()", "an answer to nothing"),
    "issues a call twice": ("c = Call(1, 'tool', 'demo', 'echo', False, b'{{}}'); send(Stepped(n, Calls([c, c]))); silent()", "twice"),
    "issues too many calls": ("send(Stepped(n, Calls([Call(i, 'tool', 'd', 'e', False, b'1') for i in range(9)]))); silent()", "more calls"),
    "issues a call of another kind": ("send(Stepped(n, Calls([Call(1, 'shell', 'd', 'e', False, b'1')]))); silent()", "no message"),
    "gives a value over its limit": ("send(Stepped(n, Done('x' * 500, 'string'))); silent()", "over its limit"),
    "gives a console over its limit": ("send(Stepped(n, Done('', 'string', console=Console(['x' * 5000])))); silent()", "console"),
    "gives half a clock reading": ("send(Stepped(n, Calls([]), 0, b'odd')); silent()", "readings"),
    "is killed by the kernel": ("os.kill(os.getpid(), 9)", "ended"),
}  # fmt: skip


def acting(monkeypatch: pytest.MonkeyPatch, folder: Path, play: str) -> None:
    program = folder / "actor"
    program.write_text(ACTOR.format(python=sys.executable, path=sys.path, play=play))
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))


async def ends_as_lost(apart: Sandbox, cause: str) -> None:
    started: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen
    with pytest.MonkeyPatch.context() as patch:

        def noted(*arguments: object, **options: object) -> subprocess.Popen[bytes]:
            started.append(real(*arguments, **options))
            return started[-1]

        patch.setattr(subprocess, "Popen", noted)
        patch.setattr(apart, "_warm_soon", lambda: None)
        chain = Chain(apart, "return await demo.echo({})")
        step = await chain.start()
        if isinstance(step, Calls):
            step = await chain.resume([])
    assert isinstance(step, Failed)
    assert (step.error.name, step.error.limit) == ("WorkerLost", "sandbox.worker_lost")
    assert cause in step.error.message
    with anyio.fail_after(60):
        while started[0].returncode is None:  # noqa: ASYNC110 - it is reaped beside us
            await anyio.sleep(0.001)


ONE_OF_A_KIND = {
    "never becomes ready",
    "says half a frame and ends",
    "says a length without end",
    "answers nobody",
    "issues a call of another kind",
    "issues too many calls",
    "gives a value over its limit",
    "is killed by the kernel",
}


@pytest.mark.parametrize(
    "play",
    [pytest.param(p, marks=[] if p in ONE_OF_A_KIND else pytest.mark.long) for p in (*UNREADY, *LIES)],
)
async def test_a_process_that_misbehaves_costs_its_chains_and_is_replaced(
    apart: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, play: str
) -> None:
    words, cause = UNREADY.get(play) or LIES[play]
    with monkeypatch.context() as patch:
        acting(patch, tmp_path, words if play in UNREADY else f"n = begun()\n{words}".replace("{{}}", "{}"))
        if play == "never becomes ready":
            patch.setattr(supervised_worker, "START_SECONDS", SECONDS)
        await ends_as_lost(apart, cause)
    assert await Runner(apart).value("return 2") == 2


async def test_arguments_that_are_no_json_are_found_when_they_are_read(
    apart: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    acting(
        monkeypatch,
        tmp_path,
        "n = begun()\nsend(Stepped(n, Calls([Call(1, 'tool', 'd', 'e', False, b'{')])))\nsilent()",
    )
    await ends_as_lost(apart, "not JSON")


async def test_killing_a_process_ends_each_of_its_chains_and_no_other(apart: Sandbox) -> None:
    chains = [Chain(apart, "await demo.echo({}); return 1") for _ in range(3)]
    steps = [await chain.start() for chain in chains]
    os.kill(apart._workers[0].pid, signal.SIGKILL)
    for chain, step in zip(chains, steps, strict=True):
        end = await chain.resume([Reply(step.calls[0].id, True, b"1")])
        assert isinstance(end, Failed)
        assert end.error.limit == "sandbox.worker_lost"
    assert await Runner(apart).value("return 2") == 2


async def test_a_chain_sent_to_a_process_that_ended_while_idle_runs_in_another(apart: Sandbox) -> None:
    assert await Runner(apart).value("return 1") == 1
    for stopped in (True, False):  # the chain is sent before, or after, the process has gone
        dead = psutil.Process(apart._workers[0].pid)
        if stopped:
            pause(dead.pid)
            values: list[object] = []

            async def run() -> None:
                values.append(await Runner(apart).value("return 2"))  # noqa: B023 - used up within this turn

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run)
                await anyio.wait_all_tasks_blocked()
                dead.kill()
            assert values == [2]
        else:
            dead.kill()
            assert await Runner(apart).value("return 2") == 2


async def test_a_process_that_does_not_stop_a_chain_gets_no_new_one(
    apart: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervised_worker, "LATE_SECONDS", 0.0)
    chain = Chain(apart, "await demo.echo({}); return 1")
    step = await chain.start()
    victim = apart._workers[0].pid
    pause(victim)
    with anyio.move_on_after(SECONDS):
        await chain.resume([Reply(step.calls[0].id, True, b"1")])
    assert await Runner(apart).value("return 2") == 2
    assert psutil.pid_exists(victim), "it was not waited for"
    os.kill(victim, signal.SIGCONT)


@pytest.mark.parametrize("size", [1, 2_000_000], ids=["a small message", "one the socket does not hold"])
async def test_a_process_that_does_not_drop_a_chain_is_killed_and_replaced(
    apart: Sandbox, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(supervised_worker, "STOP_SECONDS", SECONDS)
    chain, other = (Chain(apart, "await demo.echo({}); return 1") for _ in range(2))
    step, _ = await chain.start(), await other.start()
    victim = apart._workers[0].pid
    pause(victim)
    with anyio.move_on_after(SECONDS) as scope:
        await chain.resume([Reply(step.calls[0].id, True, b'"' + b"x" * size + b'"')])
    assert scope.cancelled_caught
    end = await other.resume([])
    assert isinstance(end, Failed)
    assert "was stuck" in end.error.message
    assert await Runner(apart).value("return 2") == 2
    with anyio.fail_after(60):
        while psutil.pid_exists(victim):  # noqa: ASYNC110 - it is reaped beside us
            await anyio.sleep(0.001)


async def test_where_no_process_can_be_started_the_chain_ends_and_the_next_one_works_again(
    module_cache: Path, sandbox: Sandbox
) -> None:
    apart = Sandbox(Limits(guests=1), cache_dir=module_cache, isolation="process")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open(os.devnull, os.O_RDONLY)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + 1, hard))
    try:
        with pytest.raises(WorkerLost, match="no sandbox process can be started: Too many open files"):
            apart.warm()
        end = await Runner(apart)("return 1")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.close(lowest)
    assert isinstance(end, Failed)
    assert "Too many open files" in end.error.message
    assert await Runner(apart).value("return 2") == 2
    apart.close()


SCARCE = """
import os, resource, sys
from pathlib import Path
import anyio
from fixtures.guest import Runner
from gatemini_sandbox.errors import SandboxError
from gatemini_sandbox.host import Sandbox
from gatemini_sandbox.messages import Failed

async def main(mode):
    sandbox = Sandbox(cache_dir=Path(sys.argv[1]), isolation=mode)
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, resource.RLIM_INFINITY))
    for code in ("return 1", "for (let i = 0; i < 3e6; i++); return 2"):
        try:
            end = await Runner(sandbox)(code)
            print("Failed" if isinstance(end, Failed) else end.text)
        except SandboxError as exc:
            print(exc.code, exc)
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(await Runner(sandbox).value("return 'again'"))
    sandbox.close()

anyio.run(main, sys.argv[2])
"""


@pytest.mark.long
# A process each: what the first one has mapped would be over the limit of the second, and no thread can start then.
@pytest.mark.parametrize("mode", ["thread", "process"])
def test_every_chain_gets_an_error_when_memory_runs_out_and_later_chains_work(
    module_cache: Path, sandbox: Sandbox, mode: str
) -> None:
    told = subprocess.run(
        [sys.executable, "-c", SCARCE, module_cache, mode],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    *scarce, again = told.stdout.splitlines()
    assert len(scarce) == 2
    assert all(line.startswith("sandbox.host_exhausted") for line in scarce)
    assert again == "again"


ORPHAN = """
import os, sys
from pathlib import Path
import anyio
from fixtures.guest import Chain
from gatemini_sandbox.host import Sandbox
from gatemini_sandbox.limits import Limits

async def main():
    sandbox = Sandbox(Limits(cpu_seconds=600, wall_seconds=600), cache_dir=Path(sys.argv[1]), isolation="process")
    sandbox.warm()
    print(sandbox._workers[0].pid, flush=True)
    code = "await demo.echo({}); for (;;) {}" if sys.argv[2] != "computes without end" else "for (;;) {}"
    await Chain(sandbox, code).start()
    await anyio.sleep_forever()

anyio.run(main)
"""


def stopped(pid: int) -> bool:
    """Whether every thread of the process is stopped."""
    stats = [(path / "stat").read_text() for path in Path(f"/proc/{pid}/task").iterdir()]
    return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)


@pytest.mark.parametrize("what", ["waits", "computes without end", "is stopped"])
def test_a_process_ends_with_a_gateway_that_is_killed_whatever_it_does(
    module_cache: Path, sandbox: Sandbox, what: str
) -> None:
    gateway = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(ORPHAN), module_cache, what],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    worker = psutil.Process(int(gateway.stdout.readline()))
    before = worker.cpu_times().user
    if what == "is stopped":
        worker.suspend()
        while not stopped(worker.pid):  # the kernel wakes only a process all of whose threads have stopped
            assert gateway.poll() is None
    if what == "computes without end":
        while worker.cpu_times().user - before < 0.1:  # it is in the loop
            assert gateway.poll() is None
    gateway.kill()
    gateway.wait(timeout=30)
    gateway.stdout.close()
    gone, _ = psutil.wait_procs([worker], timeout=60)  # its code may run for ten minutes
    assert gone == [worker]


COMPILES = """
import os, subprocess, sys
child = "import os, sys; from gatemini_sandbox.processes.process import ends_with\\n" + (
    "with ends_with(int(sys.argv[1])):\\n    print(os.getpid(), flush=True)\\n    while True: pass"
)
subprocess.run([sys.executable, "-c", child, str(os.getpid())])
"""


def test_a_process_that_compiles_or_parses_ends_with_a_gateway_that_is_killed() -> None:
    gateway = subprocess.Popen(
        [sys.executable, "-c", COMPILES],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    worker = psutil.Process(int(gateway.stdout.readline()))
    gateway.kill()
    gateway.wait(timeout=30)
    gateway.stdout.close()
    gone, _ = psutil.wait_procs([worker], timeout=60)  # it would go on for ever
    assert gone == [worker]


def test_a_process_whose_gateway_was_killed_before_it_began_serves_nothing() -> None:
    ours, theirs = socket.socketpair()  # open: its end is not what tells it
    with ours, theirs, subprocess.Popen([sys.executable, "-c", ""]) as killed:
        killed.wait(30)
        words = [sys.executable, "-P", "-s", "-m", "gatemini_sandbox.processes.process", str(killed.pid)]
        with subprocess.Popen(words, stdin=theirs) as process:
            assert process.wait(60) == 0
