"""Small private JSON files, one for each process of a kind, that outlive their process so that a command can read them."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from gatemini.processes.own_files import read_own, replace_own
from gatemini.processes.process_facts import same_process, start_time

FILES_KEPT = 20
"""Records of processes that have ended; the oldest go when another process writes its first."""
MAX_BYTES = 1 << 20
"""A larger file is not ours; 200 answers and 500 calls take about 150 KB."""


class ProcessRecord(BaseModel):
    """What one process wrote of itself."""

    model_config = ConfigDict(extra="forbid", strict=True)

    pid: int
    process_started: float
    ended: bool = False

    @property
    def running(self) -> bool:
        return not self.ended and same_process(self.pid, self.process_started)

    def last_active(self) -> str:
        """Return when the process did something last, as ISO text, which sorts by time."""
        raise NotImplementedError


Record = TypeVar("Record", bound=ProcessRecord)


class RecordFiles(Generic[Record]):
    """The records of one kind in a folder; this process writes one of them."""

    def __init__(self, folder: Path, kind: str, model: type[Record]) -> None:
        self.folder = folder
        self._kind = kind
        self._model = model
        self.started = start_time(os.getpid())
        self._written = False

    def write(self, data: bytes) -> None:
        """Replace this process's record (mode 0600). Raises OSError where the folder cannot be written to."""
        replace_own(self._path(os.getpid(), self.started), data)
        if not self._written:
            self._written = True
            self._prune()

    def read(self) -> list[Record]:
        """Return every readable record, the latest activity first; files that hold something else are left alone."""
        found: list[Record] = []
        try:
            paths = sorted(self.folder.glob(f"{self._kind}-*.json"))
        except OSError:
            return []
        for path in paths:
            with contextlib.suppress(OSError, ValidationError):  # removed meanwhile, or not ours
                found.append(self._model.model_validate_json(read_own(path, MAX_BYTES)))
        return sorted(found, key=lambda record: record.last_active(), reverse=True)

    def _prune(self) -> None:
        """Remove the oldest records of processes that are gone."""
        gone = [record for record in self.read() if not record.running]
        for record in gone[FILES_KEPT:]:
            with contextlib.suppress(OSError):
                self._path(record.pid, record.process_started).unlink(missing_ok=True)

    def _path(self, pid: int, started: float) -> Path:
        return self.folder / f"{self._kind}-{pid}-{round(started * 1000)}.json"
