"""A file of lines that begins anew when it is full; several processes may write to it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

if sys.platform != "win32":
    import fcntl


_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


class RotatingFile:
    """Appends whole lines to `path`; older lines are in `path.1`, `path.2` … `path.KEEP`.

    Each line is one write to a descriptor in append mode, which the kernel does not mix with others. The process that
    finds the file full renames it under a lock; the others notice by its inode and go on in the new one.
    """

    def __init__(self, path: str, *, limit: int, keep: int, descriptors: tuple[int, ...] = ()) -> None:
        self.path = path
        self.limit = limit
        self.keep = keep
        self._descriptors = descriptors
        """Further descriptors of this process that follow the file: stdout and stderr of a detached daemon."""
        self._file: int | None = None

    def append(self, line: str) -> None:
        """Write one line. Raises OSError."""
        data = line.encode("utf-8", "replace") + b"\n"
        file = self._current()
        if (size := os.fstat(file).st_size) and size + len(data) > self.limit:
            file = self._rotate()
        while data:  # on a disk that is nearly full, a part is written
            data = data[os.write(file, data) :]

    def reopen(self) -> None:
        """Open the path again: something else may have renamed the file."""
        self.close()
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | _NO_LINK, 0o600)
        for descriptor in self._descriptors:
            os.dup2(self._file, descriptor)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _current(self) -> int:
        """Return the descriptor of the file that has the name now."""
        if self._file is None or not _same(self._file, self.path):
            self.reopen()
        assert self._file is not None  # noqa: S101 - just opened
        return self._file

    def _rotate(self) -> int:
        with _locked(f"{self.path}.lock"):
            if os.fstat(self._current()).st_size > self.limit // 2:  # else another process has just done it
                self.close()
                for number in range(self.keep, 0, -1):
                    with suppress(FileNotFoundError):
                        os.replace(self._numbered(number - 1), self._numbered(number))
            return self._current()

    def _numbered(self, number: int) -> str:
        return f"{self.path}.{number}" if number else self.path


def _same(file: int, path: str) -> bool:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return False
    held = os.fstat(file)
    return (found.st_dev, found.st_ino) == (held.st_dev, held.st_ino)


@contextmanager
def _locked(path: str) -> Iterator[None]:
    lock = os.open(path, os.O_RDWR | os.O_CREAT | _NO_LINK, 0o600)
    try:
        if sys.platform != "win32":
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
