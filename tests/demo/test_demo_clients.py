"""`demo --clients`: what it prints is measured, and nothing of it is left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets")
def test_clients_share_the_backends_of_one_daemon_and_nothing_is_left() -> None:
    mark = f"GATEMINI_TEST_DEMO_{os.getpid()}"
    before = set(Path(tempfile.gettempdir()).glob("gm-*"))
    done = subprocess.run(
        [sys.executable, "-P", "-m", "gatemini", "demo", "--clients", "3", "--json"],
        capture_output=True,
        text=True,
        env={**os.environ, "GATEMINI_MARK": mark},
        timeout=180,
    )
    assert done.returncode == 0, done
    shared, direct = json.loads(done.stdout)["rows"]
    assert (shared["backends"], direct["backends"]) == (5, 15)
    assert shared["processes"] < direct["processes"]
    assert shared["memory_mb"] < direct["memory_mb"]
    assert shared["later_seconds"] < direct["later_seconds"]
    assert [process for process in psutil.process_iter() if marked(process, mark)] == []
    made = {
        path for path in set(Path(tempfile.gettempdir()).glob("gm-*")) - before if (path / "run").is_dir()
    }
    assert not any((path / "config.yaml").exists() and "small_server" in config(path) for path in made)


def marked(process: psutil.Process, mark: str) -> bool:
    try:
        return process.environ().get("GATEMINI_MARK") == mark and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def config(folder: Path) -> str:
    try:
        return (folder / "config.yaml").read_text()
    except OSError:
        return ""
