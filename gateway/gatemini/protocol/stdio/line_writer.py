"""Write whole lines to the client without blocking the event loop."""

from __future__ import annotations

import logging
import os
import select
import sys
import threading

import anyio
import anyio.to_thread

logger = logging.getLogger(__name__)

PIPE_BUF = 4096
"""Bytes that POSIX promises a writable pipe takes without blocking."""


class LineWriter:
    """Writes whole lines to the client in order; a thread writes what a slow client cannot take at once."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._turn = anyio.Lock(fast_acquire=True)
        # Held by the thread that writes: when its caller is cancelled, it finishes the line.
        self._writing = threading.Lock()
        self.gone = False
        """Whether the client has stopped reading."""
        self.lost = anyio.Event()
        """Set when the client has stopped reading."""

    def send_now(self, line: bytes) -> bool:
        """Write a line if that cannot block; return whether it was written."""
        if self._writing.locked() or self._turn.locked():
            return False
        return self._write_now(line)

    async def send(self, line: bytes) -> None:
        async with self._turn:
            if not self.gone and not self._write_now(line):
                await anyio.to_thread.run_sync(self._write_all, line, abandon_on_cancel=True)
        if self.gone:
            self.lost.set()

    async def flushed(self) -> None:
        """Wait until the lines are written that were sent before."""
        async with self._turn:
            pass

    def _write_now(self, line: bytes) -> bool:
        if len(line) > PIPE_BUF or self._writing.locked() or not _writable_now(self._fd):
            return False
        try:
            os.write(self._fd, line)
        except OSError as exc:
            self._lost(exc)
            self.lost.set()
        return True

    def _write_all(self, line: bytes) -> None:
        view = memoryview(line)
        with self._writing:
            try:
                while view:
                    try:
                        view = view[os.write(self._fd, view) :]
                    except BlockingIOError:
                        select.select([], [self._fd], [])
            except OSError as exc:
                self._lost(exc)

    def _lost(self, exc: OSError) -> None:
        if not self.gone:
            logger.warning("the client is gone: %s", exc)
        self.gone = True


def _writable_now(fd: int) -> bool:
    if sys.platform == "win32":
        return False
    poll = select.poll()  # select() refuses descriptors above 1023
    poll.register(fd, select.POLLOUT)
    return any(events & select.POLLOUT for _, events in poll.poll(0))
