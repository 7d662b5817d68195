"""What all commands share: their options, output as text or JSON, and errors turned into exit codes.

Above: the command modules. Below: Typer and Rich; no gateway is loaded here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from traceback import extract_tb
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

from gatemini.errors import GateminiError, InternalError, InvalidRequest

CONFIG = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="Configuration file.", envvar="GATEMINI_CONFIG", show_envvar=True),
]
JSON = Annotated[bool, typer.Option("--json", help="Machine-readable output on stdout.")]

FAILED = 1


def application(help_text: str) -> typer.Typer:
    """A set of commands that are always named, even when there is only one."""
    app = typer.Typer(help=help_text, no_args_is_help=True, add_completion=False, rich_markup_mode=None)

    @app.callback()
    def _named() -> None:
        """Keeps a single command from swallowing its own name."""

    return app


def start(app: typer.Typer, words: Sequence[str]) -> int:
    """Run a command line; the exit code. Errors are printed as text, with --json as JSON, never as a traceback."""
    as_json = "--json" in words
    try:
        app(args=list(words), prog_name="gatemini")
    except GateminiError as error:
        return report(error, as_json=as_json)
    except SystemExit as leave:
        return leave.code if isinstance(leave.code, int) else FAILED if leave.code else 0
    except OSError as error:
        if error.filename is None:  # of our own output: main answers it
            raise
        return report(InvalidRequest(f"{error.filename}: {error.strerror}"), as_json=as_json)
    except Exception as error:  # noqa: BLE001 - whatever it is, a person reads it
        return report(_fault(error), as_json=as_json)
    return 0


def _fault(error: Exception) -> GateminiError:
    """A fault of our own, with the line of our code that it came from, so that it can be reported."""
    line = extract_tb(error.__traceback__)[-1]
    return InternalError(
        f"{type(error).__name__} in {Path(line.filename).name}, line {line.lineno}",  # its text may hold a secret
        hint="this is a fault of gatemini: please report it with the command that was typed",
    )


def report(error: GateminiError, *, as_json: bool) -> int:
    """An error where the reader looks for it: stderr, or JSON on stdout."""
    if as_json:
        emit(
            {"ok": False, "error": error.message, "kind": error.kind, "code": error.code, "hint": error.hint}
        )
    else:
        sys.stderr.write(error.text() + "\n")
    return FAILED


def emit(value: Any) -> None:
    """One JSON document on stdout, in ASCII where stdout takes no more."""
    narrow = sys.stdout.encoding.lower().replace("-", "") != "utf8"
    sys.stdout.write(json.dumps(value, ensure_ascii=narrow, indent=2, default=str) + "\n")


def say(text: str) -> None:
    """A line of result on stdout."""
    sys.stdout.write(text + "\n")


def note(text: str) -> None:
    """A line beside the result: progress, hints, what was assumed."""
    sys.stderr.write(text + "\n")


def table(*headers: str, show_header: bool = True) -> Table:
    """A table without lines. In a narrow terminal names and paths go on in the next line: cut, nobody could use them."""
    columns = [Column(header, overflow="fold") for header in headers]
    return Table(*columns, box=None, pad_edge=False, show_header=show_header)


def stdout_console() -> Console:
    """For tables and colours; plain where stdout is no terminal, never cut to a width there.

    Text is shown as it is: what strangers call their tools is neither markup nor an emoji.
    """
    return Console(
        markup=False,
        emoji=False,
        highlight=False,
        soft_wrap=not sys.stdout.isatty(),
        width=None if sys.stdout.isatty() else 200,
    )
