"""The labels of what one session has read, in the store that replicas share."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol

from gatemini.state.store import StateStore

KEPT_SECONDS = 24 * 3600.0
"""The least time for which labels are kept after the session's last call."""
RENEW_SECONDS = 3600.0
"""Between two renewals of their time to live."""


class Reads(Protocol):
    """The labels that this process has gathered: label → tools."""

    def plain(self) -> dict[str, list[str]]: ...

    def restore(self, plain: Mapping[str, list[str]] | None) -> None: ...


class SessionLabels:
    """The labels of one session in the store. `on` returns whether labels are gathered."""

    def __init__(
        self,
        store: StateStore,
        session: str,
        reads: Reads,
        on: Callable[[], bool],
        *,
        idle: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`idle`: seconds without a request after which the session ends."""
        self._store = store
        self._key = f"reads:{session}"
        self._reads = reads
        self._on = on
        self._clock = clock
        self._ttl = max(KEPT_SECONDS, idle + RENEW_SECONDS)
        self._shared: set[str] = set()
        self._renewed = float("-inf")

    async def flush(self) -> None:
        """Write the labels that are new in this process to the store. Raises StateUnavailable."""
        if not self._on():
            return
        read = {f"{label}\0{tool}" for label, tools in self._reads.plain().items() for tool in tools}
        if new := read - self._shared:
            await self._store.add(self._key, new, self._ttl)
            self._shared |= new

    async def learn(self) -> None:
        """Load the labels that other replicas have written, before each call. Raises StateUnavailable."""
        if not self._on():
            return
        found = await self._store.members(self._key)
        if found and self._clock() - self._renewed > RENEW_SECONDS:
            await self._store.renew(self._ttl, self._key)
            self._renewed = self._clock()
        if new := found - self._shared:
            plain: dict[str, list[str]] = {}
            for label, _, tool in (member.partition("\0") for member in sorted(new)):
                plain.setdefault(label, []).append(tool)
            self._reads.restore(plain)
            self._shared |= new
