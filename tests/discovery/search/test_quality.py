"""Floors of search quality on the built-in queries, and on the large benchmark where its folder is given.

The floors are a little below the measured values; timings are measured by the benchmarks.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from gatemini.discovery.embedding import MEANING_CHARS
from gatemini.discovery.model.embedder import Embedder, load_embedder
from gatemini.discovery.model.vectors import Vectors
from gatemini.discovery.search.evaluate import Report, evaluate, parse_queries
from gatemini.discovery.search.index import Ranking, SearchIndex
from gatemini.errors import ConfigError
from gatemini.model import Tool

BUILT_IN = Path(__file__).parents[2] / "data" / "search_queries.json"
BENCHMARK = os.environ.get("GATEMINI_SEARCH_BENCH")
ENCODED_AT_ONCE = 128


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    try:
        return load_embedder("bundled")
    except ConfigError as error:
        pytest.skip(error.message)


def searching(
    entries: Sequence[dict[str, Any]], ranking: Ranking, model: Embedder | None
) -> Callable[[str, int], list[str]]:
    """A search over tools as the gateway makes it, with the model in this process."""
    index, vectors = SearchIndex(ranking), Vectors()
    backends: dict[str, list[Tool]] = {}
    for entry in entries:
        backend = entry.get("backend") or entry["server"]
        tool = Tool(backend, entry["name"], entry["description"] or "", entry["inputSchema"] or {})
        backends.setdefault(backend, []).append(tool)
    for backend, tools in backends.items():
        index.replace(backend, tools)
    for slot, tool in enumerate(index.tools):
        vectors.put(slot, index.texts(tool) if tool and model else ())
    while model and (texts := vectors.pending(ENCODED_AT_ONCE)):
        vectors.supply(dict(zip(texts, model.encode(texts), strict=True)))

    def search(query: str, limit: int) -> list[str]:
        asked = index.meaning_text(query[:MEANING_CHARS])
        meaning = vectors.cosines(model.encode([asked])[0]).tolist() if model else None
        return [hit.tool.qualified for hit in index.search(query, limit=limit, meaning=meaning).hits]

    return search


def built_in(ranking: Ranking, model: Embedder | None = None) -> Report:
    data = json.loads(BUILT_IN.read_text("utf-8"))
    return evaluate(searching(data["tools"], ranking, model), parse_queries(data))


def test_the_built_in_set_is_large_enough() -> None:
    data = json.loads(BUILT_IN.read_text("utf-8"))
    assert len(data["tools"]) >= 60
    assert len(parse_queries(data)) >= 120


def test_best_finds_what_is_meant_without_a_model() -> None:
    report = built_in("best")
    assert report.macro.recall[5] >= 0.93, report.misses
    assert report.macro.mrr >= 0.88
    for kind in ("exact", "typo", "partial", "multilingual"):
        assert report.categories[kind].recall[5] >= 0.94, (kind, report.misses)


def test_best_finds_more_with_the_bundled_model(embedder: Embedder) -> None:
    report = built_in("best", embedder)
    assert report.macro.recall[5] >= 0.95, report.misses
    assert report.macro.mrr >= 0.90
    assert report.categories["paraphrase"].recall[5] >= 0.80


def test_the_classic_ranking_is_unchanged() -> None:
    report = built_in("classic")
    assert report.macro.recall[5] >= 0.60
    assert report.categories["exact"].recall[5] >= 0.95


@pytest.mark.parametrize("text", ["", " ", "\ud800", "\x00", "😀", "word " * 3_000, "日本語"])
def test_the_bundled_model_takes_any_text(embedder: Embedder, text: str) -> None:
    (vector,) = embedder.encode([text])
    assert vector @ vector == pytest.approx(1.0, abs=1e-3)
    odd = [{"backend": "b", "name": text, "description": text, "inputSchema": {}}]
    searching(odd, "best", embedder)(text, 10)


def benchmark(ranking: Ranking, model: Embedder | None) -> Report:
    if BENCHMARK is None:
        pytest.skip("GATEMINI_SEARCH_BENCH does not name the folder of the benchmark")
    folder = Path(BENCHMARK)
    entries = json.loads((folder / "corpus.json").read_text("utf-8"))["tools"]
    queries = [q for f in sorted(folder.glob("queries_*.json")) for q in json.loads(f.read_text("utf-8"))]
    return evaluate(searching(entries, ranking, model), parse_queries(queries))


@pytest.mark.long
def test_the_benchmark_without_a_model() -> None:
    report = benchmark("best", None)
    assert report.macro.recall[5] >= 0.78
    assert report.macro.mrr >= 0.71


@pytest.mark.long
def test_the_benchmark_with_the_bundled_model(embedder: Embedder) -> None:
    report = benchmark("best", embedder)
    assert report.macro.recall[5] >= 0.84
    assert report.macro.mrr >= 0.79
    assert report.categories["paraphrase"].recall[5] >= 0.5
