"""Predict the tools of the next step: by the gateway's search, by an upstream model's answer, or by any function."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from cachetools import LRUCache, cached

from gatemini.context.request.formats import Request
from gatemini.context.request.tool_definitions import Definition
from gatemini.discovery.search.index import SearchIndex
from gatemini.model import Tool

BEFORE = 2
"""Messages before the last user text that prediction looks at."""
BRIEF_CHARS = 120
"""Of a description in the prompt for a model."""
INDEXES = 16
"""Tool sets whose index is kept: as many kinds of agents use one proxy."""
_BACKEND = "request"


@dataclass(frozen=True, slots=True)
class Question:
    """What to predict from: the tools, the last user text, and the texts of two messages before it."""

    tools: Sequence[Definition]
    query: str
    before: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Prediction:
    """Names of tools the request has; or `failure`, which says why there are none, and then all tools stay."""

    names: tuple[str, ...] = ()
    failure: str | None = None


Predictor = Callable[[Question], Sequence[str] | str]
"""Answers names, or the text of a JSON array of names. Whatever it raises is a failed prediction."""


def question_of(request: Request) -> Question:
    """The question that a request's messages ask."""
    messages = [m for m in request.messages if m.role != "system"]
    last = next((i for i in range(len(messages) - 1, -1, -1) if messages[i].role == "user"), None)
    if last is None:
        return Question(request.tools, "")
    texts = ["\n".join(piece.text for piece in m.texts) for m in messages[max(0, last - BEFORE) : last + 1]]
    return Question(request.tools, texts[-1], tuple(text for text in texts[:-1] if text))


def predict(predictor: Predictor, question: Question) -> Prediction:
    """Ask a predictor; any error of it is a failed prediction."""
    try:
        answer = predictor(question)
    except Exception as error:  # noqa: BLE001 - a prediction must never end a request
        return Prediction(failure=type(error).__name__)
    return read_prediction(answer, question)


def read_prediction(answer: Any, question: Question) -> Prediction:
    """Names out of an answer, or of its JSON text; unknown ones are dropped, and an empty array is a prediction."""
    if isinstance(answer, str):
        try:
            answer = json.loads(answer)
        except ValueError:
            return Prediction(failure="the answer is no JSON")
    if not isinstance(answer, list | tuple) or not all(isinstance(name, str) for name in answer):
        return Prediction(failure="the answer is no array of names")
    known = {tool.name for tool in question.tools}
    return Prediction(tuple(name for name in dict.fromkeys(answer) if name in known))


def prediction_prompt(question: Question) -> str:
    """The prompt for an upstream model that predicts tools."""
    tools = [f"- {tool.name}: {_brief(tool.description)}" for tool in question.tools if tool.name]
    before = list(question.before)[-BEFORE:]
    return "\n".join(
        (
            "Which of these tools does the assistant need for its next steps? Be conservative: name a tool only if",
            "it is likely to be called. Answer with a JSON array of tool names and nothing else; [] is a valid answer.",
            "",
            "Tools:",
            *tools,
            *(("", "Messages before:", *before) if before else ()),
            "",
            "Query:",
            question.query,
        )
    )


def _brief(description: str) -> str:
    first = " ".join(description.split())
    return first if len(first) <= BRIEF_CHARS else first[: BRIEF_CHARS - 1] + "…"


class SearchPredictor:
    """The gateway's search over a request's tools."""

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def __call__(self, question: Question) -> list[str]:
        """Names of the best tools, best first."""
        index = self.index(question.tools)
        found = [hit.tool.name for hit in index.search(question.query, limit=self._limit).hits]
        for text in reversed(question.before):
            if len(found) >= self._limit:
                break
            more = index.search(text, limit=self._limit - len(found)).hits
            found += [hit.tool.name for hit in more if hit.tool.name not in found]
        return found

    def index(self, tools: Sequence[Definition]) -> SearchIndex:
        """The search index of these tools, kept for the next request."""
        return _index(tuple(tools))


def _digest(tools: tuple[Definition, ...]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for tool in tools:
        digest.update(tool.place.written)
    return digest.digest()


@cached(LRUCache(INDEXES), key=_digest, lock=Lock())
def _index(tools: tuple[Definition, ...]) -> SearchIndex:
    """Kept by the definitions' bytes: making one takes 0.06 ms a tool, searching it less than one in all."""
    index = SearchIndex()
    index.replace(_BACKEND, [_indexed(tool) for tool in tools if tool.name])
    return index


def _indexed(tool: Definition) -> Tool:
    schema = tool.parameters.value() if tool.parameters is not None else None
    fields = schema if isinstance(schema, dict) else {}
    return Tool(_BACKEND, tool.name or "", tool.description, fields)
