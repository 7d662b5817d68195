"""`make` says which Python it needs when the one it has will not do, and does not take a half-made .venv for a whole one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).resolve().parents[2] / "Makefile"


def make(folder: Path, python: Path | str) -> subprocess.CompletedProcess[str]:
    shutil.copy(MAKEFILE, folder)
    return subprocess.run(
        ["make", f"PYTHON={python}", ".venv/bin/python"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("python", ["", "no-such-python", "false"])
def test_a_python_that_is_missing_or_too_old_is_named_with_what_is_needed(
    tmp_path: Path, python: str
) -> None:
    made = make(tmp_path, python)
    assert made.returncode != 0
    assert (
        f"{python or 'no python3 on the path'} is not Python 3.11 or newer with venv and pip" in made.stderr
    )
    assert not (tmp_path / ".venv").exists()


def test_an_environment_that_could_not_be_finished_is_made_again(tmp_path: Path) -> None:
    half = 'case "$*" in *venv\\ .venv) mkdir -p .venv/bin; touch .venv/bin/python; exit 1;; esac'
    assert make(tmp_path, script(tmp_path / "half", half)).returncode != 0
    whole = make(tmp_path, script(tmp_path / "whole", f'exec "{sys.executable}" "$@"'))
    assert whole.returncode == 0, whole.stderr
    assert (tmp_path / ".venv" / "bin" / "pip").exists()
