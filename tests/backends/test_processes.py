"""No process is left: not after a stop, not from under a stubborn child, not after kill -9 of the gateway."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import orjson
import psutil
import pytest

from fixtures.backend_bench import TEST_SECONDS, Bench, odd_config, running_bench
from gatemini.backends.status import State
from gatemini.config.model.schema import BackendConfig
from gatemini.errors import BackendError
from gatemini.processes import watchdog
from gatemini.processes.children import Children
from gatemini.processes.process_facts import start_time

pytestmark = pytest.mark.anyio

START_SECONDS = 60.0

GATEWAY = """
import json, sys, anyio
from pathlib import Path
from fixtures.backend_bench import odd_config
from gatemini.backends.manager import Manager

async def main():
    manager = Manager(on_tools=lambda name, tools: None, record_dir=Path(sys.argv[2]))
    async with anyio.create_task_group() as tasks:
        await tasks.start(manager.run)
        manager.add(odd_config(options=json.loads(sys.argv[1])))
        await manager.wait_ready("odd", 60)
        print(manager.status("odd").pid, flush=True)
        await anyio.sleep(600)

anyio.run(main)
"""


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize(
    "keys",
    [
        {"command": "no-such-program"},
        {"command": sys.executable, "args": ("-c", "raise SystemExit(3)")},
        {"transport": "python", "module": "no.such.module:server"},
    ],
    ids=["no program", "ends at once", "no module"],
)
async def test_the_log_line_of_a_backend_that_does_not_start_names_it_once(
    bench: Bench, caplog: pytest.LogCaptureFixture, keys: dict[str, Any]
) -> None:
    bench.manager.add(BackendConfig(name="files", **keys))
    await bench.until(
        lambda: ("files", State.STOPPED) in bench.states
    )  # it is set after the line was written
    lines = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert [line[:15] for line in lines] == ["backend files: "]
    assert "files" not in lines[0][15:].partition(";")[0]


async def test_stopping_ends_a_child_and_a_grandchild_that_ignore_sigterm(tmp_path: Path) -> None:
    pid_file = tmp_path / "grandchild"
    async with running_bench(tmp_path) as bench:
        await bench.odd(options={"ignore_term": True, "grandchild": str(pid_file)})
        child, grandchild = bench.manager.status("odd").pid, int(pid_file.read_text())
        assert child is not None
        assert alive(child)
        assert alive(grandchild)
        assert await bench.manager.remove("odd") > 0
        assert not alive(child)
        assert not alive(grandchild)
    assert bench.tools["odd"] is None


WAYS_TO_END: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a tidy server": ({}, ["end of input"]),
    "one that goes on without a client": ({"ignore_end": True}, ["end of input", "SIGTERM"]),
    "one that ends at nothing": ({"ignore_end": True, "ignore_term": True}, ["end of input", "SIGTERM"]),
}


@pytest.mark.parametrize("what", ["removed", "restarted", "at the gateway's end"])
@pytest.mark.parametrize(("options", "expected"), WAYS_TO_END.values(), ids=WAYS_TO_END)
async def test_stopping_closes_stdin_then_sends_sigterm_then_sigkill(
    tmp_path: Path, options: dict[str, Any], expected: list[str], what: str
) -> None:
    told = tmp_path / "told"
    async with running_bench(tmp_path) as bench:
        await bench.odd(options={**options, "told": str(told)})
        child = bench.manager.status("odd").pid
        assert child is not None
        if what == "removed":
            await bench.manager.remove("odd")
            assert not alive(child)
        elif what == "restarted":
            config = odd_config(options={**options, "told": str(told)}, tags=("changed",))
            await bench.manager.apply({"odd": config})
            await bench.until(lambda: bench.manager.status("odd").pid not in (child, None))
            assert not alive(child)
            assert told.read_text().split("\n")[:-1] == expected
    assert not alive(child)
    assert told.read_text().split("\n")[: len(expected)] == expected
    assert what == "restarted" or len(told.read_text().split("\n")[:-1]) == len(expected)


async def test_stopping_does_not_wait_for_a_child_that_does_not_read(tmp_path: Path) -> None:
    """Its stdin cannot be closed: what was written before has not gone through the pipe."""
    async with running_bench(tmp_path) as bench:
        await bench.odd(options={"ignore_term": True})
        child = bench.manager.status("odd").pid
        assert child is not None
        await bench.value("stop_reading")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fills_the_pipe, bench)
            await anyio.wait_all_tasks_blocked()
            with anyio.fail_after(TEST_SECONDS):
                await bench.manager.remove("odd")
        assert not alive(child)


async def fills_the_pipe(bench: Bench) -> None:
    with pytest.raises(BackendError):
        await bench.call("echo", {"text": "x" * 500_000}, timeout=TEST_SECONDS)


@pytest.mark.parametrize("how", ["group", "new_session", "daemon"])
@pytest.mark.parametrize("crash", [False, True])
async def test_all_processes_of_a_backend_end_with_it(bench: Bench, how: str, crash: bool) -> None:
    await bench.odd()
    grandchild = await bench.value("fork", {how: True})
    assert alive(grandchild)
    if crash:
        with pytest.raises(BackendError, match="exited with code 9"):
            await bench.call("die", {"code": 9})
    else:
        await bench.manager.remove("odd")
    await bench.until_true(lambda: not alive(grandchild))


async def test_a_command_leaves_no_daemon_behind(bench: Bench, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    command = ["sh", "-c", f"setsid sleep 600 >/dev/null 2>&1 </dev/null & echo $! >{pid_file}"]
    tool = {"command": command, "output": "text"}
    bench.manager.add(BackendConfig.model_validate({"name": "odd", "tools": {"start": tool}}))
    await bench.call("start")
    await bench.until_true(lambda: not alive(int(pid_file.read_text())))


async def gateway(options: dict[str, Any], record_dir: Path) -> anyio.abc.Process:
    """A gateway process of its own with one odd backend; it prints the backend's pid when that is ready."""
    return await anyio.open_process(
        [sys.executable, "-P", "-c", GATEWAY, json.dumps(options), str(record_dir)],
        stderr=None,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )


