"""Start the watchdog process (`watchdog.py`).

A file of its own because `watchdog.py` imports next to nothing, so that the process starts in milliseconds.
"""

from __future__ import annotations

import subprocess
import sys

from gatemini.processes import watchdog


def start_watchdog() -> subprocess.Popen[bytes]:
    """Start a watchdog that reads its list of process groups from a pipe on its stdin. Raises OSError."""
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
