"""One file of journals: batches of records of several chains, appended.

Making a file takes 0.1 ms on a disk and an append a microsecond, so chains share files. A file is deleted when no chain
needs it any more; records are never moved. Nothing is flushed to the disk: what a process has written survives its being killed, and
after a loss of power there is no client left that could resume a chain.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

LENGTH_BYTES = 4
"""Before each batch: its size, big-endian."""
MOST_BYTES = 1 << 30
"""A larger file is none of ours."""

logger = logging.getLogger(__name__)


class Segment:
    """A file that cannot be written is removed: a journal with a gap would have a call made twice.

    `report` is called with what keeps it from being written, and with None once it works.
    """

    def __init__(self, path: Path, report: Callable[[str | None], None]) -> None:
        self.size = 0
        self.lost = False
        self._path = path
        self._report = report
        self._chains: set[str] = set()
        self._fd = -1

    def hold(self, chain: str) -> None:
        """Keep the file as long as this chain may be resumed."""
        self._chains.add(chain)

    def drop(self, chain: str) -> None:
        """Remove the file unless other chains need it."""
        self._chains.discard(chain)
        if not self._chains:
            self.remove()

    def append(self, batch: bytes) -> None:
        """Write a batch at the end, in one call: those of several threads do not mix."""
        if self.lost:
            return
        try:
            if self._fd < 0:
                self._fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            data = len(batch).to_bytes(LENGTH_BYTES, "big") + batch
            if os.write(self._fd, data) < len(data):
                raise OSError("the disk is full")
            self.size += len(data)
            self._report(None)
        except OSError as error:
            self.give_up(error)

    def give_up(self, error: Exception) -> None:
        """Remove the file, since a record could not be written."""
        with suppress(OSError):
            if self._fd >= 0:
                os.ftruncate(self._fd, 0)
        self.remove()
        text = f"chains cannot be resumed after a crash: their journals cannot be written: {error}"
        logger.warning("%s", text)
        self._report(text)

    def remove(self) -> None:
        """Remove the file; nothing is written any more."""
        self.lost = True
        with suppress(OSError):
            self._path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Release the descriptor; a later append opens the file again."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def written(self) -> float:
        """Return when something was written last, in seconds since the epoch. Raises OSError."""
        return self._path.stat().st_mtime

    def batches(self) -> Iterator[bytes]:
        """Yield what is in the file; the rest of a batch that was not written to its end is cut off. Raises OSError."""
        with self._path.open("rb") as file:
            there = os.fstat(file.fileno()).st_size
            if there > MOST_BYTES:
                raise OSError(f"it has more than {MOST_BYTES} bytes")
            while len(head := file.read(LENGTH_BYTES)) == LENGTH_BYTES:
                size = int.from_bytes(head, "big")
                if len(batch := file.read(size)) < size:
                    break
                yield batch
                self.size = file.tell()
        if self.size < there:
            os.truncate(self._path, self.size)
