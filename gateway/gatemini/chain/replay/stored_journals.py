"""The journals of one session on disk: written while its chains run, read when its client comes to a later process."""

from __future__ import annotations

import logging
import time
from array import array
from collections.abc import Callable
from pathlib import Path

from gatemini.chain.replay.journal_file import Batch, Codec, JournalFile
from gatemini.chain.replay.journals_in_memory import KEPT_SECONDS, Journal
from gatemini.chain.replay.recorded_calls import ENTRY_BYTES, MOST_BYTES, Entry, RecordedCalls
from gatemini.chain.replay.records import (
    Begun,
    Called,
    Clock,
    Ended,
    Opened,
    Record,
    Rewound,
    Started,
    Stepped,
    TooLarge,
)
from gatemini.chain.replay.segment import Segment
from gatemini.errors import ResumeRefused

SUFFIX = ".journals"
SEGMENT_BYTES = 8 << 20
"""A file with more than this gets no further chains."""
CUT_OFF = "was cut off when the gateway ended"
"""What interrupted a chain without an end in its journal."""

logger = logging.getLogger(__name__)


class StoredJournals:
    """The folder of one session; it exists and is private to its user. With a codec all that is written is sealed."""

    def __init__(
        self, folder: Path, codec: Codec | None, report: Callable[[str | None], None] = lambda problem: None
    ) -> None:
        self._folder = folder
        self._codec = codec
        self._report = report
        self._segment: Segment | None = None

    def file(self, chain: str) -> JournalFile:
        """Return where a new chain is written."""
        if self._segment is None or self._segment.lost or self._segment.size > SEGMENT_BYTES:
            self._segment = Segment(self._folder / f"{time.time_ns()}{SUFFIX}", self._report)
        return JournalFile(self._segment, chain, self._codec)

    def load(self) -> list[tuple[Journal, float]]:
        """Return what an earlier process left and how many seconds ago, the longest unused first."""
        found: list[tuple[Journal, float]] = []
        for path in sorted(self._folder.glob(f"*{SUFFIX}")):
            segment = Segment(path, self._report)
            try:
                left = self._left(segment)
            except (OSError, ValueError) as error:
                logger.warning("the journals in %s cannot be used: %s", path.name, error)
                left = []
            if not left:
                segment.remove()
            found += left
        return sorted(found, key=lambda pair: -pair[1])

    def _left(self, segment: Segment) -> list[tuple[Journal, float]]:
        written = segment.written()
        numbers: dict[str, int] = {}
        records: dict[str, list[Record]] = {}
        for data in segment.batches():
            batch = Batch.of(data, self._codec)
            number = numbers.get(batch.chain, 0)
            if batch.number != number:
                raise ValueError(f"batch {number} of {batch.chain} is missing")
            numbers[batch.chain] = number + 1
            records.setdefault(batch.chain, []).extend(batch.records)
        left = []
        for chain, its in records.items():
            try:
                journal, used = journal_of(chain, its, written)
            except (ResumeRefused, LookupError, ValueError) as error:
                logger.warning("the journal of %s cannot be used: %s", chain, error)
                continue
            idle = max(0.0, time.time() - used)
            if idle <= KEPT_SECONDS:
                journal.trace.keep_in(JournalFile(segment, chain, self._codec, numbers[chain]))
                left.append((journal, idle))
        return left


def journal_of(chain: str, records: list[Record], written: float) -> tuple[Journal, float]:
    """Rebuild a journal, and when it was used last: `written` where it has no end.

    Raises ResumeRefused, LookupError or ValueError for records that no chain has left.
    """
    first = records[0] if records else None
    if not isinstance(first, Begun):
        raise ValueError("it has no beginning")
    journal = Journal(chain, first.code, why=CUT_OFF)
    used = written
    for record in records[1:]:
        _apply(journal, record)
        if isinstance(record, Ended | Rewound):
            used = record.when if isinstance(record, Ended) else written
    return journal, used


def _apply(journal: Journal, record: Record) -> None:
    match record:
        case Begun():
            raise ValueError("it has two beginnings")
        case Ended(why):
            journal.why, journal.trace.finished = why, not why
        case Rewound():
            journal.trace.rewind()
            journal.why = CUT_OFF
        case TooLarge():
            journal.trace.meter.bytes = MOST_BYTES + 1
        case Opened(path, source):
            outer = _at(journal.trace, path[:-1])
            outer.entries[path[-1]].inner = RecordedCalls(outer.meter, source, path)
        case Started(path, start):
            _at(journal.trace, path).start = start
        case Called(path):
            _call(_at(journal.trace, path), record)
        case Stepped(path, ids, clock):
            trace = _at(journal.trace, path)
            trace.steps.append(ids)
            trace.marks.append(clock)
            trace.meter.bytes += 24 + 8 * len(ids)
        case Clock(path, readings):
            trace = _at(journal.trace, path)
            together = array("Q", trace.readings)
            together.frombytes(readings)
            trace.readings = together
            trace.meter.bytes += len(readings)


def _call(trace: RecordedCalls, record: Called) -> None:
    before = trace.entries.get(record.id)
    trace.entries[record.id] = Entry.of(record, None if before is None else before.inner)
    trace.meter.bytes += (ENTRY_BYTES if before is None else 0) + len(record.text or "")


def _at(trace: RecordedCalls, path: tuple[int, ...]) -> RecordedCalls:
    """Return the run that a path leads to. Raises LookupError where there is none."""
    for ident in path:
        inner = trace.entries[ident].inner
        if inner is None:
            raise LookupError(f"call {ident} is no run of a composite tool")
        trace = inner
    return trace
