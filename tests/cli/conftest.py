"""The command line in this process, with a home of its own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures import engine_cache
from fixtures.command_line import Ran, Run
from gatemini.cli.main import dispatch


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all tests, so that the guest is compiled once."""
    made = tmp_path_factory.mktemp("cache")
    engine_cache.share(made)
    return made


@pytest.fixture
def runtime() -> Iterator[str]:
    """A folder of its own for sockets, so that no daemon of this machine answers; short, as the path of a socket must be."""
    with tempfile.TemporaryDirectory(prefix="gm-", dir="/tmp" if os.name == "posix" else None) as folder:
        yield folder


@pytest.fixture
def home(tmp_path: Path, cache: Path, runtime: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home; the working folder is another one, so that nothing of this checkout is found."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setenv("GATEMINI_CONFIG", "")
    monkeypatch.setenv("NO_COLOR", "1")
    return tmp_path


@pytest.fixture
def run(home: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def ran(*words: str) -> Ran:
        capsys.readouterr()
        code = dispatch([str(word) for word in words])
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return ran
