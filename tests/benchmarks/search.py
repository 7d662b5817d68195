"""Discovery on a large catalog: how well search ranks, what an agent reads, how long it takes.

    python -m tests.benchmarks.search FOLDER            # FOLDER has corpus.json and queries_*.json
    python -m tests.benchmarks.search FOLDER --ablate   # also without each signal in turn
    python -m tests.benchmarks.search FOLDER --large    # also at 100,000 tools (minutes)
    python -m tests.benchmarks.search                   # the built-in queries of tests/data

Quality is recall@5 and MRR, macro over kinds of query. Tokens are bytes / 4. Times are this process's CPU time, so
that a busy machine does not count. No thresholds here: floors are in tests/discovery/search/test_quality.py.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

from gatemini.discovery.embedding import MEANING_CHARS
from gatemini.discovery.model.embedder import Embedder, load_embedder
from gatemini.discovery.model.vectors import Vectors
from gatemini.discovery.search import best
from gatemini.discovery.search.evaluate import Query, Report, evaluate, parse_queries
from gatemini.discovery.search.index import Ranking, SearchIndex
from gatemini.discovery.search.query_repair import Vocabulary
from gatemini.discovery.types.typescript import declaration, signature
from gatemini.errors import ConfigError
from gatemini.model import Tool
from gatemini.protocol.answers.discovery import definition_bytes, list_tools_meta, search_tools, tool_info
from gatemini.protocol.definitions import tool_definitions
from gatemini.protocol.resources.listing import tool_index
from gatemini.registry import Registry

BUILT_IN = Path(__file__).resolve().parents[1] / "data" / "search_queries.json"
ENCODED_AT_ONCE = 128
NEW_TOOLS = 50
LARGE_BACKEND = 5_000


def load(folder: Path | None) -> tuple[list[Tool], list[Query]]:
    if folder is None:
        data = json.loads(BUILT_IN.read_text("utf-8"))
        entries, queries = data["tools"], data["queries"]
    else:
        entries = json.loads((folder / "corpus.json").read_text("utf-8"))["tools"]
        queries = [q for f in sorted(folder.glob("queries_*.json")) for q in json.loads(f.read_text("utf-8"))]
    tools = [
        Tool(e.get("backend") or e["server"], e["name"], e["description"] or "", e["inputSchema"] or {})
        for e in entries
    ]
    return tools, parse_queries(queries)


def by_backend(tools: Sequence[Tool]) -> dict[str, list[Tool]]:
    grouped: dict[str, list[Tool]] = {}
    for tool in tools:
        grouped.setdefault(tool.backend, []).append(tool)
    return grouped


class Searcher:
    """An index, and vectors of its tools where a model is given, in one process."""

    def __init__(self, tools: Sequence[Tool], ranking: Ranking, model: Embedder | None = None) -> None:
        self.index, self._vectors, self._model = SearchIndex(ranking), Vectors(), model
        for backend, own in by_backend(tools).items():
            self.index.replace(backend, own)
        for slot, tool in enumerate(self.index.tools):
            self._vectors.put(slot, self.index.texts(tool) if tool and model else ())
        while model is not None and (texts := self._vectors.pending(ENCODED_AT_ONCE)):
            self._vectors.supply(dict(zip(texts, model.encode(texts), strict=True)))

    def search(self, text: str, limit: int = 10) -> list[str]:
        meaning = None
        if self._model is not None:
            asked = self.index.meaning_text(text[:MEANING_CHARS])
            cosines = self._vectors.cosines(self._model.encode([asked])[0])
            meaning = array("f", cosines.tobytes())
        return [hit.tool.qualified for hit in self.index.search(text, limit=limit, meaning=meaning).hits]


def measure(searcher: Searcher, queries: Sequence[Query]) -> tuple[Report, float]:
    """The report and the median CPU milliseconds of a query."""
    times: list[float] = []

    def search(text: str, limit: int) -> list[str]:
        begun = time.thread_time()
        found = searcher.search(text, limit)
        times.append((time.thread_time() - begun) * 1000)
        return found

    return evaluate(search, queries), statistics.median(times)


def quality(tools: Sequence[Tool], queries: Sequence[Query], model: Embedder | None) -> None:
    print(f"\n{'ranking':34}{'recall@5':>9}{'MRR':>7}{'ms':>7}  recall@5 by kind")
    rankings: list[Ranking] = ["best", "classic"]
    for ranking in rankings:
        for embedder in [None, model] if model else [None]:
            report, ms = measure(Searcher(tools, ranking, embedder), queries)
            row(f"{ranking}{' + bundled model' if embedder else ''}", report, ms)


def row(name: str, report: Report, ms: float) -> None:
    kinds = " ".join(f"{kind[:7]} {scores.recall[5]:.2f}" for kind, scores in report.categories.items())
    print(f"{name:34}{report.macro.recall[5]:9.3f}{report.macro.mrr:7.3f}{ms:7.2f}  {kinds}")


@contextmanager
def without(signal: str) -> Iterator[None]:
    """`best` with one signal taken away."""
    nothing: Callable[..., Any] = lambda *_, **__: None  # noqa: E731
    patches = {
        "letters": [patch.object(best, "LETTERS", 0.0)],
        "meaning": [patch.object(best, "MEANING", 0.0), patch.object(best, "MATCH_MEANING", 2.0)],
        "the name's own vector": [patch.object(best, "NAME_SHARE", 1e-6)],
        "repair": [patch.object(Vocabulary, "repair", nothing)],
        "synonyms": [patch.object(best, "SYNONYMS", {})],
        "other languages": [
            patch.object(best, "foreign", lambda _: ()),
            patch.object(best, "foreign_run", lambda _: []),
        ],
        "short forms": [patch("gatemini.discovery.search.query_repair.SHORT_FORMS", {})],
        "parameters": [patch.object(best, "W_PARAMETER", 1e-9), patch.object(best, "W_PARAMETER_TEXT", 1e-9)],
        "the backend's name": [patch.object(best, "W_BACKEND", 1e-9)],
        "stemming": [
            patch.object(best, "stem", lambda word: word),
            patch.object(best, "words", best.raw_words),
        ],
        "added words in meaning": [patch.object(best, "ADDED", 0)],
    }[signal]
    for one in patches:
        one.start()
    try:
        yield
    finally:
        for one in patches:
            one.stop()


SIGNALS = (
    "letters", "meaning", "the name's own vector", "repair", "synonyms", "other languages",
    "short forms", "parameters", "the backend's name", "stemming",
    "added words in meaning",
)  # fmt: skip


def ablation(tools: Sequence[Tool], queries: Sequence[Query], model: Embedder | None) -> None:
    print(f"\n{'best without':34}{'recall@5':>9}{'MRR':>7}{'ms':>7}  recall@5 by kind")
    for embedder in [None, model] if model else [None]:
        row(
            "(nothing)" + (", with the model" if embedder else ""),
            *measure(Searcher(tools, "best", embedder), queries),
        )
        for signal in SIGNALS:
            if embedder is None and signal in ("meaning", "the name's own vector", "added words in meaning"):
                continue
            with without(signal):
                row(signal, *measure(Searcher(tools, "best", embedder), queries))


def size(value: Any) -> float:
    """Tokens of a JSON answer."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()) / 4