async def told_pid(process: anyio.abc.Process) -> int:
    assert process.stdout is not None
    with anyio.fail_after(START_SECONDS):
        return int(await process.stdout.receive())


ESCAPES = [*(pytest.param(escape, marks=pytest.mark.long) for escape in ("", "session")), "daemon"]


@pytest.mark.parametrize("escape", ESCAPES)
@pytest.mark.parametrize("ignore_term", [True, pytest.param(False, marks=pytest.mark.long)])
@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
async def test_a_gateway_that_is_killed_leaves_no_child_and_no_stubborn_grandchild(
    tmp_path: Path, how: signal.Signals, ignore_term: bool, escape: str
) -> None:
    pid_file = tmp_path / "grandchild"
    options = {"ignore_term": ignore_term, "grandchild": str(pid_file), "escape": escape}
    async with await gateway(options, tmp_path / "children") as process:
        child = await told_pid(process)
        grandchild = int(pid_file.read_text())
        family = {p.pid for p in psutil.Process(process.pid).children(recursive=True)} | {grandchild}
        assert alive(grandchild)
        assert child in family
        assert len(family) == 3, "child, grandchild and the watchdog"
        process.send_signal(how)
        await process.wait()
        await Bench.until_true(lambda: not any(alive(pid) for pid in family))


async def test_a_gateway_that_is_killed_leaves_nothing_that_was_stopped_not_even_the_watchdog(
    tmp_path: Path,
) -> None:
    pid_file = tmp_path / "grandchild"
    async with await gateway({"grandchild": str(pid_file)}, tmp_path / "children") as process:
        await told_pid(process)
        family = psutil.Process(process.pid).children(recursive=True)
        assert len(family) == 3, "child, grandchild and the watchdog"
        for member in family:
            member.suspend()
        # The signal takes effect some time after it was sent.
        await Bench.until_true(lambda: all(m.status() == psutil.STATUS_STOPPED for m in family))
        process.kill()
        await process.wait()
        await Bench.until_true(lambda: not any(alive(member.pid) for member in family))


@pytest.mark.parametrize("escape", ESCAPES)
async def test_the_next_start_kills_what_a_killed_gateway_and_watchdog_left(
    tmp_path: Path, escape: str
) -> None:
    pid_file, records = tmp_path / "grandchild", tmp_path / "children"
    options = {"grandchild": str(pid_file), "escape": escape}
    async with await gateway(options, records) as process:
        child = await told_pid(process)
        family = psutil.Process(process.pid).children()
        (watchdog,) = [p for p in family if p.pid != child]
        watchdog.kill()
        process.kill()
        await process.wait()
    grandchild = int(pid_file.read_text())
    await Bench.until_true(lambda: not alive(child))  # it saw the end of its stdin
    assert alive(grandchild)
    assert Children(records).sweep() == 1
    await Bench.until_true(lambda: not alive(grandchild))
    assert list(records.iterdir()) == []


async def test_two_gateways_with_one_directory_leave_each_others_children_alone(tmp_path: Path) -> None:
    async with running_bench(tmp_path) as bench:
        await bench.odd()
        async with await gateway({}, tmp_path / "children") as process:
            theirs = await told_pid(process)
            assert Children(tmp_path / "children").sweep() == 0
            assert alive(theirs)
            process.kill()
            await process.wait()
        await Bench.until_true(lambda: not alive(theirs))
        Children(tmp_path / "children").sweep()
        assert await bench.value("echo", {"still": "here"}) == {"still": "here"}
        assert len(list((tmp_path / "children").iterdir())) == 1, "the record of the one that lives"


