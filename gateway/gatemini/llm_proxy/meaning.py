"""The meaning of requests and of their tools, by the search model in a process of its own, where one is installed."""

from __future__ import annotations

from array import array
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel

from gatemini.context import Question
from gatemini.discovery.embedding import Embedding
from gatemini.discovery.search.index import SearchIndex
from gatemini.discovery.search.ranked import Meaning
from gatemini.folders import cache_folder
from gatemini.llm_proxy.ranking import clauses, texts_of
from gatemini.model import Tool

MOST_TOOLS = 5_000
"""Tools whose vectors are held, or those of one request; with more all are dropped, and encoded again as they come."""
NEW_TOOLS_SECONDS = 2.0
"""How long the first request with some tools waits for their vectors; later ones do not."""
BEFORE_SHARE = 0.8
"""Weight of a message before the request."""


class _Tools:
    """The different tools of all requests, by slot."""

    def __init__(self) -> None:
        self.tools: Sequence[Tool | None] = []
        self._slots: dict[Sequence[tuple[str, float]], int] = {}

    def texts(self, tool: Tool) -> Sequence[tuple[str, float]]:
        return texts_of(tool)

    def meaning_text(self, query: str) -> str:
        return query

    async def idle(self) -> None:
        """Tools are added at once."""

    def slots(self, tools: Sequence[Tool | None]) -> tuple[list[int | None], bool]:
        """The slot of each tool, and whether some are new."""
        keys = [None if tool is None else texts_of(tool) for tool in tools]
        pairs = zip(keys, tools, strict=True)
        new = {key: tool for key, tool in pairs if key is not None and key not in self._slots}
        if new and self._slots and len(self._slots) + len(new) > MOST_TOOLS:
            self.tools, self._slots = [], {}
            return self.slots(tools)
        for key in new:
            self._slots[key] = len(self._slots)
        self.tools = [*self.tools, *new.values()]
        return [None if key is None else self._slots[key] for key in keys], bool(new)


class MeaningOfTools:
    """Searches tools of requests by words and by meaning."""

    def __init__(self, tools: _Tools, embedding: Embedding) -> None:
        self._tools = tools
        self._embedding = embedding

    @classmethod
    @asynccontextmanager
    async def open(cls, model: str) -> AsyncIterator[MeaningOfTools]:
        """Run the model's process for the length of the block; without a model words alone are searched."""
        tools = _Tools()
        embedding = Embedding(tools, tools, cache_folder() / "llm-proxy-vectors", model)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(embedding.run)
            embedding.tools_changed()  # loads the model before the first request needs it
            await anyio.lowlevel.checkpoint()
            try:
                yield cls(tools, embedding)
            finally:
                tasks.cancel_scope.cancel()

    async def ready(self) -> None:
        """Wait until the model is loaded, or until it is known that there is none."""
        await self._embedding.ready()

    async def cosines(self, index: SearchIndex, question: Question) -> list[Meaning] | None:
        """The cosines of each clause of a request with each tool of an index, by slot; None without a model."""
        if self._embedding.problem is not None:
            return None
        slots, some_new = self._tools.slots(index.tools)
        if some_new:
            self._embedding.tools_changed()
        if self._embedding.under_way:
            with anyio.move_on_after(NEW_TOOLS_SECONDS):
                await self._embedding.ready()
        cosines: list[Meaning] = []
        weighted = [(text, 1.0) for text in clauses(question.query)]
        for text, share in (*weighted, *((text, BEFORE_SHARE) for text in question.before)):
            found = await self._embedding.meaning(text)
            if found is None:
                return None
            cosines.append(array("f", [0.0 if slot is None else share * found[slot] for slot in slots]))
        return cosines
