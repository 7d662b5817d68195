"""`gatemini demo`: a session with the embedded demo backends, or many clients on one daemon, through real clients."""

from __future__ import annotations

import contextlib
import io

from gatemini.cli import shell
from gatemini.cli.running_daemon import require_sockets


def demo(*, clients: int | None, as_json: bool) -> int:
    """Search, look at a tool, run a chain over three backends, and count what it saved."""
    if clients is not None:
        require_sockets()
        from gatemini.cli.demo_clients import compare

        return compare(clients, as_json=as_json)
    from gatemini.demo import walkthrough

    if not as_json:
        return walkthrough.main()
    screen = io.StringIO()
    with contextlib.redirect_stdout(screen):
        code = walkthrough.main()
    shell.emit({"ok": code == 0, "transcript": screen.getvalue()})
    return code


COMMANDS = (
    shell.Command(
        "demo",
        demo,
        [
            shell.argument(
                "--clients",
                type=shell.between(1, 50),
                metavar="N",
                help="instead: processes, memory and start times of N clients on one daemon and of N direct gateways",
            )
        ],
        config="",
    ),
)
