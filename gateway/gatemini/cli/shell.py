"""Parse the arguments of a command, run it, print its result or error, and return its exit code.

Only the standard library is used until the arguments are parsed: a command imports what it runs in its own function.
argparse, because Typer needs as much time as the rest of a short command.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Container, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from gatemini.config.documents.find import CONFIG_FILE, check_file, config_directory, find_config
from gatemini.config.model.values.durations import seconds_of
from gatemini.errors import GateminiError, InternalError, InvalidRequest

if TYPE_CHECKING:
    from rich.console import Console

OK, FAILED, USAGE = 0, 1, 2


class UsageError(Exception):
    """Arguments that parse and still make no sense: exit code 2."""


class Argument(NamedTuple):
    """One `add_argument` of argparse."""

    names: tuple[str, ...]
    options: dict[str, Any]


def argument(*names: str, **options: Any) -> Argument:
    return Argument(names, options)


class Command(NamedTuple):
    """A command of the terminal. `run` gets its arguments by name and returns the exit code, None for 0.

    `config` says whether the configuration file must be usable: "read", or "place" where it may be missing.
    """

    name: str
    run: Callable[..., int | None]
    arguments: Sequence[Argument] = ()
    config: str = "read"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Usage, then what is wrong."""
        raise UsageError(f"{self.format_usage()}{self.prog}: {message}")


def between(low: int, high: int) -> Callable[[str], int]:
    """An argument type: a whole number within these bounds."""

    def number(text: str) -> int:
        if not text.lstrip("-").isdecimal() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"{text}: a whole number from {low} to {high}")
        return int(text)

    return number


def duration(allowed: str) -> Callable[[str], float]:
    """An argument type: a duration in seconds; an error says what is `allowed`."""

    def seconds(text: str) -> float:
        try:
            return seconds_of(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text}: {allowed}") from None

    return seconds


def limit(most: int, default: int, text: str) -> Argument:
    """The option `--limit N`, from 1 to `most`."""
    return argument("--limit", type=between(1, most), default=default, metavar="N", help=text)


NO_DAEMON = argument(
    "--no-daemon", action="store_true", help="by a gateway of its own, even where a daemon runs"
)


def start(commands: Sequence[Command], words: Sequence[str]) -> int:
    """Run a command line; the exit code. Errors are printed as text, with --json as JSON, never as a traceback."""
    as_json = "--json" in words
    try:
        values = vars(_parser(commands, words[0]).parse_args(list(words)))
        command: Command = values.pop("command")
        if command.config == "read":
            _check_config(values["config"])
        return command.run(**values) or OK
    except UsageError as error:
        sys.stderr.write(f"{error}\n")
        return USAGE
    except GateminiError as error:
        return report(error, as_json=as_json)
    except SystemExit as leave:  # --help
        return leave.code if isinstance(leave.code, int) else FAILED if leave.code else OK
    except OSError as error:
        if error.filename is None:  # stdout itself failed: main reports that
            raise
        return report(InvalidRequest(f"{error.filename}: {error.strerror}"), as_json=as_json)
    except Exception as error:  # noqa: BLE001 - a person reads a sentence, not a traceback
        return report(_fault(error), as_json=as_json)


def _parser(commands: Sequence[Command], first: str) -> _Parser:
    """Commands by their name, or below the group `first` where none has that name."""
    top = _Parser(prog="gatemini", allow_abbrev=False)
    place = top.add_subparsers(required=True, metavar="COMMAND")
    names = [command.name for command in commands]
    if first not in names:
        inner = place.add_parser(first, description=", ".join(names), allow_abbrev=False)
        place = inner.add_subparsers(required=True, metavar="COMMAND")
    given = os.environ.get("GATEMINI_CONFIG")
    for command in commands:
        about = (command.run.__doc__ or "").partition("\n")[0]
        parser = place.add_parser(command.name, help=about, description=about, allow_abbrev=False)
        parser.set_defaults(command=command)
        for each in command.arguments:
            parser.add_argument(*each.names, **each.options)
        if command.config:
            parser.add_argument(
                "--config", "-c", type=Path, metavar="PATH", default=Path(given) if given else None,
                help="configuration file; else GATEMINI_CONFIG, else the default place",
            )  # fmt: skip
        parser.add_argument("--json", dest="as_json", action="store_true", help="machine-readable output")
    return top


def _check_config(path: Path | None) -> None:
    """Refuse a configuration file that cannot be read while nothing heavy is imported."""
    source = find_config(path, os.environ, config_directory())
    if source is not None:
        check_file(source)


