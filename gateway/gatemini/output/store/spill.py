"""The private folder of one session's results that no longer fit its memory, and what killed gateways left.

A folder's name tells which process made it, and when that process started: the next gateway removes the folders
of processes that are gone (`kill -9` runs no clean-up). A file that was shortened, emptied or changed from outside is
noticed whenever it is read.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import stat
import tempfile
import weakref
from dataclasses import dataclass
from pathlib import Path

from gatemini.processes.process_facts import same_process, start_time

PREFIX = "gatemini-results-"
_NAME = re.compile(re.escape(PREFIX) + r"(\d{1,10})-(\d{1,16})-\w+")
"""Process number, its start in milliseconds since the epoch, what makes the name unguessable."""

logger = logging.getLogger(__name__)


class SpillDamaged(Exception):
    """A file is not there any more or not as it was written; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class SpillFile:
    """One result on disk, with the size and modification time (ns) that it must still have."""

    path: Path
    size: int
    written: int

    def check(self) -> None:
        """Raises SpillDamaged where the file is not what was written."""
        try:
            facts = self.path.stat()
        except OSError as error:
            raise SpillDamaged(f"its file on disk is gone: {error.strerror}") from error
        if (facts.st_size, facts.st_mtime_ns) != (self.size, self.written):
            raise SpillDamaged(
                f"its file on disk was changed from outside: it has {facts.st_size} of {self.size} bytes"
            )

    def read(self, begin: int = 0, end: int | None = None) -> bytes:
        """The bytes from `begin` to `end`; raises SpillDamaged."""
        self.check()
        try:
            with self.path.open("rb") as file:
                file.seek(begin)
                return file.read(max(0, (self.size if end is None else end) - begin))
        except OSError as error:
            raise SpillDamaged(f"its file on disk cannot be read: {error.strerror}") from error

    def remove(self) -> None:
        """Whatever is there in its place by now; never raises."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            logger.warning("the file of a result cannot be removed: %s", error)


class SpillFolder:
    """Made on first use; `parent` None is the system's temporary directory."""

    def __init__(self, parent: Path | None = None) -> None:
        self._parent = parent
        self._path: Path | None = None
        self._remove: weakref.finalize[..., object] | None = None

    def write(self, name: str, data: bytes) -> SpillFile:
        """Keeps `data` whole, or raises OSError and leaves nothing of it (a full disk writes half)."""
        path = self._folder() / name
        try:
            path.write_bytes(data)
            written = path.stat().st_mtime_ns
        except OSError:
            path.unlink(missing_ok=True)
            raise
        return SpillFile(path, len(data), written)

    def close(self) -> None:
        """Removes the folder with everything in it."""
        if self._remove is not None:
            self._remove()
            self._remove = None
        self._path = None

    def _folder(self) -> Path:
        if (
            self._path is None or not self._path.is_dir()
        ):  # cleaners of temporary directories take old ones away
            self.close()
            pid = os.getpid()
            # mkdtemp makes it readable by this user only.
            prefix = f"{PREFIX}{pid}-{round(start_time(pid) * 1000)}-"
            made = tempfile.mkdtemp(prefix=prefix, dir=self._parent)
            self._path = Path(made)
            self._remove = weakref.finalize(self, shutil.rmtree, made, ignore_errors=True)
        return self._path


def sweep_abandoned(parent: Path | None = None) -> int:
    """Remove this user's folders of processes that have ended; return how many there were. Never raises."""
    swept = 0
    try:
        with os.scandir(parent or tempfile.gettempdir()) as entries:
            candidates = [(entry, _NAME.fullmatch(entry.name)) for entry in entries]
    except OSError as error:
        logger.warning("left-over result folders cannot be looked for: %s", error)
        return 0
    for entry, named in candidates:
        if named is None or same_process(int(named[1]), int(named[2]) / 1000):
            continue
        try:
            facts = entry.stat(follow_symlinks=False)
            # The temporary directory is everybody's: a link or another user's folder is none of ours.
            if not stat.S_ISDIR(facts.st_mode) or (os.name != "nt" and facts.st_uid != os.getuid()):
                continue
            shutil.rmtree(entry.path)
            swept += 1
        except OSError as error:
            logger.warning("the left-over result folder %s cannot be removed: %s", entry.path, error)
    return swept
