"""Turns to change what is stored: one process has a turn at a time, also on file systems without locks."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import anyio

from gatemini.backends.oauth.requests import LoginBusy

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

TURN_SECONDS = 60.0
"""How long a turn may last; then its process counts as dead where nothing else tells.

Longer than finding the issuer, registering with it and one request for tokens take at most together: else two processes
would send the same refresh token.
"""
WAIT_SECONDS = TURN_SECONDS + 5.0
POLL_SECONDS = 0.05


async def wait_for_turn(take: Callable[[], Awaitable[bool]], name: str) -> None:
    """Call `take` until it returns True. Raises LoginBusy after `WAIT_SECONDS`: nobody may act without the turn."""
    with anyio.move_on_after(WAIT_SECONDS):
        while not await take():  # noqa: ASYNC110 - another process has it
            await anyio.sleep(POLL_SECONDS)
        return
    raise LoginBusy(f"another process has been changing this login for {WAIT_SECONDS:g} s ({name})")


class FileTurn:
    """The turn that belongs to a file: its lock, which ends with its process, or a second file where there are no locks."""

    def __init__(self, path: Path) -> None:
        """Open the file. Raises OSError where it cannot be made: then no process stores anything there."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._held = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._claim = path.with_name(f"{path.name}.claim")
        self._claimed = False

    def take(self) -> bool:
        """Take the turn; False while another process has it."""
        try:
            if fcntl is None:
                return self._claims()
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # such as ENOLCK and ENOTSUP of network file systems
            return self._claims()
        return True

    async def taken(self) -> bool:
        return self.take()

    def wait(self) -> bool:
        """Take the turn, blocking this thread; False where another process still has it after `WAIT_SECONDS`."""
        last = time.monotonic() + WAIT_SECONDS
        while not self.take():
            if time.monotonic() > last:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def release(self) -> None:
        """Give up the turn, if it was taken."""
        os.close(self._held)
        if self._claimed:
            self._claim.unlink(missing_ok=True)

    def _claims(self) -> bool:
        with suppress(FileNotFoundError):
            if time.time() - self._claim.stat().st_mtime < TURN_SECONDS:
                return False
            self._claim.unlink()  # left behind by a process that was killed
        try:
            os.close(os.open(self._claim, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            return False
        self._claimed = True
        return True