def sizes(tools: Sequence[Tool], queries: Sequence[Query]) -> None:
    registry, index = Registry(), SearchIndex()
    registry.listen(index.follow)
    for backend, own in by_backend(tools).items():
        registry.replace(backend, own)
    asked = [q.text for q in queries if q.text.strip()]
    brief = [search_tools(registry, index, {"query": q}) for q in asked]
    full = [search_tools(registry, index, {"query": q, "brief": False}) for q in asked]
    rows = [r for answer in brief for r in answer["results"]]
    info = {
        d: [tool_info(registry, {"tool_name": t.qualified, "detail": d}) for t in tools]
        for d in ("brief", "full")
    }
    catalog = sum(map(definition_bytes, tools)) / 4
    compact = size(tool_index(registry.tools(), int(catalog * 4), 1 << 30))
    names = list_tools_meta(registry, {"page_size": 500})["tools"]
    flow = statistics.fmean(map(size, brief)) + 2 * mean_size(info["brief"]) + mean_size(info["full"])
    definitions = size(tool_definitions([(b, len(own)) for b, own in by_backend(tools).items()]))
    searched, searched_full = statistics.fmean(map(size, brief)), statistics.fmean(map(size, full))
    print(f"\ntokens (bytes/4) over {len(tools)} tools and {len(asked)} queries")
    print(f"  every schema                     {catalog:10.0f}")
    print(f"  the seven definitions            {definitions:10.0f}")
    print(f"  search_tools, brief              {searched:10.1f}  (a result: {mean_size(rows):.1f})")
    print(
        f"  search_tools, full               {searched_full:10.1f}  (brief is {1 - searched / searched_full:.0%} less)"
    )
    print(f"  tool_info, brief                 {mean_size(info['brief']):10.1f}")
    print(f"  tool_info, full                  {mean_size(info['full']):10.1f}")
    print(f"  gatemini://tools                 {compact:10.0f}  ({compact / catalog:.1%} of every schema)")
    print(
        f"  a name in list_tools_meta        {(size(names) - sum(len(n.encode()) for n in names) / 4) / len(names):10.2f}  beyond its length"
    )
    print(
        f"  search 10, two briefs, one full  {flow:10.0f}  ({1 - flow / catalog:.2%} less than every schema)"
    )


def mean_size(values: Sequence[Any]) -> float:
    return statistics.fmean(map(size, values))


