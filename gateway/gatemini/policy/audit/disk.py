"""The chain of one instance on the disk: append, begin new files, delete old ones, wait for the disk."""

from __future__ import annotations

import errno
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gatemini.policy.audit.files import AuditFile, file_name, prune, sync_folder
from gatemini.policy.audit.record import GENESIS, Head, digest, line_of, members

logger = logging.getLogger(__name__)


class Lost(FileNotFoundError):
    """The open file has lost its name, and with it all that was written to it."""


class Disk:
    """Numbers, chains and writes records. A record that could not be written leaves no trace: its number is used again."""

    def __init__(self, folder: Path, instance: str, *, rotate_bytes: int, keep: int, forced: bool) -> None:
        self.folder = folder
        self.seq = 0
        """The number of the last record written."""
        self._instance = instance
        self._rotate_bytes = rotate_bytes
        self._keep = keep
        self._forced = forced
        """Whether `sync` is called: it closes files that are full, once they are on the disk."""
        self._began = datetime.now(UTC)
        self._prev = GENESIS
        self._number = 0
        self._file: AuditFile | None = None
        self._full: list[AuditFile] = []
        """Sealed files that are not yet forced to the disk and closed."""
        self._new_names = False
        self.has_pruned = False
        """Whether files were deleted since this was last set to False."""

    def make_folder(self) -> None:
        """Make the folder for its owner alone where it is missing. Raises OSError."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def head(self) -> Head | None:
        """Return the last record, None before the first."""
        name = file_name(self._began, self._instance, self._number)
        return Head(self._instance, self.seq, self._prev, name) if self.seq else None

    def append(self, body: bytes) -> int:
        """Write one record, the members of its JSON object; return its number. Raises OSError, and then nothing changed."""
        if self._file is not None and self._file.is_torn:
            self.abandon()
        if self._file is None:
            self._open()
        elif self._file.size >= self._rotate_bytes:
            self._rotate()
        return self._write(body)

    def seal(self) -> None:
        """End the current file with a seal, after which nothing may come. Raises OSError."""
        if self._file is not None:
            self._write(self.stamped("seal"))

    def stamped(self, kind: str, **fields: Any) -> bytes:
        """Return the body of a record of this kind, with the time and the instance."""
        return members({"time": datetime.now(UTC), "kind": kind, "instance": self._instance, **fields})

    def _write(self, body: bytes) -> int:
        assert self._file is not None  # noqa: S101 - `append` opens it
        line = line_of(self.seq + 1, body, self._prev)
        try:
            self._file.append(line)
        except OSError:
            if self._file.is_empty():  # `verify` would take it for a file that was cut
                self._file.remove()
                self._file = None
                self._number -= 1
            raise
        self.seq += 1
        self._prev = digest(line)
        return self.seq

    def _open(self) -> AuditFile:
        try:
            self._file = AuditFile(self.folder / file_name(self._began, self._instance, self._number + 1))
        except FileExistsError:  # another program has taken the name: the next record takes the one after it
            self._number += 1
            raise
        self._number += 1
        self._new_names = True
        return self._file

    def _rotate(self) -> None:
        """Seal the file, begin the next one, and delete the oldest files beyond `keep`."""
        assert self._file is not None  # noqa: S101 - `append` opens it
        self.seal()
        if self._forced:
            self._full.append(self._file)
        else:
            self._file.close()
        self._file = None
        opened = self._open()
        if self._keep:
            self._prune(self._keep, opened.path)

    def _prune(self, keep: int, current: Path) -> None:
        """Record which files are deleted, then delete them; what fails is tried at the next new file."""
        try:
            for path, last in prune(self.folder, keep, current):
                named = {"file": path.name, "of": last.instance, "last": last.seq, "hash": last.hash}
                self._write(self.stamped("pruned", **named))
                self.has_pruned = True
        except OSError as error:
            logger.warning("audit: old files stay: %s", error)

    def sync(self) -> None:
        """Wait until all records so far are on the disk; blocks. Raises OSError, also for a file that was deleted or moved."""
        while self._full:
            self._full[0].sync()
            self._full.pop(0).close()
        file = self._file
        if file is not None:
            file.sync()
            if file.is_lost():
                raise Lost(errno.ENOENT, "was deleted or moved while it was written", str(file.path))
        if self._new_names:
            sync_folder(self.folder)
            self._new_names = False

    def abandon(self) -> None:
        """Close the file: the next record begins a new one. Nothing may wait for the disk meanwhile."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def close(self) -> None:
        """Force everything to the disk and close; blocks. Raises OSError."""
        self.sync()
        self.abandon()
