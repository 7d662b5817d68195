"""Journals in the store that replicas share: appended while a chain runs, read when it is resumed at any replica.

A chain waits for its appends only before a call that must not be made twice, so a killed replica loses at most records of
calls that may be repeated. Appends wait a moment for further records and for those of other chains, since each exchange costs
as much as a small call. One task at a time appends the records of a chain, in order.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable

import anyio
import anyio.abc
import msgspec

from gatemini.chain.replay.journal_file import Batch, encoded
from gatemini.chain.replay.journals_in_memory import KEPT_SECONDS, Journal
from gatemini.chain.replay.records import Begun, Called, Ended, Record, Rewound
from gatemini.chain.replay.refusal_texts import overtaken
from gatemini.chain.replay.stored_journals import journal_of
from gatemini.errors import ResumeRefused, StateUnavailable
from gatemini.state.store import StateStore

logger = logging.getLogger(__name__)

GATHER_SECONDS = 0.01
"""How long records of all chains are gathered, unless something waits for some of them."""


class Written(msgspec.Struct, array_like=True):
    """One batch of records, the replica that has appended it, and when, in seconds since the epoch."""

    replica: str
    when: float
    batch: bytes


_WRITTEN = msgspec.msgpack.Decoder(Written)


class SharedJournals:
    """The journals of all sessions of one replica, in the store. `run` owns the tasks that append."""

    def __init__(self, store: StateStore, replica: str, alive: Callable[[str], Awaitable[bool]]) -> None:
        self.store = store
        self.replica = replica
        self.alive = alive
        self._running = False
        self._gathered: list[SharedJournal] = []
        """Journals with records to append."""
        self._dropped: list[SharedJournal] = []
        """Journals to delete from the store."""
        self._wanted, self._urgent = anyio.Event(), anyio.Event()
        self._writing: set[SharedJournal] = set()

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Append records, and delete dropped journals, until cancelled."""
        async with anyio.create_task_group() as tasks:
            self._running = True
            try:
                task_status.started()
                while True:
                    await self._wanted.wait()
                    with anyio.move_on_after(GATHER_SECONDS):
                        await self._urgent.wait()
                    self._wanted, self._urgent = anyio.Event(), anyio.Event()
                    gathered, self._gathered = self._gathered, []
                    for journal in gathered:
                        tasks.start_soon(self._append, journal)
                    dropped, self._dropped = self._dropped, []
                    for journal in dropped:
                        tasks.start_soon(journal.remove)
            finally:
                self._running = False

    def write(self, journal: SharedJournal) -> None:
        """Append the records of a journal, soon."""
        if self._running:
            self._writing.add(journal)
            self._gathered.append(journal)
            self._wanted.set()

    def drop(self, journal: SharedJournal) -> None:
        """Delete a journal from the store, soon."""
        if self._running:
            self._dropped.append(journal)
            self._wanted.set()

    def hurry(self) -> None:
        """Append at once what was gathered: something waits for it."""
        self._urgent.set()

    async def _append(self, journal: SharedJournal) -> None:
        try:
            await journal.append()
        finally:
            self._writing.discard(journal)

    async def settled(self) -> None:
        """Wait until all appends in progress have ended; those that fail are logged."""
        for journal in list(self._writing):
            await journal.written()


class SessionSharedJournals:
    """The journals of one session in the store."""

    def __init__(self, journals: SharedJournals, session: str) -> None:
        self._journals = journals
        self._session = session

    def file(self, chain: str, number: int = 0, length: int = 0) -> SharedJournal:
        """Return the journal to write a chain to; `number` and `length` are those of a chain that is resumed."""
        return SharedJournal(self._journals, self._key(chain), chain, number, length)

    async def load(self, chain: str) -> Journal | None:
        """Return the journal of a chain of this session; None where there is none.

        Raises ResumeRefused where another replica still runs the chain, or where its journal is damaged. Raises
        StateUnavailable.
        """
        entries = [_WRITTEN.decode(data) for data in await self._journals.store.entries(self._key(chain))]
        if not entries:
            return None
        records, number, last = _valid_records(entries)
        if not records:  # the store was emptied while the chain ran
            raise ResumeRefused(f"chain {chain} cannot be resumed: its journal has lost its beginning")
        unfinished = not isinstance(records[-1], Ended)
        if unfinished and last.replica != self._journals.replica and await self._journals.alive(last.replica):
            raise ResumeRefused(f"chain {chain} cannot be resumed: it is still running")
        try:
            journal, _ = journal_of(chain, records, last.when)
        except (LookupError, ValueError) as error:
            raise ResumeRefused(
                f"chain {chain} cannot be resumed: its journal is damaged: {error}"
            ) from error
        journal.trace.keep_in(self.file(chain, number, len(entries)))
        return journal

    def _key(self, chain: str) -> str:
        return f"journal:{self._session}:{chain}"


