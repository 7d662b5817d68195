"""The journal of one chain on disk: records are appended before a call is sent and before a result reaches the code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import anyio
import anyio.to_thread
import msgspec

from gatemini.chain.replay.records import Record
from gatemini.chain.replay.segment import Segment

LARGE_BYTES = 128 * 1024
"""More than this is encoded and written on a thread: 1 MB takes about a millisecond."""


class Codec(Protocol):
    """Seals what is written; `unseal` raises ValueError for what was not sealed with the same key."""

    def seal(self, data: bytes) -> bytes: ...

    def unseal(self, data: bytes) -> bytes: ...


class JournalWriter(Protocol):
    """Where a chain is written; `flush` may return before it is, unless it must be `sure`."""

    def put(self, record: Record, size: int = 0) -> None: ...

    def write(self) -> None: ...

    async def flush(self, *, sure: bool) -> None: ...

    async def written(self) -> None: ...

    def drop(self) -> None: ...


class Batch(msgspec.Struct, array_like=True):
    """One append. Chain and number are inside of the seal: batches cannot be moved or left out unnoticed."""

    chain: str
    number: int
    records: list[Record]

    @classmethod
    def of(cls, data: bytes, codec: Codec | None) -> Batch:
        """Read a batch. Raises ValueError."""
        return msgspec.msgpack.decode(data if codec is None else codec.unseal(data), type=cls)


class JournalFile:
    """What is written of one chain, in a segment that it shares with others. `number` counts its batches."""

    def __init__(self, segment: Segment, chain: str, codec: Codec | None, number: int = 0) -> None:
        self._segment = segment
        self._chain = chain
        self._codec = codec
        self._number = number
        self._waiting: list[Record] = []
        self._size = 0
        self._thread: anyio.Event | None = None
        """Set when the thread that writes now has ended."""
        segment.hold(chain)

    def put(self, record: Record, size: int = 0) -> None:
        """Add a record to the next append; `size` is about what it has in bytes beyond a hundred."""
        if not self._segment.lost:
            self._waiting.append(record)
            self._size += size

    async def flush(self, *, sure: bool) -> None:
        """Append what was put, and return when the system has it, which costs too little to go on before."""
        while self._thread is not None:
            await self._thread.wait()
        records, large = self._taken()
        if not large:
            self._append(records)
            return
        self._thread = anyio.Event()
        try:
            await anyio.to_thread.run_sync(self._append, records)
        finally:
            self._thread.set()
            self._thread = None

    def write(self) -> None:
        """Append what was put, which is small."""
        self._append(self._taken()[0])

    async def written(self) -> None:
        """Wait until what was put is written: it always is."""

    def drop(self) -> None:
        """Write nothing any more: the chain cannot be resumed."""
        self._taken()
        self._segment.drop(self._chain)

    def _taken(self) -> tuple[list[Record], bool]:
        taken, large = self._waiting, self._size > LARGE_BYTES
        self._waiting, self._size = [], 0
        return taken, large

    def _append(self, records: list[Record]) -> None:
        if not records:
            return
        try:
            data = encoded(Batch(self._chain, self._number, records))
            if self._codec is not None:
                data = self._codec.seal(data)
        except (TypeError, ValueError) as error:
            self._segment.give_up(error)
            return
        self._segment.append(data)
        self._number += 1


def encoded(batch: Batch) -> bytes:
    """Return a batch as bytes. Raises TypeError or ValueError."""
    return msgspec.msgpack.encode(batch, enc_hook=_plain)


def _plain(value: Any) -> Any:
    """Return a read-only mapping as a dict; the format has nothing else that could be in a start message."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} in a journal")
