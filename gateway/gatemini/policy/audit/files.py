"""The files of the audit log: one folder, and in it files that one instance writes alone.

A file is named `<start of the instance>-<instance>-<number>.jsonl`. Each instance of the gateway has files of its own, so
that no lock is shared between processes; the start record names the heads of the instances before it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from gatemini.policy.audit.record import (
    MOST_LINE_BYTES,
    SUFFIX,
    Head,
    Line,
    digest,
    first_line,
    read_line,
)

try:
    import fcntl
except ImportError:  # Windows, where an open file cannot be deleted anyway
    fcntl = None  # type: ignore[assignment]

_TAIL_BYTES = 512 << 10
"""What is read at first from either end of a file to find its first or last line; more where that line is longer."""
MOST_JOINS = 1000
"""Heads that a start record names, the newest."""


class AuditFile:
    """One open file, locked for as long as it is open: `prune` deletes no file that an instance still writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self.is_torn = False
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        self.fd = os.open(path, flags, 0o600)
        try:
            if fcntl is not None:
                fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # a file system without locks: the name must be free for the next try
            os.close(self.fd)
            path.unlink(missing_ok=True)
            raise

    def append(self, line: bytes) -> None:
        """Write a whole line or none of it. Raises OSError, with the file as it was before."""
        try:
            done = os.write(self.fd, line)
            while done < len(line):
                done += os.write(self.fd, line[done:])
        except OSError:
            self._cut_back()
            raise
        self.size += len(line)

    def _cut_back(self) -> None:
        """Remove a part of a line; a file where that fails is given up, since the next line would be joined to it."""
        try:
            os.ftruncate(self.fd, self.size)
        except OSError:
            self.is_torn = True

    def sync(self) -> None:
        """Wait until everything written is on the disk."""
        getattr(os, "fdatasync", os.fsync)(self.fd)

    def is_lost(self) -> bool:
        """Whether its path names no file any more, or another one: then what is written to it cannot be found."""
        try:
            named = self.path.lstat()
        except FileNotFoundError:
            return True
        return not os.path.samestat(named, os.fstat(self.fd))

    def is_empty(self) -> bool:
        """Whether nothing was written to it, not even a part of a line."""
        return self.size == 0 and not self.is_torn

    def remove(self) -> None:
        """Close and delete it, unless its path names another file by now."""
        if not self.is_lost():
            self.path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        os.close(self.fd)


def file_name(started: datetime, instance: str, number: int) -> str:
    """Return the name of an instance's file; the names of a folder sort by time."""
    return f"{started.astimezone(UTC):%Y%m%dT%H%M%S.%fZ}-{instance}-{number:04}{SUFFIX}"


def audit_files(folder: Path) -> list[Path]:
    """Return the files of the log, the oldest first."""
    return sorted(path for path in folder.glob(f"*{SUFFIX}") if path.is_file())


def sync_folder(folder: Path) -> None:
    """Make the names of new files last."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def unjoined_heads(folder: Path) -> list[Head]:
    """Return the head of each instance in the folder that no start record names yet, the newest last."""
    heads: dict[str, Head] = {}
    joined: set[str] = set()
    for path in audit_files(folder):
        first, last = first_line(path), _last_line(path)
        if first is not None:
            joined |= {join.hash for join in first.joins}
        if last is not None:
            line, head = last
            if line.instance not in heads or heads[line.instance].seq < head.seq:
                heads[line.instance] = head
    return [head for head in heads.values() if head.hash not in joined][-MOST_JOINS:]


def _last_line(path: Path) -> tuple[Line, Head] | None:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        tail = 0
        while tail < min(size, MOST_LINE_BYTES):
            tail = min(size, 2 * tail or _TAIL_BYTES)
            file.seek(size - tail)
            for text in reversed(file.read(tail).splitlines(keepends=True)):
                line = read_line(text) if text.endswith(b"\n") else None
                if line is not None:
                    return line, Head(line.instance, line.seq, digest(text), path.name)
    return None


def prune(folder: Path, keep: int, current: Path) -> Iterator[tuple[Path, Head]]:
    """Yield the oldest files beyond `keep` with their last line; the caller records each, then it is deleted.

    The current file and those that another instance has open stay.
    """
    files = audit_files(folder)
    for path in files[: max(0, len(files) - keep)]:
        last = None if path == current or _is_open(path) else _last_line(path)
        if last is not None:
            yield path, last[1]
            path.unlink(missing_ok=True)


def _is_open(path: Path) -> bool:
    """Whether an instance writes to the file: it holds the lock."""
    if fcntl is None:
        return False
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False
