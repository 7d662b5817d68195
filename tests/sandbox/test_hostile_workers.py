"""Worker processes that are stopped, silent, lying or cannot be had: each costs its chain at most, and nothing hangs."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from fixtures.guest import Plain, Runner, start
from gatemini_sandbox import Calls, Done, Failed, Limits, Sandbox, WorkerLost, workers

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        not sys.platform.startswith("linux"), reason="programs are started by their first line"
    ),
]

SECONDS = 0.5
"""How long a silent worker of these tests is waited for."""

ACTOR = """\
#!{python}
import os, struct, sys, time
sys.path[:0] = {path!r}
import orjson
from gatemini_sandbox import frames
from gatemini_sandbox.messages import Raw
from gatemini_sandbox.worker import pack_raw, receive, send

def say(data):
    os.write(1, data)

def ready():
    frames.read(receive)
    send(frames.READY, [b"[]", b""])

def taken():
    ready()
    frames.read(receive)
    send(frames.TAKEN, [])

def silent():
    while True:
        time.sleep(3600)

{play}
"""
"""A program in the place of the worker's: the same pipes and frames, another mind."""


@pytest.fixture
def apart(module_cache: Path, sandbox: Sandbox) -> Iterator[Sandbox]:
    made = Sandbox(Limits(guests=2, cpu_seconds=SECONDS), cache_dir=module_cache, isolation="process")
    yield made
    made.close()


PLAYS = {
    "never becomes ready": ("silent()", "did not answer in time"),
    "ends before it is ready": ("frames.read(receive); sys.exit(3)", "ended"),
    "becomes ready in no JSON": ("frames.read(receive); send(frames.READY, [b'nonsense', b'']); silent()", "start"),
    "becomes ready as an object": ("frames.read(receive); send(frames.READY, [b'{}', b'']); silent()", "start"),
    "is unfit for a reason unknown": ("frames.read(receive); send(frames.UNFIT, [b'x', b'words'])", "words"),
    "answers the chain with another frame": ("ready(); frames.read(receive); send(frames.READY, []); silent()", "take up"),
    "never takes up the chain": ("ready(); silent()", "did not answer in time"),
    "takes it up and is silent": ("taken(); silent()", "did not answer in time"),
    "says half a frame and is silent": ("taken(); say(struct.pack('<I', 100) + b'half'); silent()", "in time"),
    "says half a frame and ends": ("taken(); say(struct.pack('<I', 100) + b'half')", "ended"),
    "says half a length": ("taken(); say(b'ab'); silent()", "did not answer in time"),
    "says a length without end": ("taken(); say(b'\\xff' * 4); silent()", "a frame of 4294967295 bytes"),
    "says a length of nothing": ("taken(); say(bytes(4)); silent()", "a frame of 0 bytes"),
    "says noise": ("taken(); say(struct.pack('<I', 64) + os.urandom(64)); silent()", ""),
    "promises parts it does not send": ("taken(); say(struct.pack('<IBH', 3, 7, 9)); silent()", "within a part"),
    "closes its pipe and lives on": ("taken(); os.close(1); silent()", "ended"),
    "says a step without a head": ("taken(); send(frames.RAW, [b'[]'] + [b''] * 4); silent()", "nonsense"),
    "says a step of a lie": ("taken(); send(frames.RAW, [b'{\"end\":\"won\"}'] + [b''] * 4); silent()", "nonsense"),
    "is killed by the kernel": ("taken(); os.kill(os.getpid(), 9)", "ended"),
    "stops itself": ("taken(); os.kill(os.getpid(), 19)", "did not answer in time"),
}  # fmt: skip


@pytest.mark.parametrize("play", PLAYS)
async def test_a_worker_that_misbehaves_costs_its_chain_and_is_replaced(
    apart: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, play: str
) -> None:
    words, cause = PLAYS[play]
    program = tmp_path / "actor"
    program.write_text(ACTOR.format(python=sys.executable, path=sys.path, play=words))
    program.chmod(0o700)
    started: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def noted(*arguments: object, **options: object) -> subprocess.Popen[bytes]:
        started.append(real(*arguments, **options))
        return started[-1]

    with monkeypatch.context() as patch:
        patch.setattr(workers, "START_SECONDS", 60.0 if play != "never becomes ready" else SECONDS)
        patch.setattr(workers, "GRACE_SECONDS", 30.0 if "in time" not in cause else SECONDS)
        patch.setattr(sys, "executable", str(program))
        patch.setattr(subprocess, "Popen", noted)
        end = await apart.session(Plain("return await demo.echo({})"), start()).start()
    assert isinstance(end, Failed)
    assert (end.error.name, end.error.limit) == ("WorkerLost", "sandbox.worker_lost")
    assert cause in end.error.message
    assert started[0].returncode is not None, "the process is gone, and was waited for"
    monkeypatch.undo()
    assert await Runner(apart).value("return 2") == 2


