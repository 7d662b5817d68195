"""The results of one session in the store that replicas share: written as they are kept, read where another has kept them."""

from __future__ import annotations

import logging
import time
from collections import deque
from typing import Any

import msgspec

from gatemini.errors import StateUnavailable
from gatemini.output.store.entry import Entry, KeptResult
from gatemini.output.store.results import ResultStore
from gatemini.state.session_labels import SessionLabels
from gatemini.state.store import StateStore

logger = logging.getLogger(__name__)


class Fact(msgspec.Struct, array_like=True):
    """What a list of results says of one; `gone` where it was dropped. Times are seconds since the epoch."""

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


class SessionResults:
    """What the store has of one session's results; it is called from several threads, but for the async methods."""

    def __init__(
        self, store: StateStore, session: str, results: ResultStore, idle: float, most: int | None = None
    ) -> None:
        """`most`: a result of more bytes stays with the replica that has kept it."""
        self.labels: SessionLabels | None = None
        """Of what the session has read, where they are gathered."""
        self._store = store
        self._session = session
        self._results = results
        self._ttl, self._most = idle, most
        self._waiting: deque[tuple[Fact, KeptResult | None]] = deque()
        self._elsewhere: list[Fact] = []

    def saved(self, entry: Entry, data: bytes) -> None:
        """Put a new result into the store with the next `flush`."""
        if self._most is None or len(data) <= self._most:
            fact = Fact(entry.handle, entry.kind, entry.size, entry.label, time.time())
            kept = KeptResult(entry.handle, entry.kind, entry.mime, entry.label, 0.0, data)
            self._waiting.append((fact, kept))

    def dropped(self, handle: str) -> None:
        """Delete a result from the store with the next `flush`."""
        self._waiting.append((Fact(handle, "", 0, None, 0.0, gone=True), None))

    async def flush(self) -> None:
        """Have in the store what was read and kept so far, before it leaves; a result that cannot be written is tried again
        later. Raises StateUnavailable where labels cannot.
        """
        if self.labels is not None:
            await self.labels.flush()
        facts: list[bytes] = []
        try:
            while self._waiting:
                fact, kept = self._waiting[0]
                if kept is None:
                    await self._store.delete(self._key(fact.handle))
                else:
                    stored = msgspec.msgpack.encode(_Stored(kept, fact.created))
                    await self._store.put(self._key(fact.handle), stored, self._ttl)
                facts.append(msgspec.msgpack.encode(fact))
                self._waiting.remove((fact, kept))
            if facts:
                await self._store.append(f"results:{self._session}", facts, self._ttl)
        except StateUnavailable as error:
            logger.warning("a result is known to this replica only: %s", error.message)

    async def learn(self) -> None:
        """Learn what the session has read elsewhere. Raises StateUnavailable."""
        if self.labels is not None:
            await self.labels.learn()

    async def fetch(self, handle: str) -> None:
        """Take over a result that another replica has kept, where this one has none of that handle."""
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
        """Learn which results other replicas have kept or dropped."""
        entries = await self._store.entries(f"results:{self._session}")
        facts = {fact.handle: fact for fact in map(_FACT.decode, entries)}
        for fact in facts.values():
            if fact.gone:
                self._results.forget(fact.handle)
        oldest = time.time() - self._ttl
        self._elsewhere = [fact for fact in facts.values() if not fact.gone and fact.created > oldest]

    def elsewhere(self) -> list[dict[str, Any]]:
        """What a list says of results that only other replicas have, as of the last look."""
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