def _valid_records(entries: list[Written]) -> tuple[list[Record], int, Written]:
    """Return the records of the valid batches, the number of these batches, and the last of them.

    Once another replica has resumed a chain, later batches of the first replica are not valid. A batch that was appended
    again, because the answer to the first append was lost, counts once.
    """
    records: list[Record] = []
    number, last = 0, entries[0]
    for written in entries:
        batch = Batch.of(written.batch, None)
        taken_over = isinstance(batch.records[0], Rewound)
        if (written.replica != last.replica and not taken_over) or batch.number < number:
            continue
        if batch.number > number:
            break  # no chain waited for a batch after a gap
        records += batch.records
        number, last = number + 1, written
    return records, number, last


def _is_urgent(record: Record) -> bool:
    """Whether a record must not wait: the outcome of a call that may not be repeated, or the end of a resumable chain."""
    match record:
        case Called():
            return record.sent and not record.repeatable
        case Ended(why):
            return bool(why)
    return False


class SharedJournal:
    """The journal of one chain, for writing: it has `number` valid batches among the `length` entries of its list."""

    def __init__(self, journals: SharedJournals, key: str, chain: str, number: int, length: int) -> None:
        self._journals = journals
        self._key = key
        self._chain = chain
        self._number = number
        self._length, self._stored = length, number
        self._records: list[Record] = []
        self._waiting: list[bytes] = []
        self._idle = anyio.Event()
        self._idle.set()
        self._failed: StateUnavailable | None = None
        self._overtaken = self._dropped = False
        self._appended = float("-inf")
        """When records were appended last."""

    def put(self, record: Record, size: int = 0) -> None:
        """Add a record to the next append."""
        if not self._dropped:
            self._records.append(record)

    def write(self) -> None:
        """Append the records that were put, soon; a chain that has only begun needs no journal."""
        if not self._records or isinstance(self._records[-1], Begun):
            return
        if self._idle.is_set():
            self._begin()
        if any(map(_is_urgent, self._records)):
            self._journals.hurry()

    def _begin(self) -> None:
        self._idle = anyio.Event()
        self._journals.write(self)

    def _encode(self) -> None:
        records, self._records = self._records, []
        if not records:
            return
        try:
            batch = encoded(Batch(self._chain, self._number, records))
        except (TypeError, ValueError) as error:
            logger.warning("the journal of %s cannot be written: %s", self._chain, error)
            self._dropped = True
            return
        self._number += 1
        self._waiting.append(msgspec.msgpack.encode(Written(self._journals.replica, time.time(), batch)))

    async def flush(self, *, sure: bool) -> None:
        """Append the records that were put. With `sure`, wait until the store has them.

        Raises StateUnavailable, and ResumeRefused where another replica has resumed the chain.
        """
        self.write()
        if not sure:
            return
        await self.written()
        if (self._waiting or self._records) and not self._overtaken:
            self._begin()  # an append failed, or records were put meanwhile
            await self.written()
        if self._overtaken:
            raise overtaken(self._chain)
        if self._failed is not None:
            raise self._failed

    async def written(self) -> None:
        """Wait until the append in progress has ended."""
        self._journals.hurry()
        await self._idle.wait()

    async def append(self) -> None:
        """Append all records that wait, in order. A failure is kept for `flush`."""
        idle = self._idle
        try:
            while not self._overtaken:
                self._encode()
                if not self._waiting:
                    break
                batches = list(self._waiting)
                length = await self._journals.store.append(self._key, batches, KEPT_SECONDS)
                del self._waiting[: len(batches)]
                self._failed = None
                if length != self._length + len(batches):
                    await self._check_overtaken()
                self._length, self._stored = length, self._stored + len(batches)
                self._appended = time.monotonic()
        except StateUnavailable as error:
            if self._failed is None:
                logger.warning("the journal of %s is not in the store: %s", self._chain, error.message)
            self._failed = error
        finally:
            idle.set()

    async def _check_overtaken(self) -> None:
        """Check entries of other replicas: one may have resumed the chain while this one was paused."""
        for data in await self._journals.store.entries(self._key, self._length):
            written = _WRITTEN.decode(data)
            if written.replica == self._journals.replica:
                continue
            batch = Batch.of(written.batch, None)
            if batch.number == self._stored and isinstance(batch.records[0], Rewound):
                self._overtaken = True

    def drop(self) -> None:
        """Drop the records that wait and all later ones, and what the store has.

        A journal with which another replica has gone on stays in the store.
        """
        self._records.clear()
        self._dropped = True
        if time.monotonic() - self._appended < KEPT_SECONDS:  # else it has expired
            self._journals.drop(self)

    async def remove(self) -> None:
        """Delete from the store what this replica has dropped."""
        try:
            await self.written()
            if not self._overtaken:
                await self._journals.store.cut(self._key, self._length)
        except StateUnavailable:
            logger.debug("the journal of %s cannot be deleted and expires by itself", self._chain)
