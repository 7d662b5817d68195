"""One result of a store: what it is, when it was used, and where its bytes are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from gatemini.output.store.row_index import RowIndex
from gatemini.output.store.spill import SpillFile

Kind = Literal["json", "text", "blob"]
ADDRESS = "gatemini://result/"
"""Together with a handle the address of its resource, which is taken wherever a handle is."""
READ_ON = (
    f"read on with {ADDRESS}"
    "{handle}/{{next_offset}}, or in a chain: await results.rows('{handle}', {{offset, limit}}) "
    "for up to 40 rows, await results.load('{handle}') to filter, join or aggregate all of it"
)

BLOB_NOTE = "results.base64(handle) gives the data, results.chunks(handle) in pieces of base64"


@dataclass(slots=True)
class Entry:
    """A kept result."""

    handle: str
    kind: Kind
    mime: str
    label: str | None
    created: float
    used: float
    size: int
    data: bytes | None
    """None when spilled."""
    file: SpillFile | None = None
    index: RowIndex | None = None


@dataclass(frozen=True, slots=True)
class KeptResult:
    """One result with its bytes, on its way to a later process; `idle_seconds` since it was used last."""

    handle: str
    kind: Kind
    mime: str
    label: str | None
    idle_seconds: float
    data: bytes


class Elsewhere(Protocol):
    """What other replicas have of the same session: results, and labels of what it has read."""

    def saved(self, entry: Entry, data: bytes) -> None:
        """Let others have a new result, after the next `flush`."""
        ...

    def dropped(self, handle: str) -> None:
        """Drop a result everywhere, with the next `flush`."""
        ...

    async def flush(self) -> None:
        """Wait until others have what was saved and read, before its handles or the data leave."""
        ...

    async def learn(self) -> None:
        """Learn what the session has read elsewhere, before a call is judged by it."""
        ...

    async def fetch(self, handle: str) -> None:
        """Keep a result here that is kept elsewhere, if it is."""
        ...

    async def look(self) -> None:
        """Learn what others have, for `elsewhere`."""
        ...

    def elsewhere(self) -> list[dict[str, Any]]:
        """What a list says of results that are not here."""
        ...
