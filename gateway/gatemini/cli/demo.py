"""`gatemini demo`: a session with the embedded demo backends, through a real client."""

from __future__ import annotations

import contextlib
import io

from gatemini.cli import shell


def demo(*, as_json: bool) -> int:
    """Search, look at a tool, run a chain over three backends, and count what it saved."""
    from gatemini.demo import walkthrough

    if not as_json:
        return walkthrough.main()
    screen = io.StringIO()
    with contextlib.redirect_stdout(screen):
        code = walkthrough.main()
    shell.emit({"ok": code == 0, "transcript": screen.getvalue()})
    return code


COMMANDS = (shell.Command("demo", demo, config=""),)
