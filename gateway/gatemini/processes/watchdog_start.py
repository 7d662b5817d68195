"""Starts the watchdog: a process that ends what is on its list once the gateway is gone, even by SIGKILL.

Not in `watchdog.py` itself, which imports next to nothing so that it starts in milliseconds. Above: `children.py`,
`config/commands.py`. Below: `watchdog.py`.
"""

from __future__ import annotations

import subprocess
import sys

from gatemini.processes import watchdog


def start_watchdog() -> subprocess.Popen[bytes]:
    """A watchdog that reads its list from the pipe on its stdin. Raises OSError."""
    # Isolated and without site-packages: it needs nothing but the standard library.
    return subprocess.Popen(  # noqa: S603 - our own file, no shell
        [sys.executable, "-I", "-S", watchdog.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # Not a session: a stopped group whose parent dies in its own session is woken by the kernel (SIGHUP, SIGCONT).
        process_group=0,
        bufsize=0,
        env={},
    )
