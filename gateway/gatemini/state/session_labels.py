"""The labels of what one session has read, in the store that replicas share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from gatemini.state.store import StateStore

KEPT_SECONDS = 24 * 3600.0
"""How long labels are kept after the last new one: longer than anything else that is kept of the session."""


class Reads(Protocol):
    """The labels that this process has gathered: label → tools."""

    def plain(self) -> dict[str, list[str]]: ...

    def restore(self, plain: Mapping[str, list[str]] | None) -> None: ...


class SessionLabels:
    """The labels of one session in the store. `on` returns whether labels are gathered."""

    def __init__(self, store: StateStore, session: str, reads: Reads, on: Callable[[], bool]) -> None:
        self._store = store
        self._key = f"reads:{session}"
        self._reads = reads
        self._on = on
        self._shared: set[str] = set()

    async def flush(self) -> None:
        """Write the labels that are new in this process to the store. Raises StateUnavailable."""
        if not self._on():
            return
        read = {f"{label}\0{tool}" for label, tools in self._reads.plain().items() for tool in tools}
        if new := read - self._shared:
            await self._store.add(self._key, new, KEPT_SECONDS)
            self._shared |= new

    async def learn(self) -> None:
        """Load the labels that other replicas have written. Raises StateUnavailable."""
        if not self._on():
            return
        found = await self._store.members(self._key)
        if new := found - self._shared:
            plain: dict[str, list[str]] = {}
            for label, _, tool in (member.partition("\0") for member in sorted(new)):
                plain.setdefault(label, []).append(tool)
            self._reads.restore(plain)
            self._shared |= new
