"""The results of one session in the store that replicas share: each replica writes its own, and reads those of others."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict, deque
from typing import Any

import anyio
import msgspec

from gatemini.errors import StateUnavailable
from gatemini.output.store.entry import Entry, KeptResult
from gatemini.output.store.results import ResultStore
from gatemini.state.blobs import INLINE_BYTES
from gatemini.state.session_labels import SessionLabels
from gatemini.state.store import StateStore

logger = logging.getLogger(__name__)

WAITING_BYTES = 64 << 20
"""Data of results that waits for a store that cannot be reached; older results are then known to this replica only."""
SHARED_BYTES = 64 << 20
"""Data of one session that a replica has in the store itself; further results are known to this replica only."""
MOST_FACTS = 10_000
"""Entries that are kept of the list of results of one session, the last ones."""


class Fact(msgspec.Struct, array_like=True):
    """An entry of the session's list of results; `gone` after it was dropped. `created`: seconds since the epoch."""

    handle: str
    kind: str
    bytes: int
    label: str | None
    created: float
    gone: bool = False


_FACT = msgspec.msgpack.Decoder(Fact)


class _Stored(msgspec.Struct, array_like=True):
    result: KeptResult
    created: float


_Waiting = tuple[Fact, KeptResult | None]
"""A fact to add to the list, and the result to put, or None for one to delete."""


class SessionResults:
    """The results of one session in the store. `saved` and `dropped` may be called from any thread."""

    def __init__(
        self, store: StateStore, session: str, results: ResultStore, idle: float, most: int | None = None
    ) -> None:
        """Results are kept for `idle` seconds. `most`: a result of more bytes stays with the replica that has kept it."""
        self.labels: SessionLabels | None = None
        """The labels of what the session has read, where they are gathered."""
        self._store = store
        self._session = session
        self._results = results
        self._ttl, self._most = idle, most
        self._waiting: deque[_Waiting] = deque()
        self._flushing = anyio.Lock()
        """Held by one `flush`; another one returns after it, when the store has what both found waiting."""
        self._elsewhere: list[Fact] = []
        self._shared: OrderedDict[str, tuple[float, int]] = OrderedDict()
        """Results in the store itself: handle → (when it was saved, bytes), the oldest first."""
        self._shared_bytes = 0
        self._counting = threading.Lock()
        """Held while the two are changed."""

    def saved(self, entry: Entry, data: bytes) -> None:
        """Put a new result into the store with the next `flush`."""
        if (self._most is None or len(data) <= self._most) and self._admit(entry.handle, len(data)):
            fact = Fact(entry.handle, entry.kind, entry.size, entry.label, time.time())
            kept = KeptResult(entry.handle, entry.kind, entry.mime, entry.label, 0.0, data)
            self._waiting.append((fact, kept))

    def _admit(self, handle: str, size: int) -> bool:
        """Count a result among those in the store; False where they would be more than `SHARED_BYTES`."""
        now = time.monotonic()
        with self._counting:
            while self._shared and next(iter(self._shared.values()))[0] < now - self._ttl:
                self._uncount(next(iter(self._shared)))
            if size > INLINE_BYTES:  # it is in a file
                return True
            if admitted := self._shared_bytes + size <= SHARED_BYTES:
                self._shared[handle] = now, size
                self._shared_bytes += size
        if not admitted:
            logger.warning(
                "%s is known to this replica only: its session may have %d MB of results in the store",
                handle,
                SHARED_BYTES >> 20,
            )
        return admitted

    def _uncount(self, handle: str) -> None:
        self._shared_bytes -= self._shared.pop(handle, (0.0, 0))[1]

    def dropped(self, handle: str) -> None:
        """Delete a result from the store with the next `flush`."""
        with self._counting:
            self._uncount(handle)
        self._waiting.append((Fact(handle, "", 0, None, 0.0, gone=True), None))

    async def flush(self) -> None:
        """Write what was read and kept so far to the store, before it leaves this replica.

        A result that cannot be written is tried again later. Raises StateUnavailable where labels cannot.
        """
        if self.labels is not None:
            await self.labels.flush()
        async with self._flushing:
            batch = [self._waiting.popleft() for _ in range(len(self._waiting))]
            if not batch:
                return
            written = False
            try:
                await self._write(batch)
                written = True
            except StateUnavailable as error:
                logger.warning("a result is known to this replica only: %s", error.message)
            finally:
                if not written:
                    self._put_back(batch)

    async def _write(self, batch: list[_Waiting]) -> None:
        for fact, kept in batch:
            if kept is None:
                await self._store.delete(self._key(fact.handle))
            else:
                stored = msgspec.msgpack.encode(_Stored(kept, fact.created))
                await self._store.put(self._key(fact.handle), stored, self._ttl)
        facts = [msgspec.msgpack.encode(fact) for fact, _ in batch]
        await self._store.append(f"results:{self._session}", facts, self._ttl, MOST_FACTS)

    def _put_back(self, batch: list[_Waiting]) -> None:
        """Keep a batch for the next `flush`: of the data only the latest that fit `WAITING_BYTES`."""
        left = WAITING_BYTES
        for fact, kept in reversed(batch):
            left -= len(kept.data) if kept is not None else 0
            if kept is None or left >= 0:
                self._waiting.appendleft((fact, kept))
            else:
                with self._counting:
                    self._uncount(fact.handle)

    async def learn(self) -> None:
        """Load the labels of what the session has read at other replicas. Raises StateUnavailable."""
        if self.labels is not None:
            await self.labels.learn()

    async def fetch(self, handle: str) -> None:
        """Copy a result that another replica has kept, unless this one has it."""
        if handle in self._results:
            return
        key = self._key(handle)
        [data] = await self._store.get(key)
        if data is None:
            return
        stored = msgspec.msgpack.decode(data, type=_Stored)
        self._results.put_back(stored.result, 0.0, max(0.0, time.time() - stored.created))
        await self._store.renew(self._ttl, key)

    async def look(self) -> None:
        """Load the list of results, and forget those that another replica has dropped."""
        entries = await self._store.entries(f"results:{self._session}")
        facts = {fact.handle: fact for fact in map(_FACT.decode, entries)}
        for fact in facts.values():
            if fact.gone:
                self._results.forget(fact.handle)
        oldest = time.time() - self._ttl
        self._elsewhere = [fact for fact in facts.values() if not fact.gone and fact.created > oldest]

    def elsewhere(self) -> list[dict[str, Any]]:
        """Return the entries of `results.list` for results that only other replicas have, as of the last `look`."""
        return [
            {
                "handle": fact.handle,
                "kind": fact.kind,
                "bytes": fact.bytes,
                **({"label": fact.label} if fact.label else {}),
                "age_seconds": round(time.time() - fact.created),
            }
            for fact in self._elsewhere
            if fact.handle not in self._results
        ]

    def _key(self, handle: str) -> str:
        return f"result:{self._session}:{handle}"
