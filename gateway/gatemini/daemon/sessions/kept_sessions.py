"""Sessions on the disk: journals as they are written, results when the daemon ends, for a later daemon to give back.

One private folder a session, named for a hash of its token. It is read as hostile input: only what has exactly this form.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import anyio.to_thread
import msgspec

from gatemini.chain.replay.journal_file import Codec
from gatemini.chain.replay.journals_in_memory import KEPT_SECONDS, Journal
from gatemini.chain.replay.stored_journals import StoredJournals
from gatemini.folders import state_folder
from gatemini.output.store.entry import KeptResult
from gatemini.processes.own_files import read_own, replace_own
from gatemini.protocol.sessions.client_session import DEFAULT_LOG_LEVEL, Session

logger = logging.getLogger(__name__)

MOST_BYTES = 512 << 20
"""Results of one session that are written; the longest unused are left out."""
RESULTS = "results"


@dataclass(frozen=True, slots=True)
class _Kept:
    saved: float
    """Seconds since the epoch."""
    log_level: str
    results: list[KeptResult]
    reads: dict[str, list[str]] | None = None
    """Labels of what the session has read; None where they were not gathered."""


@dataclass(frozen=True, slots=True)
class Restored:
    """What an earlier daemon left of a session. Results are `passed_seconds` older than when they were written."""

    log_level: str = DEFAULT_LOG_LEVEL
    results: list[KeptResult] = field(default_factory=list)
    passed_seconds: float = 0.0
    journals: list[tuple[Journal, float]] = field(default_factory=list)
    reads: dict[str, list[str]] | None = None

    def give(self, session: Session) -> None:
        """Give it to the session of the same client."""
        session.log_level = self.log_level
        if session.reads is not None:
            session.reads.restore(self.reads)
        for result in reversed(self.results):
            session.results.put_back(result, self.passed_seconds)
        for journal, idle in self.journals:
            session.journals.take_back(journal, idle)


class KeptSessions:
    """The sessions on the disk of one daemon's key. With a codec all that is written is sealed."""

    def __init__(
        self, key: str, codec: Codec | None, report: Callable[[str | None], None] = lambda problem: None
    ) -> None:
        self._folder = state_folder() / "sessions" / key
        self._codec = codec
        self._report = report

    async def restore(self, token: str, session: Session, *, returns: bool = False) -> None:
        """Give a new session what an earlier daemon left of it, and let it keep its journals.

        `returns`: an earlier daemon has served it. If that one left nothing, since it was killed or it is long ago, the
        session may have read anything.
        """
        stored, restored = await anyio.to_thread.run_sync(self._open, token, returns)
        session.journals.new_file = stored.file
        restored.give(session)

    async def keep(self, token: str, session: Session) -> None:
        """Leave a session to the next daemon, when this one ends."""
        session.journals.leave()
        await anyio.to_thread.run_sync(self._save, token, session)

    def _open(self, token: str, returns: bool) -> tuple[StoredJournals, Restored]:
        """Return where the session's journals are kept, and what an earlier daemon left of it."""
        folder = self._of(token)
        try:
            self._folder.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            for private in (self._folder.parent, self._folder, folder):
                private.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            self._report(f"chains cannot be resumed after a crash: {error}")
        stored = StoredJournals(folder, self._codec, self._report)
        journals, kept = stored.load(), self._results(folder / RESULTS)
        if kept is None:
            return stored, Restored(journals=journals, reads=None if journals or returns else {})
        passed = max(0.0, time.time() - kept.saved)
        return stored, Restored(kept.log_level, kept.results, passed, journals, kept.reads)

    def _results(self, path: Path) -> _Kept | None:
        try:
            data = read_own(path, 3 * MOST_BYTES)
            if self._codec is not None:
                data = self._codec.unseal(data)
            kept = msgspec.msgpack.decode(data, type=_Kept)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            logger.warning("the kept results of a session cannot be used: %s", error)
            kept = None
        path.unlink(missing_ok=True)
        return kept

    def _save(self, token: str, session: Session) -> None:
        """Write a session's results, its log level and what it has read: without a file it counts as having read anything."""
        reads = session.reads.plain() if session.reads is not None else None
        kept = _Kept(time.time(), session.log_level, list(session.results.take_out(MOST_BYTES)), reads)
        if not kept.results and reads is None and session.log_level == DEFAULT_LOG_LEVEL:
            return
        try:
            data = msgspec.msgpack.encode(kept)
            if self._codec is not None:
                data = self._codec.seal(data)
            replace_own(self._of(token) / RESULTS, data)
        except (OSError, TypeError, ValueError) as error:
            logger.warning("the results of a session are not kept: %s", error)

    def remove(self, token: str) -> None:
        """Remove all of a session that has ended."""
        shutil.rmtree(self._of(token), ignore_errors=True)

    def sweep(self) -> None:
        """Remove the folders of sessions that are empty or nobody came back for."""
        if not self._folder.is_dir():
            return
        for folder in self._folder.iterdir():
            try:
                if folder.is_dir() and _unused(folder) > KEPT_SECONDS:
                    shutil.rmtree(folder)
                elif folder.is_file():
                    folder.unlink()
            except OSError:
                continue

    def _of(self, token: str) -> Path:
        return self._folder / hashlib.sha256(token.encode()).hexdigest()[:32]


def _unused(folder: Path) -> float:
    """Seconds since anything in a folder was written."""
    return time.time() - max(path.stat().st_mtime for path in (folder, *folder.iterdir()))