def grown(tools: Sequence[Tool], count: int) -> dict[str, list[Tool]]:
    """The catalog again and again under new backend names until it has `count` tools."""
    grouped: dict[str, list[Tool]] = {}
    held = turn = 0
    while held < count:
        for backend, own in by_backend(tools).items():
            name = f"{backend}-{turn}" if turn else backend
            # No two texts are the same, or they would share one vector.
            mark = f" {turn}" if turn else ""
            grouped[name] = [Tool(name, t.name + mark, t.description + mark, t.input_schema) for t in own]
            held += len(own)
        turn += 1
    return grouped


def timed(act: Callable[[], Any]) -> float:
    begun = time.thread_time()
    act()
    return (time.thread_time() - begun) * 1000


def speed(tools: Sequence[Tool], queries: Sequence[Query], counts: Sequence[int]) -> None:
    chosen = random.Random(1).sample(list(tools), min(NEW_TOOLS, len(tools)))
    new = [Tool("new-one", f"{t.name}_{i}", t.description, t.input_schema) for i, t in enumerate(chosen)]
    print(
        f"\n{'tools':>9}{'build s':>9}{f'add {NEW_TOOLS} ms':>11}{'remove ms':>11}{'search after ms':>17}{'median ms':>11}"
    )
    for count in counts:
        catalog = grown(tools, count)
        index, registry = SearchIndex(), Registry()
        registry.listen(index.follow)
        build = timed(lambda c=catalog, r=registry: [r.replace(b, own) for b, own in c.items()])
        index.search("warm up")
        added, removed, after = [], [], []
        for _ in range(5):
            added.append(timed(lambda r=registry: r.replace("new-one", new)))
            after.append(timed(lambda i=index: i.search("create a pull request")))
            removed.append(timed(lambda r=registry: r.remove("new-one")))
            index.search("warm up")
        each = [timed(lambda i=index, q=q: i.search(q.text)) for q in queries]
        print(
            f"{len(index):9}{build / 1000:9.2f}{statistics.median(added):11.1f}{statistics.median(removed):11.1f}"
            f"{statistics.median(after):17.1f}{statistics.median(each):11.2f}"
        )
    declared = timed(lambda: [declaration(t) for t in tools]) / len(tools)
    signed = timed(lambda: [signature(t) for t in tools]) / len(tools)
    print(f"\nTypeScript, ms per tool: declaration {declared:.3f}, signature {signed:.3f}")


def speed_with_model(
    tools: Sequence[Tool], queries: Sequence[Query], counts: Sequence[int], model: Embedder
) -> None:
    """A query with its encoding, at each size: what an agent waits for."""
    for count in counts:
        searcher = Searcher([tool for own in grown(tools, count).values() for tool in own], "best", model)
        searcher.search("warm up")
        each = [timed(lambda s=searcher, q=q: s.search(q.text)) for q in queries]
        print(f"with the model, {len(searcher.index)} tools: {statistics.median(each):.2f} ms a query")


def one_large_backend(tools: Sequence[Tool]) -> None:
    """How long everybody else waits at most while one backend with very many tools lists, changes and goes."""
    listed = [
        Tool("large", f"{t.name}_{i}", t.description, t.input_schema)
        for i, t in enumerate(islice(cycle(tools), LARGE_BACKEND))
    ]
    again = [Tool(t.backend, t.name, f"{t.description} Changed.", t.input_schema) for t in listed]
    index = SearchIndex()
    collecting = gc.isenabled()
    gc.disable()  # a collection is no step's own time
    try:
        for what, now in (("lists", listed), ("changes", again), ("goes", [])):
            steps = [timed(lambda n=now: index.expect("large", n))]
            more = True
            while more:
                begun = time.thread_time()
                more = index.work()
                steps.append((time.thread_time() - begun) * 1000)
            print(
                f"one backend of {LARGE_BACKEND} tools {what}: {sum(steps):.0f} ms in {len(steps)} steps, longest {max(steps):.1f} ms"
            )
    finally:
        if collecting:
            gc.enable()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?", help="corpus.json and queries_*.json")
    parser.add_argument("--ablate", action="store_true")
    parser.add_argument("--large", action="store_true")
    chosen = parser.parse_args()
    tools, queries = load(chosen.folder)
    try:
        model = load_embedder("bundled")
    except ConfigError as error:
        print(error.text())
        model = None
    print(f"{len(tools)} tools of {len(by_backend(tools))} backends, {len(queries)} queries")
    counts = [len(tools), 10_000, *([100_000] if chosen.large else [])]
    speed(tools, queries, counts)
    if model is not None:
        speed_with_model(tools, queries, counts, model)
    one_large_backend(tools)
    sizes(tools, queries)
    quality(tools, queries, model)
    if chosen.ablate:
        ablation(tools, queries, model)


if __name__ == "__main__":
    main()
