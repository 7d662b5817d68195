"""No process is left: not after a stop, not from under a stubborn child, not after kill -9 of the gateway."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import orjson
import psutil
import pytest

from fixtures.backend_bench import Bench, odd_config, running_bench
from gatemini.backends.children import Children
from gatemini.liveness import start_time

pytestmark = pytest.mark.anyio

GONE_SECONDS = 10.0

GATEWAY = """
import sys, anyio
from pathlib import Path
from fixtures.backend_bench import odd_config
from gatemini.backends.manager import Manager

async def main():
    manager = Manager(on_tools=lambda name, tools: None, record_dir=Path(sys.argv[2]))
    async with anyio.create_task_group() as tasks:
        await tasks.start(manager.run)
        manager.add(odd_config(options={"ignore_term": True, "grandchild": sys.argv[1]}))
        await manager.wait_ready("odd", 10)
        print(manager.status("odd").pid, flush=True)
        await anyio.sleep(600)

anyio.run(main)
"""


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


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


async def test_a_grandchild_in_a_session_of_its_own_ends_with_the_backend(bench: Bench) -> None:
    await bench.odd()
    grandchild = await bench.value("fork", {"new_session": True})
    await bench.manager.remove("odd")
    assert not alive(grandchild)


async def test_grandchildren_of_a_backend_that_crashed_are_ended_as_well(bench: Bench) -> None:
    await bench.odd()
    grandchild = await bench.value("fork")
    with pytest.raises(Exception, match="exited with code 9"):
        await bench.call("die", {"code": 9})
    await bench.until_true(lambda: not alive(grandchild))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_a_gateway_that_is_killed_leaves_no_child_and_no_stubborn_grandchild(
    tmp_path: Path, how: signal.Signals
) -> None:
    pid_file = tmp_path / "grandchild"
    gateway = await anyio.open_process(
        [sys.executable, "-P", "-c", GATEWAY, str(pid_file), str(tmp_path / "children")],
        stderr=None,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    async with gateway:
        assert gateway.stdout is not None
        with anyio.fail_after(GONE_SECONDS):
            child = int(await gateway.stdout.receive())
        grandchild = int(pid_file.read_text())
        family = psutil.Process(gateway.pid).children(recursive=True)
        assert alive(grandchild)
        assert {child, grandchild} <= {p.pid for p in family}
        assert len(family) == 3, "child, grandchild and the watchdog"
        gateway.send_signal(how)
        await gateway.wait()
        await Bench.until_true(lambda: not any(alive(p.pid) for p in family))


async def test_a_sweep_ends_what_an_earlier_gateway_recorded_and_only_that(tmp_path: Path) -> None:
    def sleeper() -> subprocess.Popen[bytes]:
        return subprocess.Popen(["sleep", "600"], start_new_session=True)

    left, reused = sleeper(), sleeper()
    record = {
        "gateway": 2**22 + 1,  # above the largest pid: certainly no process
        "started": 5.0,
        "groups": {str(left.pid): start_time(left.pid), str(reused.pid): time.time() - 5000},
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


async def test_records_follow_the_children_that_run(tmp_path: Path) -> None:
    record = tmp_path / "children" / f"children-{os.getpid()}.json"
    async with running_bench(tmp_path) as bench:
        await bench.odd()
        assert list(orjson.loads(record.read_bytes())["groups"]) == [str(bench.manager.status("odd").pid)]
        await bench.manager.remove("odd")
        assert not record.exists()


async def test_a_child_sees_a_clean_environment(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER_TOKEN", "secret")
    monkeypatch.setenv("WANTED", "yes")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy")
    await bench.odd(env={"MINE": "1"}, inherit_env=("WANTED", "ABSENT"))
    seen = await bench.value("env")
    assert seen["MINE"] == "1"
    assert seen["WANTED"] == "yes"
    assert seen["HTTPS_PROXY"] == "http://proxy"
    assert seen["PATH"] == os.environ["PATH"]
    known = {
        "PATH",
        "HOME",
        "USER",
        "LANG",
        "LC_ALL",
        "TMPDIR",
        "SHELL",
        "TERM",
        "MINE",
        "WANTED",
        "LC_CTYPE",
    }
    assert {
        n for n in seen if n not in known and not n.lower().endswith("_proxy") and "CERT" not in n
    } == set()


async def test_a_400_kb_burst_on_stderr_keeps_the_last_200_lines_and_blocks_nothing(bench: Bench) -> None:
    await bench.odd()
    await bench.call("stderr", {"lines": 4000, "width": 100})
    await bench.until_true(lambda: bench.manager.stderr_tail("odd")[-1:] == ["line 3999 " + "e" * 100])
    assert len(bench.manager.stderr_tail("odd")) == 200


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


async def test_register_and_wait_gives_tools_or_the_stderr_and_leaves_nothing(bench: Bench) -> None:
    tools = await bench.manager.add_and_wait(odd_config("good"))
    assert "echo" in [t.name for t in tools]
    with pytest.raises(Exception, match="no licence"):
        await bench.manager.add_and_wait(
            odd_config("bad", options={"exit_code": 1, "stderr": "no licence\n"})
        )
    with pytest.raises(Exception, match="lists no tools"):
        await bench.manager.add_and_wait(odd_config("empty", options={"tools": []}))
    with pytest.raises(Exception, match="no tools today"):
        await bench.manager.add_and_wait(odd_config("sad", options={"on_list": "exit"}))
    assert bench.manager.names() == ["good"]
    assert json.dumps(sorted(n for n, t in bench.tools.items() if t)) == '["good"]'
