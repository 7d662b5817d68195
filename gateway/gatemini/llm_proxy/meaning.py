"""Finding tools by meaning too, with the search model in a process of its own, where one is installed."""

from __future__ import annotations

from array import array
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio

from gatemini.context import Question, SearchPredictor
from gatemini.discovery.embedding import Embedding
from gatemini.discovery.search.best import embedding_texts
from gatemini.discovery.search.index import SearchIndex
from gatemini.discovery.search.ranked import Meaning
from gatemini.folders import cache_folder
from gatemini.model import Tool

MOST_TOOLS = 5_000
"""Tools whose vectors are held; with more all are dropped, and encoded again as they come."""
NEW_TOOLS_SECONDS = 2.0
"""How long the first request with some tools waits for their vectors; later ones do not."""


class _Tools:
    """The different tools of all requests, by slot."""

    def __init__(self) -> None:
        self.tools: Sequence[Tool | None] = []
        self._slots: dict[tuple[str, str], int] = {}

    def texts(self, tool: Tool) -> Sequence[tuple[str, float]]:
        return embedding_texts(tool)

    async def idle(self) -> None:
        """Tools are added at once."""

    def slots(self, tools: Sequence[Tool | None]) -> tuple[list[int | None], bool]:
        """The slot of each tool, and whether some are new."""
        wanted = [tool for tool in tools if tool is not None]
        new = {(tool.name, tool.description): tool for tool in wanted}
        new = {key: tool for key, tool in new.items() if key not in self._slots}
        if len(self._slots) + len(new) > MOST_TOOLS:
            self.tools, self._slots = [], {}
            return self.slots(tools)
        for key in new:
            self._slots[key] = len(self._slots)
        self.tools = [*self.tools, *new.values()]
        places = [None if tool is None else self._slots[tool.name, tool.description] for tool in tools]
        return places, bool(new)


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
            try:
                yield cls(tools, embedding)
            finally:
                tasks.cancel_scope.cancel()

    async def find(self, search: SearchPredictor, question: Question) -> list[str]:
        """Names of the best tools, best first."""
        index = search.index(question.tools)
        near = await self._cosines(index, question.query) if question.query.strip() else None
        return search.find(question, near)

    async def _cosines(self, index: SearchIndex, text: str) -> Meaning | None:
        """The cosine of a text with each tool of an index, by slot."""
        slots, some_new = self._tools.slots(index.tools)
        if self._embedding.problem is not None:
            return None
        if some_new:
            self._embedding.tools_changed()
        if self._embedding.under_way:
            with anyio.move_on_after(NEW_TOOLS_SECONDS):
                await self._embedding.ready()
        found = await self._embedding.meaning(text)
        if found is None:
            return None
        return array("f", [0.0 if slot is None else found[slot] for slot in slots])