def _fault(error: Exception) -> GateminiError:
    """A fault of gatemini, with the line that raised it, so that it can be reported."""
    from traceback import extract_tb

    line = extract_tb(error.__traceback__)[-1]
    return InternalError(
        f"{type(error).__name__} in {Path(line.filename).name}, line {line.lineno}",  # its text may hold a secret
        hint="this is a fault of gatemini: please report it with the command that was typed",
    )


def report(error: GateminiError, *, as_json: bool) -> int:
    """Print an error on stderr, or as JSON on stdout; returns the exit code."""
    if as_json:
        emit(
            {"ok": False, "error": error.message, "kind": error.kind, "code": error.code, "hint": error.hint}
        )
    else:
        sys.stderr.write(error.text() + "\n")
    return FAILED


def emit(value: Any) -> None:
    """One JSON document on stdout, in ASCII where stdout cannot encode more; what a terminal would obey or hide is escaped."""
    narrow = sys.stdout.encoding.lower().replace("-", "") != "utf8"
    text = json.dumps(value, ensure_ascii=narrow, indent=2, default=str)
    if not text.isascii():
        text = "".join(
            char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text
        )
    sys.stdout.write(text + "\n")


def result(value: Any, text: str, *, as_json: bool) -> None:
    """The result of a command: `value` with --json, else `text`."""
    if as_json:
        emit(value)
    else:
        say(text)


def say(text: str) -> None:
    """A line of the result, on stdout."""
    sys.stdout.write(text + "\n")


def note(text: str) -> None:
    """A line beside the result, on stderr: progress, hints, assumptions."""
    sys.stderr.write(text + "\n")


def note_no_configuration() -> None:
    """Note that the embedded demo backends are used, where there is no configuration file."""
    note(f"no configuration file ({config_directory() / CONFIG_FILE}): using the embedded demo backends")


def source_text(file: Path) -> str:
    """The text of a file, or of stdin for `-`."""
    if str(file) == "-":
        return sys.stdin.read().removeprefix("\ufeff")  # some shells put one before what they pipe
    try:
        return file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        from difflib import get_close_matches

        there = [path.name for path in file.parent.glob("*")] if file.parent.is_dir() else []
        near = get_close_matches(file.name, there, n=1)
        meant = f", did you mean {file.with_name(near[0])}?" if near else ""
        raise UsageError(f"there is no file {file}{meant}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{file} cannot be read: {error}") from error


def rows(headers: Sequence[str], lines: Iterable[Sequence[str]], *, right: Container[int] = ()) -> None:
    """Print rows: a table in a terminal, tab-separated lines without headers elsewhere, nothing where there are none.

    `right` has the columns that are aligned to the right. A terminal too narrow for the first column beside others gets
    one name a line and the rest of its row below: a name in pieces could not be copied.
    """
    found = [list(line) for line in lines]
    if not found:
        return
    if not sys.stdout.isatty():
        for line in found:
            say("\t".join(" ".join(cell.split()) for cell in line))
        return
    console = stdout_console()
    if max(len(line[0]) for line in found) * 2 > console.width:
        for name, *rest in found:
            say("\n".join([name, *(f"  {cell}" for cell in rest if cell)]))
        return
    from rich.table import Column, Table

    columns = [
        Column(header, overflow="fold", justify="right" if index in right else "left")
        for index, header in enumerate(headers)
    ]
    table = Table(*columns, box=None, pad_edge=False, show_header=any(headers))
    for line in found:
        table.add_row(*line)
    console.print(table)


def stdout_console() -> Console:
    """For tables and colours, without any where NO_COLOR is set.

    Text is printed as it is: names of tools are neither markup nor emoji.
    """
    from rich.console import Console

    return Console(
        markup=False,
        emoji=False,
        highlight=False,
        soft_wrap=not sys.stdout.isatty(),
        color_system=None if os.environ.get("NO_COLOR") else "auto",
    )


def texts(answer: dict[str, Any]) -> list[str]:
    """The text blocks of an MCP result; other blocks as one line that says what they are."""
    found: list[str] = []
    for block in answer.get("content", ()):
        if block.get("type") == "text":
            found.append(block["text"])
        else:
            size = len(block.get("data", "")) * 3 // 4
            found.append(f"[{block.get('type')} {block.get('mimeType', '')} {size} bytes]")
    return found


def parsed(text: str) -> Any:
    """JSON as a value, anything else as the text it is."""
    try:
        return json.loads(text)
    except ValueError:
        return text
