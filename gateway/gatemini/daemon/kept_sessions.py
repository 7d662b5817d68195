"""Sessions that outlive their daemon: results and journals on the disk, until the client comes back or their hour is over.

One private file a session, named for a hash of its token. It is read as hostile input: only what has exactly this form.
"""

from __future__ import annotations

import hashlib
import logging
import time
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gatemini.chain.replay.journal import KEPT_SECONDS, Journal
from gatemini.folders import state_folder
from gatemini.output.store.handover import KeptResult, put_back, take_out
from gatemini.processes.own_files import read_own, replace_own
from gatemini.protocol.client_session import Session

logger = logging.getLogger(__name__)

MOST_BYTES = 512 << 20
"""Results of one session that are written; the longest unused are left out."""
SUFFIX = ".session"


@dataclass(frozen=True, slots=True)
class _KeptJournal:
    idle_seconds: float
    readings: list[int]
    journal: Journal


@dataclass(frozen=True, slots=True)
class _Kept:
    saved: float
    """Seconds since the epoch."""
    log_level: str
    results: list[KeptResult]
    journals: list[_KeptJournal]
    reads: dict[str, list[str]] | None = None
    """Labels of what the session has read; None where they were not gathered."""


def _plain(value: object) -> object:
    """What the format cannot hold as what it can: read-only mappings, arrays of numbers."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, array):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} in a journal")


class KeptSessions:
    """The sessions on the disk of one daemon's key."""

    def __init__(self, key: str) -> None:
        self._folder = state_folder() / "sessions" / key

    def save(self, token: str, session: Session, clock: float) -> None:
        """Write a session that has something to keep; `clock` is the time of its journals."""
        journals = []
        for journal in session.journals.kept.values():
            trace = journal.trace
            readings, trace.readings = list(trace.readings), ()
            journals.append(_KeptJournal(clock - journal.used, readings, journal))
        reads = session.reads.plain() if session.reads is not None else None
        results = list(take_out(session.results, MOST_BYTES))
        kept = _Kept(time.time(), session.log_level, results, journals, reads)
        if not kept.results and not kept.journals and not reads:
            return
        try:
            replace_own(self._path(token), msgspec.msgpack.encode(kept, enc_hook=_plain))
        except (OSError, TypeError, ValueError) as error:
            logger.warning("the results of a session are not kept: %s", error)

    def restore(self, token: str, session: Session, clock: float) -> None:
        """Give a session what an earlier daemon kept of it, once."""
        path = self._path(token)
        try:
            kept = msgspec.msgpack.decode(read_own(path, 2 * MOST_BYTES), type=_Kept)
        except FileNotFoundError:
            return
        except (OSError, ValueError, TypeError) as error:
            logger.warning("the kept results of a session cannot be used: %s", error)
            path.unlink(missing_ok=True)
            return
        path.unlink(missing_ok=True)
        passed = max(0.0, time.time() - kept.saved)
        session.log_level = kept.log_level
        if session.reads is not None:
            session.reads.restore(kept.reads)
        for result in reversed(kept.results):
            put_back(session.results, result, passed)
        for one in kept.journals:
            one.journal.trace.readings = array("Q", one.readings)
            session.journals.take_back(one.journal, clock - one.idle_seconds - passed)

    def sweep(self) -> None:
        """Remove what nobody came back for."""
        if not self._folder.is_dir():
            return
        for path in self._folder.glob(f"*{SUFFIX}"):
            try:
                if time.time() - path.stat().st_mtime > KEPT_SECONDS:
                    path.unlink()
            except OSError:
                continue

    def _path(self, token: str) -> Path:
        return self._folder / (hashlib.sha256(token.encode()).hexdigest()[:32] + SUFFIX)
