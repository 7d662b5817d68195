"""`completion` and `config path`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from fixtures.command_line import Run
from gatemini.cli.main import COMMANDS


def completed(script: Path, *words: str) -> set[str]:
    """What bash offers for the last of these words."""
    code = (
        f'source {script}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _gatemini; '
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", code, "bash", "gatemini", *words], capture_output=True, text=True, check=True, cwd="/"
    )
    return set(done.stdout.split())


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes_commands_options_and_clients(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(run("completion", "bash").out)
    assert completed(script, "") >= {*COMMANDS, "serve", "--direct"}
    assert completed(script, "insta") == {"install"}
    assert completed(script, "install", "cu") == {"cursor"}
    assert completed(script, "install", "cursor", "--take") == {"--take-over"}
    assert completed(script, "-c", "x.yaml", "config", "") >= {"check", "schema", "show", "path"}
    assert completed(script, "config", "show", "--a") == {"--all"}
    assert completed(script, "completion", "f") == {"fish"}


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_can_read_their_script(shell: str, run: Run, tmp_path: Path) -> None:
    script = run("completion", shell).out
    assert "take-over" in script
    assert all(name in script for name in COMMANDS)
    if program := shutil.which(shell):
        (tmp_path / "script").write_text(script)
        subprocess.run([program, "-n", str(tmp_path / "script")], check=True)
    assert run("completion", "tcsh").code == 2


def test_config_path_names_the_file_in_use(run: Run, home: Path) -> None:
    default = home / ".config" / "gatemini" / "config.yaml"
    absent = run("config", "path")
    assert (absent.code, absent.out) == (1, f"{default}\n")
    assert run("init").code == 0
    assert run("config", "path", "--json").json == {"path": str(default), "exists": True}
    assert run("config", "path", "-c", "/dev/null").out == "/dev/null\n"
