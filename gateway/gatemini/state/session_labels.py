"""The labels of what one session has read, as replicas share them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from gatemini.state.store import StateStore

KEPT_SECONDS = 24 * 3600.0
"""How long labels outlive the last use of their session: longer than anything else that is kept of it."""


class Reads(Protocol):
    """What gathers the labels in this process: label → tools."""

    def plain(self) -> dict[str, list[str]]: ...

    def restore(self, plain: Mapping[str, list[str]] | None) -> None: ...


class SessionLabels:
    """The labels of one session in the store. `on`: whether labels are gathered."""

    def __init__(self, store: StateStore, session: str, reads: Reads, on: Callable[[], bool]) -> None:
        self._store = store
        self._key = f"reads:{session}"
        self._reads = reads
        self._on = on
        self._known: set[str] = set()

    async def flush(self) -> None:
        """Let other replicas know what was read here. Raises StateUnavailable."""
        if not self._on():
            return
        read = {f"{label}\0{tool}" for label, tools in self._reads.plain().items() for tool in tools}
        if new := read - self._known:
            await self._store.add(self._key, new, KEPT_SECONDS)
            self._known |= new

    async def learn(self) -> None:
        """Take over what was read elsewhere. Raises StateUnavailable."""
        if not self._on():
            return
        found = await self._store.members(self._key)
        if new := found - self._known:
            plain: dict[str, list[str]] = {}
            for label, _, tool in (member.partition("\0") for member in sorted(new)):
                plain.setdefault(label, []).append(tool)
            self._reads.restore(plain)
            self._known |= new
