"""The dispatch table: light, truthful, with the exit codes of the documentation."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path

import pytest

from fixtures.command_line import Run
from fixtures.direct import write_config
from gatemini.cli.main import COMMANDS
from gatemini.cli.shell import Command, argument, rows, start

DOCS = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
HEAVY = ("mcp", "pydantic", "rich", "wasmtime", "numpy", "yaml", "anyio", "gatemini_sandbox", "gatemini.app")
CPU_RATIO = 12.0
"""The most CPU time a command that starts nothing takes, in that of `python -c pass`."""


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def modules_of(module: str) -> list[str]:
    return json.loads(
        python(f"import {module}, json, sys; print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))")
    )


@pytest.mark.parametrize("module", sorted({"main", *(module for module, _ in COMMANDS.values())}))
def test_parsing_the_arguments_of_a_command_imports_nothing_heavy(module: str) -> None:
    assert modules_of(f"gatemini.cli.{module}") == []


def cpu_seconds(*command: str) -> float:
    """Median CPU time of a few runs, without what the machine does beside them."""
    taken = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(taken)


@pytest.mark.skipif(os.name != "posix", reason="CPU time of children")
@pytest.mark.parametrize(
    "words",
    [
        ["tools", "--help"],
        ["tools", "--nope"],
        ["tols"],
        ["run", "/no/such/file.ts"],
        ["call", "clock.now", "{bad"],
        ["-c", "/no/such/config.yaml", "tools"],
        ["-c", "broken.json", "tools"],
    ],
    ids=" ".join,
)
def test_commands_that_start_nothing_take_a_few_times_an_empty_python(words: list[str], home: Path) -> None:
    Path("broken.json").write_text('{"mcpServers": {')
    empty = cpu_seconds(sys.executable, "-c", "pass")
    assert cpu_seconds(sys.executable, "-P", "-m", "gatemini", *words) <= CPU_RATIO * empty


@pytest.fixture
def terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal of 40 columns: prints rows, returns what was written."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")

    def printed(lines: Iterable[Sequence[str]]) -> str:
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        rows(("tool", "description"), lines)
        return capsys.readouterr().out

    return printed


Terminal = Callable[[Iterable[Sequence[str]]], str]
ROWS = (("files.read", "What it\ndoes."), ("files.write", "Else."))


def test_rows_are_tab_separated_where_a_program_reads_them(capsys: pytest.CaptureFixture[str]) -> None:
    rows(("tool", "description"), ROWS)
    assert capsys.readouterr().out == "files.read\tWhat it does.\nfiles.write\tElse.\n"


def test_rows_are_a_table_in_a_terminal_and_nothing_where_there_are_none(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert terminal(()) == ""
    monkeypatch.setenv("NO_COLOR", "1")
    shown = terminal(ROWS)
    assert shown.split("\n")[0].split() == ["tool", "description"]
    assert "\x1b" not in shown


def test_a_name_too_long_for_a_narrow_terminal_has_a_line_of_its_own(terminal: Terminal) -> None:
    name = "files." + "a" * 60 + "_end"
    assert terminal([(name, "What it does.")]) == f"{name}\n  What it does.\n"


def test_without_unix_sockets_the_plain_command_names_direct(run: Run) -> None:
    result = run()  # the console script comes this far only where there are none
    assert result.code == 2
    assert result.out == ""
    assert "needs Unix sockets" in result.err
    assert "gatemini --direct" in result.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["serch"], "did you mean search?"),
        (["--nope"], "no option --nope"),
        (["tools", "--jsn"], "unrecognized arguments: --jsn"),
        (["config", "chek"], "invalid choice: 'chek'"),
        (["search", "--limit", "0", "x"], "0: a whole number from 1 to 50"),
        (["-c"], "needs the path"),
        (["--direct", "search"], "--direct takes no command"),
    ],
)
def test_wrong_usage_exits_with_two_and_names_the_right_usage(run: Run, words: list[str], says: str) -> None:
    result = run(*words)
    assert result.code == 2
    assert says in result.err
    assert result.out == ""


@pytest.mark.parametrize("words", [["config"], ["run"], ["search"], ["call"], ["call", "x.y", "[1]"]])
def test_wrong_usage_of_a_command_exits_with_two(run: Run, words: list[str]) -> None:
    assert run(*words).code == 2


def test_help_lists_every_command_and_version_is_that_of_the_package(run: Run) -> None:
    result = run("--help")
    assert result.code == 0
    assert all(f"\n  {name} " in result.out for name in COMMANDS)
    assert run("--version").out.startswith("gatemini 0.")


def test_every_command_takes_json(run: Run) -> None:
    for name, (module, _) in COMMANDS.items():
        commands = import_module(f"gatemini.cli.{module}").COMMANDS
        words = [name] if any(command.name == name for command in commands) else [name, commands[0].name]
        assert "--json" in run(*words, "--help").out, name


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


def shell(line: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A line of shell in which $G is the command."""
    command = f"{sys.executable} -P -m gatemini"
    environ = {**os.environ, "G": command, **variables}
    return subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, env=environ, check=False)


