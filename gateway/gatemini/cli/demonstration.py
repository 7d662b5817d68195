"""`gatemini demo`: a believable session with the embedded demo backends, through a real client.

Above: main. Below: demo.session.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence

import typer

from gatemini.cli import shell
from gatemini.demo import session

app = shell.application("The demo session.")


def start(words: Sequence[str]) -> int:
    return shell.start(app, words)


@app.command()
def demo(as_json: shell.JSON = False) -> None:
    """Search, look at a tool, run a chain over two backends, and count what it saved."""
    if not as_json:
        raise typer.Exit(session.main())
    screen = io.StringIO()
    with contextlib.redirect_stdout(screen):
        code = session.main()
    shell.emit({"ok": code == 0, "transcript": screen.getvalue()})
    raise typer.Exit(code)