SLOW = """\
taken()
until = time.monotonic() + 4 * {seconds}
while time.monotonic() < until:  # as on a machine that has little left for it
    spun = time.process_time() + 0.02
    while time.process_time() < spun:
        pass
    time.sleep(0.1)
send(frames.RAW, pack_raw(Raw([], "done", b"7", b'{{"kind":"json","notes":[],"unawaited":[],"places":[],"refs":[]}}')))
silent()
"""


async def test_a_worker_that_computes_slowly_is_waited_for(
    apart: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "actor"
    program.write_text(ACTOR.format(python=sys.executable, path=sys.path, play=SLOW.format(seconds=SECONDS)))
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(workers, "GRACE_SECONDS", SECONDS)
    end = await apart.session(Plain("return 7"), start()).start()
    assert isinstance(end, Done), end
    assert end.text == "7"


async def test_a_worker_stopped_between_two_steps_is_waited_for_no_longer_than_a_step_may_take(
    module_cache: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart = Sandbox(Limits(cpu_seconds=2), cache_dir=module_cache, isolation="process")
    session = apart.session(Plain("await demo.echo({}); return 1"), start())
    assert isinstance(await session.start(), Calls)
    process = session._guest._process
    os.kill(process.pid, signal.SIGSTOP)
    monkeypatch.setattr(workers, "GRACE_SECONDS", SECONDS - 2)
    end = await session.outcome()
    assert isinstance(end, Failed)
    assert not psutil.pid_exists(process.pid)
    apart.close()


async def test_where_no_process_can_be_started_the_chain_is_told_and_the_next_one_works_again(
    module_cache: Path, sandbox: Sandbox
) -> None:
    apart = Sandbox(Limits(guests=1), cache_dir=module_cache, isolation="process")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open(os.devnull, os.O_RDONLY)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + 1, hard))
    try:
        with pytest.raises(WorkerLost, match="no sandbox worker can be started: Too many open files"):
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
from gatemini_sandbox import Failed, Sandbox, SandboxError

async def main(mode, warm):
    sandbox = Sandbox(cache_dir=Path(sys.argv[1]), isolation=mode)
    if warm:
        sandbox.warm()
    resource.setrlimit(resource.RLIMIT_{what}, ({value}, resource.RLIM_INFINITY))
    for code in ("return 1", "for (let i = 0; i < 3e6; i++); return 2"):
        try:
            end = await Runner(sandbox)(code)
            print(mode, "Failed" if isinstance(end, Failed) else end.text)
        except SandboxError as exc:
            print(mode, exc.code, exc)
    resource.setrlimit(resource.RLIMIT_{what}, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(mode, await Runner(sandbox).value("return 'again'"))
    sandbox.close()

anyio.run(main, "thread", False)
anyio.run(main, "process", False)
"""


@pytest.mark.long
def test_where_memory_cannot_be_had_every_chain_is_told_and_works_again_later(
    module_cache: Path, sandbox: Sandbox
) -> None:
    code = textwrap.dedent(SCARCE).format(what="AS", value=2 << 30)
    told = subprocess.run(
        [sys.executable, "-c", code, module_cache],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ).stdout.splitlines()
    for mode in ("thread", "process"):
        *scarce, again = [line.removeprefix(f"{mode} ") for line in told if line.startswith(mode)]
        assert len(scarce) == 2
        assert all(line.startswith("sandbox.host_exhausted no memory for another guest") for line in scarce)
        assert again == "again"


ORPHAN = """
import os, sys
from pathlib import Path
import anyio
from fixtures.guest import Plain, start
from gatemini_sandbox import Limits, Sandbox

async def main():
    sandbox = Sandbox(Limits(cpu_seconds=600, wall_seconds=600), cache_dir=Path(sys.argv[1]), isolation="process")
    sandbox.warm()
    print(sandbox._workers._idle[0].pid, flush=True)
    code = "await demo.echo({}); for (;;) {}" if sys.argv[2] != "computes without end" else "for (;;) {}"
    await sandbox.session(Plain(code), start()).start()
    await anyio.sleep_forever()

anyio.run(main)
"""


@pytest.mark.parametrize("what", ["waits", "computes without end", "is stopped"])
def test_a_worker_ends_with_a_gateway_that_is_killed_whatever_it_does(
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
        while worker.status() != psutil.STATUS_STOPPED:  # the signal takes effect some time after it was sent
            assert gateway.poll() is None
    if what == "computes without end":
        while worker.cpu_times().user - before < 0.1:  # it is in the loop
            assert gateway.poll() is None
    gateway.kill()
    gateway.wait(timeout=30)
    gateway.stdout.close()
    gone, _ = psutil.wait_procs([worker], timeout=60)  # its code may run for ten minutes
    assert gone == [worker]