async def test_a_sweep_kills_only_what_an_ended_gateway_recorded(tmp_path: Path) -> None:
    def sleeper() -> subprocess.Popen[bytes]:
        return subprocess.Popen(["sleep", "600"], start_new_session=True)

    left, reused = sleeper(), sleeper()
    record = {
        "gateway": 2**22 + 1,  # above the largest pid: certainly no process
        "started": 5.0,
        "groups": {
            str(left.pid): {"created": start_time(left.pid), "mark": 0},
            str(reused.pid): {"created": time.time() - 5000, "mark": 0},
        },
    }
    try:
        (tmp_path / "children-7.json").write_bytes(orjson.dumps(record))
        (tmp_path / "children-8.json").write_bytes(b"{half")
        assert Children(tmp_path).sweep() == 1
        assert left.wait() == -signal.SIGKILL
        assert reused.poll() is None, "its number was taken by another process since"
        assert not (tmp_path / "children-7.json").exists()
    finally:
        reused.kill()
        reused.wait()


@pytest.mark.parametrize(
    ("number", "mark"), [(0, 0), (1, 0), (-1, 0), (2**22 + 2, 241)], ids=["0", "1", "-1", "an ordinary limit"]
)
async def test_a_sweep_signals_nothing_that_only_a_damaged_record_can_name(
    tmp_path: Path, number: int, mark: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mark is the value of a limit: a low one would be found in processes that have nothing to do with it."""
    killed: list[int] = []  # killing group 0 for real would end the test run
    monkeypatch.setattr(watchdog, "kill_group", lambda pid, *_rest, **_named: bool(killed.append(pid)))
    groups = {str(number): {"created": 0, "mark": mark}}
    record = {"gateway": 2**22 + 1, "started": 5.0, "groups": groups}
    (tmp_path / "children-7.json").write_bytes(orjson.dumps(record))
    assert Children(tmp_path).sweep() == 0
    assert killed == []


async def test_a_sweep_does_not_block_on_a_pipe_in_place_of_a_record(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "children-7.json")
    with anyio.fail_after(TEST_SECONDS):
        assert await anyio.to_thread.run_sync(Children(tmp_path).sweep, abandon_on_cancel=True) == 0


async def test_a_child_sees_a_clean_environment(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER_TOKEN", "secret")
    monkeypatch.setenv("WANTED", "yes")
    passed = {"HTTPS_PROXY": "http://proxy", "PIP_CERT": "/ca.pem", "TZ": "UTC"}
    for name, value in passed.items():
        monkeypatch.setenv(name, value)
    await bench.odd(env={"MINE": "1"}, inherit_env=("WANTED", "ABSENT"))
    seen = await bench.value("env")
    assert seen["MINE"] == "1"
    assert seen["WANTED"] == "yes"
    assert seen.items() >= passed.items()
    assert seen["PATH"] == os.environ["PATH"]
    known = {
        *[
            "PATH",
            "HOME",
            "USER",
            "LANG",
            "LC_ALL",
            "TMPDIR",
            "SHELL",
            "TERM",
            "TZ",
            "MINE",
            "WANTED",
            "LC_CTYPE",
        ]
    }
    network = re.compile("_proxy$|cert|ca_bundle", re.I)
    assert {name for name in seen if name not in known and not network.search(name)} == set()


async def test_cancelling_everything_while_backends_start_leaves_nothing(tmp_path: Path) -> None:
    async with running_bench(tmp_path) as bench:
        for number in range(5):
            bench.manager.add(
                odd_config(f"b{number}", options={"on_discover": "silent", "on_initialize": "silent"})
            )
        await bench.until_true(lambda: all(s.pid for s in bench.manager.statuses()))
    assert {s.state for s in bench.manager.statuses()} == {"stopped"}


async def test_descriptors_do_not_leak_over_many_starts(tmp_path: Path) -> None:
    async with running_bench(tmp_path) as bench:
        await bench.odd()
        await bench.manager.remove("odd")
        before = psutil.Process().num_fds()
        for _ in range(5):
            await bench.odd()
            await bench.manager.remove("odd")
        assert psutil.Process().num_fds() <= before + 1


async def test_other_work_runs_between_the_starts_of_two_children() -> None:
    children, seen = Children(), list[str]()

    async def start(name: str) -> None:
        async with children.starting():
            seen.append(name)
            ask.set()

    async def client() -> None:
        await ask.wait()
        seen.append("a client")

    ask = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(start, "one")
        tasks.start_soon(start, "another")
        tasks.start_soon(client)
    assert seen == ["one", "a client", "another"]
