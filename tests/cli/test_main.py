"""The dispatch table: light, truthful, with the exit codes of the documentation."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer

from fixtures.command_line import Run
from gatemini.cli.main import COMMANDS

DOCS = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
HEAVY = ("mcp", "pydantic", "typer", "rich", "wasmtime", "numpy", "yaml", "anyio")


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_deciding_what_to_run_imports_nothing_heavy() -> None:
    code = f"import gatemini.cli.main, sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    assert python(code).strip() == "[]"


def test_checking_a_configuration_loads_no_gateway() -> None:
    code = "import gatemini.cli.configuration, sys; print([m for m in ('mcp', 'numpy') if m in sys.modules])"
    assert python(code).strip() == "[]"


def test_the_plain_command_says_that_the_daemon_comes_later_and_names_direct(run: Run) -> None:
    result = run()
    assert result.code == 2
    assert result.out == ""
    assert "not built yet" in result.err
    assert "gatemini --direct" in result.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["serch"], "did you mean search?"),
        (["--nope"], "no option --nope"),
        (["-c"], "needs the path"),
        (["--direct", "search"], "--direct takes no command"),
    ],
)
def test_wrong_usage_is_two_and_says_what_is_right(run: Run, words: list[str], says: str) -> None:
    result = run(*words)
    assert result.code == 2
    assert says in result.err
    assert result.out == ""


@pytest.mark.parametrize(
    "words", [["config"], ["run"], ["search"], ["call"], ["config", "chek"], ["search", "--limit", "0", "x"]]
)
def test_wrong_usage_of_a_command_is_two_as_well(run: Run, words: list[str]) -> None:
    assert run(*words).code == 2


def test_help_lists_every_command_and_version_is_that_of_the_package(run: Run) -> None:
    result = run("--help")
    assert result.code == 0
    assert all(f"\n  {name} " in result.out for name in COMMANDS)
    assert run("--version").out.startswith("gatemini 0.")


def test_every_command_takes_json() -> None:
    for name, (module, _) in COMMANDS.items():
        command = typer.main.get_command(import_module(f"gatemini.cli.{module}").app)
        found = command.commands[name]
        for leaf in getattr(found, "commands", {name: found}).values():
            options = {option for parameter in leaf.params for option in parameter.opts}
            assert "--json" in options, f"{name} {leaf.name}"


def test_every_command_has_its_place_in_the_reference() -> None:
    text = DOCS.read_text()
    for name in COMMANDS:
        assert f"## `gatemini {name}" in text


def test_a_reader_that_goes_away_is_no_error() -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f"{sys.executable} -P -m gatemini config schema | head -1"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "{\n"
    assert done.stderr == ""
