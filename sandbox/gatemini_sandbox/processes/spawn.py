"""Start sandbox processes: a socket to each, an empty environment, no other descriptor.

Light on purpose: the command line starts the first one before it imports anything heavy, so that both load at once.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys

if sys.platform.startswith("linux"):
    import resource

KILLED_SECONDS = 5.0
"""How long the end of a process that was sent SIGKILL is waited for; one that hangs in the kernel is left behind."""


class Child:
    """A sandbox process and the socket to it."""

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair()
        with theirs:
            try:
                self._process: subprocess.Popen[bytes] = subprocess.Popen(  # noqa: S603 - our own module, no shell
                    [
                        sys.executable,
                        "-P",
                        "-s",
                        "-m",
                        "gatemini_sandbox.processes.process",
                        str(os.getpid()),
                    ],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env={},
                    close_fds=True,
                    cwd="/",
                    # A group, so that no key of a terminal reaches it. Not a session: a stopped group whose parent
                    # dies in its own session is woken by the kernel, and finds that the parent is gone.
                    process_group=0,
                )
            except OSError:
                self.socket.close()
                raise
        _take_own_limits(self._process.pid)

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """Send SIGKILL and close the socket; `reap` must follow."""
        with contextlib.suppress(OSError):
            self._process.kill()
        self.socket.close()

    def reap(self) -> None:
        """Wait for its end; blocking."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(KILLED_SECONDS)


def _take_own_limits(pid: int) -> None:
    """Give it back a limit that the gateway lowers for the moment in which it starts a backend, to know the backend's
    processes by it: a sandbox process started in the same moment is none of them."""
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError):  # it has ended already
            hard = resource.prlimit(pid, resource.RLIMIT_RTTIME)[1]
            resource.prlimit(pid, resource.RLIMIT_RTTIME, (hard, hard))


_early: list[Child] = []


def start_early() -> None:
    """Start a process now for the first sandbox that wants one; errors show when it is wanted."""
    if sys.platform != "win32" and not _early:
        with contextlib.suppress(OSError):
            _early.append(Child())


def take() -> Child:
    """The process that was started early, or a new one; raises OSError."""
    return _early.pop() if _early else Child()


def drop_early() -> None:
    """End a process that was started early and is not wanted."""
    while _early:
        child = _early.pop()
        child.kill()
        child.reap()
