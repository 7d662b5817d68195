"""The entries of one session's results: in memory, the longest unused spilled to files, then dropped.

Not safe from several threads by itself: the store holds its lock.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from gatemini.errors import ResultGone, ResultNotKept
from gatemini.output.store.entry import Entry
from gatemini.output.store.spill import SpillDamaged, SpillFolder
from gatemini.text.shorten import shorten

HANDLE_CHARS = 60
"""Characters of an unknown handle that an error repeats."""

_T = TypeVar("_T")

logger = logging.getLogger(__name__)


class Shelf:
    """Entries by handle, the least recently used first, within both limits and the time they may be idle."""

    def __init__(
        self,
        memory_bytes: int,
        disk_bytes: int,
        idle_seconds: float,
        clock: Callable[[], float],
        directory: Path | None,
    ) -> None:
        self.clock = clock
        self._memory_bytes = memory_bytes
        self._disk_bytes = disk_bytes
        self._idle_seconds = idle_seconds
        self._folder = SpillFolder(directory)
        self._entries: OrderedDict[str, Entry] = OrderedDict()

    def __contains__(self, handle: str) -> bool:
        return handle in self._entries

    @property
    def entries(self) -> list[Entry]:
        """All entries, the longest unused first."""
        return list(self._entries.values())

    def peek(self, handle: str) -> Entry | None:
        """Return an entry without using it."""
        return self._entries.get(handle)

    def get(self, handle: str) -> Entry:
        """Return an entry, used last from now on. Raises ResultGone."""
        self.sweep()
        entry = self._entries.get(handle)
        if entry is None:
            raise ResultGone(
                f"{shorten(handle, HANDLE_CHARS)} does not exist in this session (expired, dropped, or from before a restart): "
                "run the call again"
            )
        if entry.file is not None:
            self._unharmed(entry, entry.file.check)  # also where nothing of it would have to be read
        entry.used = self.clock()
        self._entries.move_to_end(handle)
        return entry

    def add(self, entry: Entry) -> None:
        """Keep a new entry with its data. Raises ResultNotKept where neither memory nor disk have room for it."""
        too_large = ResultNotKept(f"{entry.size} bytes fit neither memory nor disk of this session's results")
        if entry.data is not None and entry.size > self._memory_bytes and not self._spill(entry, entry.data):
            raise too_large
        self._entries[entry.handle] = entry
        self._settle()
        if entry.handle not in self._entries:
            raise too_large

    def read(self, entry: Entry, begin: int = 0, end: int | None = None) -> bytes:
        """Return the bytes from `begin` to `end`, from memory or disk. Raises ResultGone."""
        if entry.data is not None:
            return entry.data if begin == 0 and end is None else entry.data[begin:end]
        file = entry.file
        return b"" if file is None else self._unharmed(entry, lambda: file.read(begin, end))

    def remove(self, entry: Entry) -> None:
        self._entries.pop(entry.handle, None)
        if entry.file is not None:
            entry.file.remove()

    def sweep(self) -> None:
        """Drop what was not used for the idle time; the order of use makes this stop early."""
        limit = self.clock() - self._idle_seconds
        while self._entries:
            oldest = next(iter(self._entries.values()))
            if oldest.used > limit:
                return
            self.remove(oldest)

    def close(self) -> None:
        """Drop everything."""
        self._entries.clear()
        self._folder.close()

    @property
    def memory_used(self) -> int:
        return sum(entry.size for entry in self._entries.values() if entry.data is not None)

    @property
    def disk_used(self) -> int:
        return sum(entry.size for entry in self._entries.values() if entry.data is None)

    def _unharmed(self, entry: Entry, look: Callable[[], _T]) -> _T:
        """Return what a look at an entry's file gives; ResultGone where it is not what was written."""
        try:
            return look()
        except SpillDamaged as damage:
            self.remove(entry)
            raise ResultGone(
                f"{entry.handle} is lost to the gateway's result store ({damage}): run the call again"
            ) from damage

    def _settle(self) -> None:
        """Keep to both limits: the least recently used go to disk, then are dropped from it."""
        memory = self.memory_used
        for entry in self.entries:
            if memory <= self._memory_bytes:
                break
            if entry.data is None:
                continue
            memory -= entry.size
            if not self._spill(entry, entry.data):
                self.remove(entry)
        disk = self.disk_used
        for entry in self.entries:
            if disk <= self._disk_bytes:
                break
            if entry.data is None:
                disk -= entry.size
                self.remove(entry)

    def _spill(self, entry: Entry, data: bytes) -> bool:
        """Move an entry to disk; False where there is no room for it."""
        if entry.size > self._disk_bytes:
            return False
        try:
            file = self._folder.write(entry.handle, data)
        except OSError as error:
            logger.warning("a result of %d bytes could not be spilled to disk: %s", entry.size, error)
            return False
        entry.file, entry.data = file, None
        return True
