"""`gatemini doctor --fix` does what a finding says, where nobody else is touched, and reports what it did."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from fixtures.command_line import Run
from gatemini.cli.daemon_findings import end_processes
from gatemini.cli.finding import Finding
from gatemini.proxy.places import take_lock


@pytest.fixture(autouse=True)
def no_other_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Orphans of other programs on this machine are not these tests' to end."""
    monkeypatch.setattr("gatemini.cli.daemon_findings.orphans", list)


def test_folders_are_closed_and_files_of_killed_daemons_removed(
    run: Run, home: Path, runtime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    state, sockets = home / "state" / "gatemini", Path(runtime, "gatemini")
    state.mkdir(parents=True)
    state.chmod(0o755)
    sockets.mkdir(mode=0o700)
    stale, held = sockets / "0123456789ab.pid", sockets / "ba9876543210.pid"
    for path in (stale, held):
        path.write_text("1 1\n")
    lock = take_lock(str(held.with_suffix(".lock")))
    assert lock is not None
    config = home / "config.yaml"
    config.write_text("semantic: {model: none}\nbackends: {}\n")

    seen = run("doctor", "-c", str(config)).out
    assert "(--fix)" in seen
    assert stale.exists()
    findings = {f["what"]: f for f in run("doctor", "--fix", "--json", "-c", str(config)).json["findings"]}
    for what in ("private folder", "stale files"):
        assert (findings[what]["fixed"], findings[what]["verdict"]) == (True, "ok")
    assert state.stat().st_mode & 0o777 == 0o700
    assert (stale.exists(), held.exists()) == (False, True)  # a daemon that lives keeps its files
    os.close(lock)


@pytest.mark.long
def test_an_orphan_that_ignores_sigterm_is_ended() -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        end_processes([psutil.Process(child.pid)])
        assert not psutil.pid_exists(child.pid)


def test_a_fix_that_fails_says_so_and_leaves_the_verdict() -> None:
    def fails() -> None:
        raise OSError("not permitted")

    finding = Finding("private folder", "warn", "open", "chmod 700 x", fails)
    finding.apply_fix()
    assert (finding.verdict, finding.fixed) == ("warn", False)
    assert finding.seen == "open; --fix failed: not permitted"
