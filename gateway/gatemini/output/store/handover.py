"""Hand the results of a session over to the next process: out of one store, into another, under the same handles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gatemini.errors import ResultGone
from gatemini.output.store.entry import Entry, Kind
from gatemini.output.store.results import ResultStore


@dataclass(frozen=True, slots=True)
class KeptResult:
    """One result with its bytes; `idle_seconds` since it was used last."""

    handle: str
    kind: Kind
    mime: str
    label: str | None
    idle_seconds: float
    data: bytes


def take_out(store: ResultStore, most_bytes: int) -> Iterator[KeptResult]:
    """The results of a store, the last used first, as far as they have at most so many bytes together."""
    with store._lock:
        store._sweep()
        entries, now, left = list(store._entries.values()), store._clock(), most_bytes
        for entry in reversed(entries):
            left -= entry.size
            if left < 0:
                return
            try:
                data = store._bytes(entry)
            except ResultGone:
                continue
            yield KeptResult(entry.handle, entry.kind, entry.mime, entry.label, now - entry.used, data)


def put_back(store: ResultStore, result: KeptResult, passed_seconds: float) -> None:
    """Keep a result under its old handle; `passed_seconds` since it was taken out count as idle."""
    with store._lock:
        used = store._clock() - result.idle_seconds - passed_seconds
        entry = Entry(
            result.handle, result.kind, result.mime, result.label, used, used, len(result.data), result.data
        )
        store._entries[result.handle] = entry
        store._sweep()
        store._settle()
