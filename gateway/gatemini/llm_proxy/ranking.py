"""Which tools a request needs, from the words that it shares with them and from their meaning. Pure functions.

The figures were set on one half of the labelled requests (`tests/benchmarks/prediction.py`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gatemini.context import Prediction, Question
from gatemini.discovery.search.index import SearchIndex
from gatemini.discovery.search.ranked import Meaning
from gatemini.discovery.search.words import raw_words
from gatemini.model import Tool

MOST_CLAUSES = 5
CLAUSE_CHARS = 8
"""Of a clause with a meaning of its own."""
BEHIND = 20
WORDS_SHARE = 0.5
"""A rank counts 1 / (BEHIND + rank), by words half as much as by meaning: reciprocal rank fusion."""
FEW = 3
"""With fewer tools found by words alone, the request says too little about its tools."""
DESCRIPTION_CHARS = 100
NAME_SHARE, PARAMETERS_SHARE = 0.5, 0.3
_ENDS = re.compile(r"[.!?;:\n]+\s|,\s|\band\b")


def clauses(text: str) -> list[str]:
    """A text and its clauses: a request often needs one tool for each."""
    parts = [part.strip() for part in _ENDS.split(text)]
    return list(dict.fromkeys([text, *(part for part in parts if len(part) > CLAUSE_CHARS)]))[:MOST_CLAUSES]


def texts_of(tool: Tool) -> tuple[tuple[str, float], ...]:
    """The texts that make a tool's vector, each with its weight."""
    name = " ".join(raw_words(tool.name)) or tool.name
    properties = tool.input_schema.get("properties")
    parameters = " ".join(properties) if isinstance(properties, dict) else ""
    described = (f"{name}. {tool.description[:DESCRIPTION_CHARS]}", 1.0)
    return described, (name, NAME_SHARE), (parameters or name, PARAMETERS_SHARE)


def by_words(index: SearchIndex, question: Question, limit: int) -> Prediction:
    """Predict by the words of each clause; a request that shares too few with its tools is a failure."""
    depth = max(limit, FEW)
    ranked = [_found(index, text, depth) for text in (*clauses(question.query), *reversed(question.before))]
    taken = dict.fromkeys(found[place] for place in range(depth) for found in ranked if place < len(found))
    if len(taken) < FEW:
        return Prediction(failure="too few words in common with the tools")
    every = [tool.name for tool in index.tools if tool is not None]
    return Prediction(tuple(dict.fromkeys((*taken, *every)))[:limit])


def by_meaning(index: SearchIndex, question: Question, cosines: Sequence[Meaning], limit: int) -> Prediction:
    """Predict by the ranks that words and the nearest of any clause give; `cosines` has those of each clause, by slot."""
    near = {
        tool.name: max(each[slot] for each in cosines)
        for slot, tool in enumerate(index.tools)
        if tool is not None
    }
    scores = {
        name: 1 / (BEHIND + rank) for rank, name in enumerate(sorted(near, key=lambda name: -near[name]), 1)
    }
    for rank, name in enumerate(_found(index, question.query, len(scores)), 1):
        scores[name] += WORDS_SHARE / (BEHIND + rank)
    return Prediction(tuple(sorted(scores, key=lambda name: -scores[name])[:limit]))


def _found(index: SearchIndex, text: str, limit: int) -> list[str]:
    return [hit.tool.name for hit in index.search(text, limit=limit).hits]
