"""The search over all tools: what is indexed, which ranking is asked, what the answer says (spec 3.2).

Sync and without I/O; a change costs what the changed backend costs, and may be made in steps. Above: discovery,
CLI, `indexing.py`. Below: `best.py`, `classic.py`, `embeddings.py`.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from gatemini.model import Tool
from gatemini.search.best import BestRanker, embedding_texts
from gatemini.search.bm25 import K1, B
from gatemini.search.classic import NAME_WEIGHT, ClassicRanker
from gatemini.search.embeddings import Embedder
from gatemini.search.names import NameOrder
from gatemini.search.postings import STEP, Floats
from gatemini.search.ranked import Ranked
from gatemini.search.vectors import Vectors
from gatemini.search.words import MAX_QUERY, STOP_WORDS, plain_tokens, squash

Ranking = Literal["best", "classic"]

USAGE_FACTOR = 0.3
USAGE_CAP = 2.0
"""Most that a habit can lift a score (about 27 uses)."""
DISTINCTIVE = 3
"""Terms per backend in `try_also`."""
MEANING_CHARS = 1_000
"""Of a query that its vector is made of: an encoder reads little more, and 2,000 emoji would cost it a tenth of a second."""
_TELLING = 24
"""Terms ranked per backend: more than a query can use up."""
_LONGEST_TERM = 30
"""Letters of a term in `try_also`; what is longer is no word that anybody would search with."""
_MIN_PREFIX = 3
TOOLS_AT_ONCE = 50
"""Tools that one step takes in: some 5 to 10 ms. A smaller backend is searchable as soon as it has listed."""
_DONE = object()
_EXACT, _SQUASHED, _PREFIX = 3, 2, 1


@dataclass(frozen=True, slots=True)
class Hit:
    """A tool found; `why` names each signal's share, for `gatemini search --explain`."""

    tool: Tool
    score: float
    why: Mapping[str, float | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """`total` counts all matches, not only the hits; `try_also` is backend → terms for the next search."""

    hits: list[Hit]
    total: int
    did_you_mean: str | None = None
    try_also: Mapping[str, list[str]] = field(default_factory=dict)
    tier: str = "none"


class Ranker(Protocol):
    def add(self, slot: int, tool: Tool) -> None: ...
    def remove(self, slots: Sequence[int], capacity: int) -> Iterator[None]: ...
    def rank(self, text: str, allowed: NDArray[np.bool_], meaning: Floats | None, limit: int) -> Ranked: ...


class SearchIndex:
    """All tools, by slot; a slot is reused once its tool is gone."""

    def __init__(
        self,
        ranking: Ranking = "best",
        embedder: Embedder | None = None,
        *,
        k1: float = K1,
        b: float = B,
        name_weight: float = NAME_WEIGHT,
    ) -> None:
        self.ranking = ranking
        self._ranker: Ranker = (
            BestRanker() if ranking == "best" else ClassicRanker(k1=k1, b=b, name_weight=name_weight)
        )
        self._tools: list[Tool | None] = []
        self._alive: NDArray[np.bool_] = np.zeros(64, dtype=np.bool_)
        self._free: list[int] = []
        self._slots: dict[str, dict[str, int]] = {}
        self._qualified: dict[str, int] = {}
        self._names = NameOrder()
        self._terms: dict[str, Counter[str]] = {}
        self._documents: Counter[str] = Counter()
        self._telling: dict[str, list[str]] = {}  # emptied by every change
        self._waiting: dict[str, dict[str, Tool]] = {}  # by backend and name: to be taken in
        self._new: set[str] = set()
        self._dead: list[tuple[int, Tool]] = []
        self._clearing: Iterator[None] | None = None
        self._unread: list[int] = []  # slots whose texts the embedder has not been told
        self._embedder: Embedder | None = None
        self._vectors: Vectors | None = None
        if embedder is not None:
            self.set_embedder(embedder)

    def __len__(self) -> int:
        return int(np.count_nonzero(self._alive))

    # ---- changes -------------------------------------------------------------------------------------

    def expect(self, backend: str, tools: Sequence[Tool]) -> None:
        """Note that `tools` are all that `backend` has now; `work` takes them in.

        What is gone is not found any more from here on; what changed is found as it was until its turn comes.
        """
        held = self._slots.setdefault(backend, {})
        new = not held or backend in self._new
        wanted = {tool.name: tool for tool in tools}
        self._bury(backend, [name for name in held if name not in wanted])
        changed = {n: t for n, t in wanted.items() if n not in held or self._tools[held[n]] != t}
        self._waiting.pop(backend, None)
        self._new.discard(backend)
        if changed:
            self._waiting[backend] = changed
            if new:
                self._new.add(backend)
        if not wanted:
            del self._slots[backend]

    def work(self) -> bool:
        """Do a few milliseconds of what `expect` noted; False once nothing is left to do."""
        if self._unread:  # before any slot can be given to another tool
            self._read_texts(self._unread[-TOOLS_AT_ONCE:])
            del self._unread[-TOOLS_AT_ONCE:]
        elif self._clearing is not None:
            if next(self._clearing, _DONE) is _DONE:
                self._clearing = None
        elif self._waiting:
            backend, tools = next(iter(self._waiting.items()))
            for name in list(islice(tools, TOOLS_AT_ONCE)):
                self._bury(backend, [name] if name in self._slots[backend] else [])
                self._slots[backend][name] = self._take(tools.pop(name))
            if not tools:
                del self._waiting[backend]
                self._new.discard(backend)
        elif self._dead:
            self._clearing = self._clear(self._dead)
            self._dead = []
        return bool(self._clearing or self._waiting or self._dead or self._unread)

    def incomplete(self) -> list[str]:
        """Backends that had no tools before and of which some still wait to be taken in."""
        return sorted(self._new)

    def replace(self, backend: str, tools: Sequence[Tool]) -> None:
        """Make `tools` all that `backend` has, at once; unchanged ones are left alone."""
        self.expect(backend, tools)
        while self.work():
            pass

    def remove(self, backend: str) -> None:
        """Forget all tools of `backend`."""
        self.replace(backend, ())

    def follow(self, backend: str, tools: Sequence[Tool] | None) -> None:
        """The registry's listener, where nobody waits meanwhile."""
        self.replace(backend, tools or ())

    # ---- vectors -------------------------------------------------------------------------------------

    def set_embedder(self, embedder: Embedder | None) -> None:
        """Use this model from now on; search stays lexical until vectors are supplied."""
        self.expect_embedder(embedder)
        while self.work():
            pass

    def expect_embedder(self, embedder: Embedder | None) -> None:
        """The same, where `work` tells which texts it has to encode."""
        self._embedder = embedder
        self._vectors = None if embedder is None else Vectors(embedder.name)
        self._unread = (
            [] if embedder is None else [s for s, tool in enumerate(self._tools) if tool is not None]
        )

    def pending(self, limit: int = 256) -> dict[str, str]:
        """Texts that lack a vector, by cache key: encode them off the event loop, then `supply`."""
        return {} if self._vectors is None else self._vectors.pending(limit)

    def supply(self, vectors: Mapping[str, Floats]) -> int:
        """Vectors by key, from the encoder or the cache; how many were wanted."""
        return 0 if self._vectors is None else self._vectors.supply(vectors)

    # ---- search --------------------------------------------------------------------------------------

    def search(
        self,
        query: str,
        *,
        limit: int = 10,
        tag: str | None = None,
        usage: Mapping[str, int] | None = None,
        query_vector: Floats | None = None,
    ) -> SearchResult:
        """The best `limit` tools for `query`, which may be any text at all.

        `usage` is uses by qualified name. `query_vector` spares encoding the query here (a few milliseconds).
        """
        text = query[:MAX_QUERY]
        if not len(self) or not text.strip() or limit < 1:
            return SearchResult([], 0)
        capacity = len(self._tools)
        allowed = self._allowed(tag, capacity)
        ranked = self._ranker.rank(text, allowed, self._meaning(text, query_vector, capacity), limit)
        scores = ranked.scores.copy()
        boosts = self._lift(scores, usage or {})
        pins = {slot: pin for slot, pin in self._pinned(text).items() if allowed[slot]}
        top = self._order(scores, pins, limit)
        hits = [self._hit(slot, scores, ranked, pins, boosts) for slot in top]
        matches = int(np.count_nonzero(scores > 0)) + sum(1 for slot in pins if scores[slot] <= 0)
        return SearchResult(
            hits,
            matches,
            None if pins else ranked.did_you_mean,
            self._try_also(hits, text),
            "exact" if any(p > _PREFIX for p in pins.values()) else ranked.tier,
        )

    def tags(self) -> list[str]:
        """All tags there are, sorted."""
        return sorted({tag for tool in self._tools if tool is not None for tag in tool.tags})

    # ---- inside --------------------------------------------------------------------------------------

    def _take(self, tool: Tool) -> int:
        if self._free:
            slot = self._free.pop()
            self._tools[slot] = tool
        else:
            slot = len(self._tools)
            self._tools.append(tool)
            if slot >= len(self._alive):
                self._alive = np.concatenate([self._alive, np.zeros_like(self._alive)])
        self._alive[slot] = True
        self._qualified[tool.qualified] = slot
        self._names.add(slot, {squash(tool.name), squash(tool.qualified)})
        self._ranker.add(slot, tool)
        self._read_texts([slot])
        self._telling.clear()
        fresh = set(_distinctive_words(tool))
        self._terms.setdefault(tool.backend, Counter()).update(fresh)
        self._documents.update(fresh)
        return slot

    def _read_texts(self, slots: Sequence[int]) -> None:
        for slot in slots if self._vectors is not None else ():
            tool = self._tools[slot]
            if tool is not None and self._vectors is not None:
                self._vectors.add(slot, self._texts(tool))

    def _bury(self, backend: str, names: Sequence[str]) -> None:
        """These tools are found no more; `_clear` forgets them."""
        for name in names:
            slot = self._slots[backend].pop(name)
            tool = self._tools[slot]
            assert tool is not None  # noqa: S101 - a slot that has a name is in use
            if self._qualified.get(tool.qualified) == slot:
                del self._qualified[tool.qualified]
            self._tools[slot] = None
            self._alive[slot] = False
            self._dead.append((slot, tool))

    def _clear(self, dead: Sequence[tuple[int, Tool]]) -> Iterator[None]:
        """Take buried tools out of every list, in steps; their slots are free at the end."""
        self._telling.clear()
        slots = [slot for slot, _ in dead]
        for start in range(0, len(dead), STEP):
            for _, tool in dead[start : start + STEP]:
                self._forget_terms(tool)
            if self._vectors is not None:
                self._vectors.remove(slots[start : start + STEP])
            yield
        self._names.remove(slots)
        yield from self._ranker.remove(slots, len(self._tools))
        self._free += slots

    def _forget_terms(self, tool: Tool) -> None:
        inside = self._terms.get(tool.backend, Counter())
        for word in set(_distinctive_words(tool)):
            for counts in (inside, self._documents):
                counts[word] -= 1
                if counts[word] <= 0:
                    del counts[word]
        if not inside:
            self._terms.pop(tool.backend, None)

    def _texts(self, tool: Tool) -> tuple[tuple[str, float], ...]:
        if self.ranking == "classic":
            return ((f"{tool.name} {tool.description}"[:MAX_QUERY], 1.0),)
        return embedding_texts(tool)

    def _allowed(self, tag: str | None, capacity: int) -> NDArray[np.bool_]:
        alive = self._alive[:capacity]
        if tag is None:
            return alive
        tagged = np.fromiter((t is not None and tag in t.tags for t in self._tools), np.bool_, capacity)
        return alive & tagged

    def _meaning(self, text: str, vector: Floats | None, capacity: int) -> Floats | None:
        if self._vectors is None or self._embedder is None or not self._vectors.any():
            return None
        if vector is None:
            vector = self._embedder.encode([text[:MEANING_CHARS]])[0]
        return self._vectors.likeness(vector, capacity)

    def _lift(self, scores: Floats, usage: Mapping[str, int]) -> dict[int, float]:
        boosts: dict[int, float] = {}
        for name, uses in usage.items():
            slot = self._qualified.get(name)
            if slot is not None and uses > 0 and scores[slot] > 0:
                boosts[slot] = min(1.0 + USAGE_FACTOR * math.log1p(uses), USAGE_CAP)
                scores[slot] *= boosts[slot]
        return boosts

    def _pinned(self, text: str) -> dict[int, int]:
        """Slots whose name the query is: exactly, but for punctuation, or as the only one that begins so."""
        asked = squash(text)
        if not asked:
            return {}
        pins: dict[int, int] = {}
        begins: set[int] = set()
        plain = text.strip().lower()
        for name, slot in self._names.beginning(asked):
            tool = self._tools[slot]
            if tool is None:
                continue
            if name == asked:
                same = plain in (tool.name.lower(), tool.qualified.lower())
                pins[slot] = max(pins.get(slot, 0), _EXACT if same else _SQUASHED)
            begins.add(slot)
            if len(begins) > 1 and not pins:
                return {}
        if not pins and len(begins) == 1 and len(asked) >= _MIN_PREFIX:
            pins[begins.pop()] = _PREFIX
        return pins

    def _order(self, scores: Floats, pins: Mapping[int, int], limit: int) -> list[int]:
        matched = np.flatnonzero(scores > 0)
        if len(matched) > limit:
            bound = np.partition(scores[matched], len(matched) - limit)[len(matched) - limit]
            matched = matched[scores[matched] >= bound]
        slots = {int(slot) for slot in matched} | set(pins)
        return sorted(slots, key=lambda s: (-pins.get(s, 0), -float(scores[s]), self._name(s)))[:limit]

    def _name(self, slot: int) -> str:
        tool = self._tools[slot]
        return tool.qualified if tool is not None else ""

    def _hit(
        self,
        slot: int,
        scores: Floats,
        ranked: Ranked,
        pins: Mapping[int, int],
        boosts: Mapping[int, float],
    ) -> Hit:
        tool = self._tools[slot]
        assert tool is not None  # noqa: S101 - `allowed` holds only slots in use
        why: dict[str, Any] = {name: round(float(s[slot]), 4) for name, s in ranked.signals.items()}
        if slot in boosts:
            why["usage"] = round(boosts[slot], 3)
        if slot in pins:
            why["name"] = {_EXACT: "exact", _SQUASHED: "exact", _PREFIX: "unique prefix"}[pins[slot]]
        return Hit(tool, float(scores[slot]), why)

    def _try_also(self, hits: Sequence[Hit], text: str) -> dict[str, list[str]]:
        asked = set(plain_tokens(text))
        return {
            backend: words
            for backend in dict.fromkeys(hit.tool.backend for hit in hits)
            if (words := self._distinctive(backend, asked))
        }

    def _distinctive(self, backend: str, asked: set[str]) -> list[str]:
        """The terms of a backend that tell it from the others: by IDF, and common inside it."""
        ranked = self._telling.get(backend)
        if ranked is None:
            ranked = self._telling[backend] = self._rank_terms(backend)
        return [word for word in ranked if word not in asked][:DISTINCTIVE]

    def _rank_terms(self, backend: str) -> list[str]:
        total = max(1, len(self))
        scored: list[tuple[float, str]] = []
        for word, inside in self._terms.get(backend, Counter()).items():
            if inside > 0:
                df = self._documents[word]
                idf = math.log((total - df + 0.5) / (df + 0.5) + 1.0)
                scored.append((-math.log1p(inside) * idf, word))
        return [word for _, word in heapq.nsmallest(_TELLING, scored)]


def _distinctive_words(tool: Tool) -> list[str]:
    own = set(plain_tokens(tool.backend))
    return [
        w
        for w in plain_tokens(tool.name + " " + tool.description[:200])
        if 3 < len(w) <= _LONGEST_TERM and w.isalpha() and w not in STOP_WORDS and w not in own
    ]
