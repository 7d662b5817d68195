"""Measure how well search finds the right tools of a catalog: `gatemini eval` (recall@k, MRR, the misses).

A query has needs, and each need is a list of interchangeable tools:
  recall@k  share of needs with an acceptable tool among the first k, mean over queries
  MRR       1 / rank of the first acceptable tool, 0 beyond the tenth
Queries come from a file or from call history: what was searched, and what was then called in that session.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gatemini.errors import InvalidRequest

KS = (1, 5, 10)
DEPTH = max(KS)
CALLS_AFTER = 3
"""Different tools called after a search that count as its purpose."""

Search = Callable[[str, int], Sequence[str]]
"""(query, limit) → qualified names, best first."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query, and the tools that are right for it."""

    text: str
    needs: tuple[tuple[str, ...], ...]
    category: str = "all"


@dataclass(frozen=True, slots=True)
class Miss:
    """A query whose needs were not all among the first five."""

    query: Query
    found: tuple[str, ...]
    missing: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Scores:
    """Means over some queries; `recall` is by k."""

    queries: int
    recall: Mapping[int, float]
    mrr: float


@dataclass(frozen=True, slots=True)
class Report:
    """`macro` is the mean over categories, `all` over queries."""

    all: Scores
    macro: Scores
    categories: Mapping[str, Scores]
    misses: tuple[Miss, ...]
    median_ms: float


def evaluate(search: Search, queries: Sequence[Query]) -> Report:
    """Ask every query once and score the answers."""
    if not queries:
        raise InvalidRequest("there are no queries to evaluate")
    search(queries[0].text, DEPTH)  # builds what is made on first use
    scored: dict[str, list[tuple[dict[int, float], float]]] = {}
    misses: list[Miss] = []
    times: list[float] = []
    for query in queries:
        begun = time.perf_counter()
        found = tuple(dict.fromkeys(search(query.text, DEPTH)))[:DEPTH]
        times.append((time.perf_counter() - begun) * 1000)
        recall, rank = _score(found, query.needs)
        scored.setdefault(query.category, []).append((recall, rank))
        missing = tuple(need for need in query.needs if not set(need) & set(found[:5]))
        if missing:
            misses.append(Miss(query, found[:5], missing))
    categories = {name: _means(rows) for name, rows in scored.items()}
    macro = Scores(
        len(queries),
        {k: statistics.fmean(c.recall[k] for c in categories.values()) for k in KS},
        statistics.fmean(c.mrr for c in categories.values()),
    )
    everything = _means([row for rows in scored.values() for row in rows])
    return Report(everything, macro, categories, tuple(misses), statistics.median(times))


def _score(found: Sequence[str], needs: Sequence[Sequence[str]]) -> tuple[dict[int, float], float]:
    met: set[int] = set()
    recall = dict.fromkeys(KS, 0.0)
    reciprocal = 0.0
    for rank, name in enumerate(found, 1):
        fitting = [i for i, need in enumerate(needs) if name in need]
        if fitting and not reciprocal:
            reciprocal = 1.0 / rank
        # One tool meets one need: two needs want two tools.
        met.update([i for i in fitting if i not in met][:1])
        for k in KS:
            if rank <= k:
                recall[k] = len(met) / len(needs)
    return recall, reciprocal


def _means(rows: Sequence[tuple[dict[int, float], float]]) -> Scores:
    recall = {k: statistics.fmean(row[0][k] for row in rows) for k in KS}
    return Scores(len(rows), recall, statistics.fmean(row[1] for row in rows))


def parse_queries(data: Any) -> list[Query]:
    """Return the queries of a parsed JSON file: a list, or an object with `queries`. Raises InvalidRequest.

    An entry has `query` and one of `needs` (lists of names), `tools` (each one needed) or `tool`.
    """
    entries = data.get("queries") if isinstance(data, Mapping) else data
    if not isinstance(entries, list):
        raise InvalidRequest("a query file is a JSON list of {query, tools} or an object with `queries`")
    return [_parse(entry, number) for number, entry in enumerate(entries, 1)]


def _parse(entry: Any, number: int) -> Query:
    text = entry.get("query") if isinstance(entry, Mapping) else None
    if not isinstance(text, str):
        raise InvalidRequest(f"query {number} has no `query` text")
    needs = entry.get("needs")
    if needs is None:
        tools = entry.get("tools", entry.get("tool"))
        named = tools if isinstance(tools, list) else [tools] if isinstance(tools, str) else []
        needs = [[name] for name in named]
    if not isinstance(needs, list) or not needs or not all(_is_names(need) for need in needs):
        raise InvalidRequest(
            f"query {number} ('{text[:60]}') names no tools",
            hint='For example {"query": "read a file", "tools": ["files.read_file"]}.',
        )
    category = entry.get("category", "all")
    return Query(text, tuple(tuple(need) for need in needs), str(category))


def _is_names(need: Any) -> bool:
    return isinstance(need, list) and bool(need) and all(isinstance(name, str) for name in need)


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a session: a search (`text` is the query) or a call (`text` is the qualified name)."""

    session: str
    kind: Literal["search", "call"]
    text: str


def queries_from_history(events: Iterable[Event]) -> list[Query]:
    """Return the searches that were followed by calls in the same session, with the tools called before the next
    search.
    """
    waiting: dict[str, tuple[str, list[str]]] = {}
    finished: list[tuple[str, list[str]]] = []
    for event in events:
        if event.kind == "search":
            if event.session in waiting:
                finished.append(waiting[event.session])
            waiting[event.session] = (event.text, [])
        elif event.session in waiting:
            called = waiting[event.session][1]
            if event.text not in called and len(called) < CALLS_AFTER:
                called.append(event.text)
    finished += waiting.values()
    return [Query(text, tuple((name,) for name in called), "history") for text, called in finished if called]
