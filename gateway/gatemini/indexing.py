"""The search index kept up with the registry: a small change at once, a large one in steps between other work.

A backend may list thousands of tools; reading them takes the better part of a second, in which calls and searches
must not wait. Above: app.py, embedding.py. Below: search/index.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from gatemini.model import Tool
from gatemini.search.index import SearchIndex

TURN_SECONDS = 0.001
"""Between two steps: an answer to somebody else takes several turns of the event loop, not one."""


class Indexing:
    """Tells `index` what the registry has."""

    def __init__(self, index: SearchIndex) -> None:
        self._index = index
        self._wanted = anyio.Event()
        self._idle = anyio.Event()
        self._idle.set()

    def follow(self, backend: str, tools: Sequence[Tool] | None) -> None:
        """The registry's listener. What one step takes in is searchable at once, the rest soon."""
        self._index.expect(backend, tools or ())
        self.work()

    def work(self) -> None:
        """Do one step of what is waiting, and leave the rest to `run`."""
        if self._index.work() and self._idle.is_set():
            self._idle = anyio.Event()
            self._wanted.set()

    async def idle(self) -> None:
        """Until everything that is waiting now is taken in; `run` must be running."""
        await self._idle.wait()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted = anyio.Event()
            more = True
            while more:
                more = self._index.work()
                await anyio.sleep(TURN_SECONDS)
            self._idle.set()