@pytest.mark.parametrize("line", ["$G config schema >&-", "$G --help >&-", "$G config check --json >&- <&-"])
def test_an_answer_that_cannot_be_written_is_a_failure_in_one_line(line: str, home: Path) -> None:
    done = shell(line)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("gatemini: could not finish: ")
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_named(home: Path) -> None:
    done = shell("$G config schema >/dev/full")
    assert (done.returncode, done.stderr) == (1, "gatemini: could not finish: No space left on device\n")


@pytest.mark.parametrize("command", ["", "--direct", "tools --no-daemon", "install --check"])
def test_a_working_folder_that_was_removed_is_named(home: Path, tmp_path: Path, command: str) -> None:
    (tmp_path / "gone").mkdir()
    done = shell(f"cd {tmp_path / 'gone'} && rmdir {tmp_path / 'gone'}; $G {command} </dev/null")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("gatemini: the working folder has been removed")
    assert "Traceback" not in done.stderr


def test_closed_stdin_and_stderr_are_treated_as_empty(home: Path) -> None:
    assert shell("$G config check <&- 2>&-").stdout.startswith("no configuration file")
    assert shell("$G --direct <&-").returncode == 0


def test_output_uses_only_characters_of_the_terminals_encoding(home: Path) -> None:
    variables = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    assert "COMMAND \\u2026" in shell("$G --help", **variables).stdout
    config = home / "config.yaml"
    config.write_text("log_level: é\n", encoding="utf-8")
    listed = shell(f"$G config check --json -c {config}", **variables)
    assert listed.stdout.isascii()
    assert "é" in str(json.loads(listed.stdout))


def test_a_folder_that_cannot_be_written_is_named_with_a_remedy(run: Run) -> None:
    result = run("init", "-c", "/dev/null/config.yaml")
    assert result.code == 1
    assert "/dev/null/config.yaml cannot be written" in result.err
    assert "give another place with -c" in result.err


@pytest.mark.parametrize("words", [["info", "x.y"], ["info", "x.y", "--json"]])
def test_an_internal_error_is_one_line_with_its_position(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    def info(*, tool: str, as_json: bool) -> None:
        raise KeyError(tool)

    assert start([Command("info", info, [argument("tool")], config="")], words) == 1
    told = capsys.readouterr()
    assert "KeyError in test_main.py, line " in (told.out if "--json" in words else told.err)
    assert "please report it" in told.out + told.err
    assert "Traceback" not in told.out + told.err


def test_names_of_tools_are_not_read_as_markup(run: Run, tmp_path: Path) -> None:
    queries = tmp_path / "queries.json"
    queries.write_text(json.dumps([{"query": "[/x] :smile:", "tools": ["[bold]y"]}]))
    config = write_config(tmp_path, {"clock": {"module": "gatemini.demo.clock:server"}})
    shown = run("eval", str(queries), "-c", str(config))
    assert shown.code == 0
    assert "'[/x] :smile:' wants [bold]y" in shown.out
    assert len([line for line in shown.out.splitlines() if line.startswith("all\t")]) == 1
