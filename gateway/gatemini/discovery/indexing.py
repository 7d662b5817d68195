"""Keep the search index up to date with the registry: a small change at once, a large one in steps.

A backend may list thousands of tools; indexing them takes most of a second, in which calls and searches must not wait.
"""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from gatemini.discovery.search.index import SearchIndex
from gatemini.model import Tool

TURN_SECONDS = 0.001
"""Pause between two steps: an answer to another request takes several turns of the event loop."""


class Indexing:
    """Passes changes of the registry to `index`."""

    def __init__(self, index: SearchIndex) -> None:
        self._index = index
        self._wanted = anyio.Event()
        self._idle = anyio.Event()
        self._idle.set()

    def follow(self, backend: str, tools: Sequence[Tool] | None) -> None:
        """Listen to the registry. Tools of the first step are searchable at once, the others soon after."""
        self._index.expect(backend, tools or ())
        self.work()

    def work(self) -> None:
        """Do one step of the waiting changes, and leave the rest to `run`."""
        if self._index.work() and self._idle.is_set():
            self._idle = anyio.Event()
            self._wanted.set()

    async def idle(self) -> None:
        """Wait until every change known now is indexed; `run` must be running."""
        await self._idle.wait()

    async def run(self) -> None:
        """Index waiting changes until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted = anyio.Event()
            more = True
            while more:
                more = self._index.work()
                await anyio.sleep(TURN_SECONDS)
            self._idle.set()
