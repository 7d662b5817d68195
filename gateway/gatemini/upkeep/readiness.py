"""Wait for backends that are starting, and find out which tools are not known yet."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from gatemini.backends.manager import Manager
from gatemini.backends.status import State
from gatemini.config.load import Loaded
from gatemini.discovery.indexing import Indexing
from gatemini.discovery.search.index import SearchIndex
from gatemini.registry import Registry
from gatemini.unlisted import Unlisted


class Readiness:
    """The state of all backends of one gateway, as far as others wait for it."""

    def __init__(
        self,
        manager: Manager,
        registry: Registry,
        index: SearchIndex,
        indexing: Indexing,
        loaded: Callable[[], Loaded],
    ) -> None:
        self._manager = manager
        self._registry = registry
        self._index = index
        self._indexing = indexing
        self._loaded = loaded
        self._changed = anyio.Event()
        self._waited_for: set[str] = set()

    def state_changed(self) -> None:
        """Wake those that wait, after a change of a backend's state."""
        self._changed.set()

    async def settled(self, timeout: float) -> bool:
        """Wait until no backend is starting; False if the timeout was over first."""
        with anyio.move_on_after(timeout) as scope:
            await self._until(lambda: not any(s.state == State.STARTING for s in self._manager.statuses()))
        return not scope.cancelled_caught

    async def unlisted(self, seconds: float, *, live: bool = False) -> Unlisted:
        """Wait for backends whose tools are unknown, or (`live`) only known from the cache."""
        # A slow backend delays one answer, not each one until it has started.
        waited_for: set[str] = set() if live else self._waited_for
        with anyio.move_on_after(seconds):
            await self._until(lambda: waited_for.issuperset(self._starting(live)))
            if self._index.incomplete():
                await self._indexing.idle()
        starting = self._starting(live)
        waited_for.intersection_update(starting)
        waited_for.update(starting)
        late = [*starting, *self._index.incomplete()]
        down = {name: self._manager.error(name) for name in self._unknown(live) if name not in late}
        loaded = self._loaded()
        troubled = {**loaded.unusable, **{name: why for name, why in down.items() if why}}
        return Unlisted(late, troubled, loaded.disabled)

    def _unknown(self, live: bool) -> list[str]:
        known = self._registry.backends()
        return [
            name
            for name in sorted(self._manager.configured())
            if name not in known or (live and not self._registry.is_live(name))
        ]

    def _starting(self, live: bool) -> list[str]:
        return [name for name in self._unknown(live) if self._manager.state(name) == State.STARTING]

    async def _until(self, holds: Callable[[], bool]) -> None:
        """Wait until `holds` after a change of state; the caller bounds the wait."""
        while not holds():
            if self._changed.is_set():  # another waiter may have made a new event already
                self._changed = anyio.Event()
            await self._changed.wait()
