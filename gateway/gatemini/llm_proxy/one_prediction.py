"""Predict tools once, by meaning too where a search model is installed: for a command, which leaves with its answer."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from gatemini.context import Question, SearchPredictor
from gatemini.llm_proxy.meaning import MeaningOfTools
from gatemini.llm_proxy.ranking import by_meaning

MODEL_SECONDS = 60.0
"""The most that loading the model and the vectors of all tools may take; then words decide alone."""


class ModelPredictor:
    """The gateway's search over a request's tools, with the search model as far as there is one."""

    def __init__(self, limit: int, model: str = "bundled") -> None:
        self._limit = limit
        self._model = model
        self._search = SearchPredictor(limit)

    def __call__(self, question: Question) -> Sequence[str]:
        """Names of the best tools, best first; blocks while the model's process starts."""
        found = anyio.run(self._by_meaning, question) if question.query.strip() else None
        return self._search(question) if found is None else found

    async def _by_meaning(self, question: Question) -> Sequence[str] | None:
        index = self._search.index(question.tools)
        async with MeaningOfTools.open(self._model) as meaning:
            with anyio.move_on_after(MODEL_SECONDS):
                await meaning.ready()
                await meaning.cosines(index, question)  # begins with the vectors of the tools
                await meaning.ready()
                cosines = await meaning.cosines(index, question)
                return None if cosines is None else by_meaning(index, question, cosines, self._limit).names
        return None
