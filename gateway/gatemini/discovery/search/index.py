"""The search over all tools: what is indexed, which ranking is used, what a search returns.

Synchronous and without I/O. A change costs what the changed backend costs, and may be made in steps. Cosines of the
query's meaning are computed in the model's own process (`embedding.py`) and passed to `search`.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

from gatemini.discovery.search.best import BestRanker, embedding_texts
from gatemini.discovery.search.bm25 import K1, B
from gatemini.discovery.search.classic import NAME_WEIGHT, ClassicRanker
from gatemini.discovery.search.postings import Scores
from gatemini.discovery.search.ranked import Meaning, Ranked, Ranker
from gatemini.discovery.search.words import FUNCTION_WORDS, MAX_QUERY, plain_tokens, squash
from gatemini.model import Tool

Ranking = Literal["best", "classic"]

USAGE_FACTOR = 0.3
USAGE_CAP = 2.0
"""Highest boost that uses can give a score (about 27 uses)."""
TRIED = 3
"""Backends, the best ones, in `try_also`."""
DISTINCTIVE = 3
"""Terms per backend in `try_also`."""
_TELLING = 24
"""Terms ranked per backend: more than the words of one query remove."""
_LONGEST_TERM = 30
"""Longest term in `try_also`: longer ones are no words to search with."""
TOOLS_AT_ONCE = 50
"""Tools indexed in one step (5 to 10 ms). A smaller backend is searchable as soon as it has listed."""
_EXACT, _SQUASHED = 2, 1


@dataclass(frozen=True, slots=True)
class Hit:
    """A tool found; `why` has the value of each signal, for `gatemini search --explain`."""

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


class SearchIndex:
    """All tools, by slot; the slot of a tool that is gone is used again."""

    def __init__(
        self,
        ranking: Ranking = "best",
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
        self._alive: set[int] = set()
        self._free: list[int] = []
        self._slots: dict[str, dict[str, int]] = {}
        self._qualified: dict[str, int] = {}
        self._named: dict[str, set[int]] = {}
        self._terms: dict[str, Counter[str]] = {}
        self._documents: Counter[str] = Counter()
        self._distinctive_terms: dict[str, list[str]] = {}  # emptied by every change
        self._waiting: dict[str, dict[str, Tool]] = {}  # tools to index, by backend and name
        self._new: set[str] = set()
        self._dead: list[tuple[int, Tool]] = []

    def __len__(self) -> int:
        return len(self._alive)

    @property
    def tools(self) -> Sequence[Tool | None]:
        """The tools by slot; None where a slot is free."""
        return self._tools

    # ---- changes -------------------------------------------------------------------------------------

    def expect(self, backend: str, tools: Sequence[Tool]) -> None:
        """Note that `tools` are all that `backend` has now; `work` indexes them.

        Tools that are gone are not found from now on; changed ones are found as they were until they are indexed.
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
        """Do a few milliseconds of what `expect` noted; return False once nothing is left to do."""
        if self._waiting:
            backend, tools = next(iter(self._waiting.items()))
            for name in list(islice(tools, TOOLS_AT_ONCE)):
                self._bury(backend, [name] if name in self._slots[backend] else [])
                self._slots[backend][name] = self._take(tools.pop(name))
            if not tools:
                del self._waiting[backend]
                self._new.discard(backend)
        else:
            for slot, tool in self._dead[:TOOLS_AT_ONCE]:
                self._clear(slot, tool)
            del self._dead[:TOOLS_AT_ONCE]
        return bool(self._waiting or self._dead)

    def incomplete(self) -> list[str]:
        """Return the new backends that are not completely indexed yet."""
        return sorted(self._new)

    def replace(self, backend: str, tools: Sequence[Tool]) -> None:
        """Make `tools` all that `backend` has, at once; unchanged ones stay as they are."""
        self.expect(backend, tools)
        while self.work():
            pass

    def follow(self, backend: str, tools: Sequence[Tool] | None) -> None:
        """Index a change at once, as a listener of the registry."""
        self.replace(backend, tools or ())

    def texts(self, tool: Tool) -> tuple[tuple[str, float], ...]:
        """Return the texts that make the tool's vector, each with its weight."""
        if self.ranking == "classic":
            return ((f"{tool.name} {tool.description}"[:MAX_QUERY], 1.0),)
        return embedding_texts(tool)

    def meaning_text(self, query: str) -> str:
        """Return the text whose vector is compared with those of the tools."""
        return self._ranker.widened(query) if isinstance(self._ranker, BestRanker) else query

    # ---- search --------------------------------------------------------------------------------------

    def search(
        self,
        query: str,
        *,
        limit: int = 10,
        tag: str | None = None,
        usage: Mapping[str, int] | None = None,
        meaning: Meaning | None = None,
        shows: Callable[[Tool], bool] | None = None,
    ) -> SearchResult:
        """Return the best `limit` tools for `query`, which may be any text at all.

        `usage` is uses by qualified name; `meaning` is the cosine of the query with each tool, by slot.
        `shows` says which tools may be found; others take no part in anything that is returned.
        """
        text = query[:MAX_QUERY]
        if not self._alive or not text.strip() or limit < 1:
            return SearchResult([], 0)
        allowed: AbstractSet[int] = self._alive if tag is None else self._tagged(tag)
        every = len(allowed)
        if shows is not None:
            allowed = {slot for slot in allowed if (t := self._tools[slot]) is not None and shows(t)}
        whole = len(allowed) == every
        ranked = self._ranker.rank(text, allowed, meaning, limit)
        scores = dict(ranked.scores)
        boosts = self._boost(scores, usage or {})
        pins = {slot: pin for slot, pin in self._pinned(text).items() if slot in allowed}
        hits = [self._hit(slot, scores, ranked, pins, boosts) for slot in self._order(scores, pins, limit)]
        return SearchResult(
            hits,
            len(scores.keys() | pins.keys()),
            None if pins or not whole else ranked.did_you_mean,  # a word of hidden tools
            self._try_also(hits, text, None if whole else allowed),
            "exact" if pins else ranked.tier,
        )

    def tags(self, shows: Callable[[Tool], bool] | None = None) -> list[str]:
        """Return all tags there are, or those of the tools that are shown; sorted."""
        tools = [tool for tool in self._tools if tool is not None]
        return sorted({tag for tool in tools if shows is None or shows(tool) for tag in tool.tags})

    # ---- inside --------------------------------------------------------------------------------------

    def _take(self, tool: Tool) -> int:
        if self._free:
            slot = self._free.pop()
            self._tools[slot] = tool
        else:
            slot = len(self._tools)
            self._tools.append(tool)
        self._alive.add(slot)
        self._qualified[tool.qualified] = slot
        for name in _squashed_names(tool):
            self._named.setdefault(name, set()).add(slot)
        self._ranker.add(slot, tool)
        self._distinctive_terms.clear()
        fresh = set(_distinctive_words(tool))
        self._terms.setdefault(tool.backend, Counter()).update(fresh)
        self._documents.update(fresh)
        return slot

    def _bury(self, backend: str, names: Sequence[str]) -> None:
        """Make tools unfindable at once; `work` removes them from the lists later."""
        for name in names:
            slot = self._slots[backend].pop(name)
            tool = self._tools[slot]
            assert tool is not None  # noqa: S101 - a slot that has a name is in use
            if self._qualified.get(tool.qualified) == slot:
                del self._qualified[tool.qualified]
            self._tools[slot] = None
            self._alive.discard(slot)
            self._dead.append((slot, tool))

    def _clear(self, slot: int, tool: Tool) -> None:
        """Remove a buried tool from every list, and free its slot."""
        self._distinctive_terms.clear()
        for name in _squashed_names(tool):
            self._named[name].discard(slot)
            if not self._named[name]:
                del self._named[name]
        self._forget_terms(tool)
        self._ranker.remove(slot, tool)
        self._free.append(slot)

    def _forget_terms(self, tool: Tool) -> None:
        inside = self._terms.get(tool.backend, Counter())
        for word in set(_distinctive_words(tool)):
            for counts in (inside, self._documents):
                counts[word] -= 1
                if counts[word] <= 0:
                    del counts[word]
        if not inside:
            self._terms.pop(tool.backend, None)

    def _tagged(self, tag: str) -> set[int]:
        tagged = ((slot, self._tools[slot]) for slot in self._alive)
        return {slot for slot, tool in tagged if tool is not None and tag in tool.tags}

    def _boost(self, scores: Scores, usage: Mapping[str, int]) -> dict[int, float]:
        """Raise the scores of used tools in place; return the factors by slot."""
        boosts: dict[int, float] = {}
        for name, uses in usage.items():
            slot = self._qualified.get(name)
            if slot is not None and uses > 0 and slot in scores:
                boosts[slot] = min(1.0 + USAGE_FACTOR * math.log1p(uses), USAGE_CAP)
                scores[slot] *= boosts[slot]
        return boosts

    def _pinned(self, text: str) -> dict[int, int]:
        """Return slots whose name equals the query, with the strength of the match."""
        plain = text.strip().lower()
        pins: dict[int, int] = {}
        for slot in self._named.get(squash(text), ()):
            tool = self._tools[slot]
            if tool is not None:
                pins[slot] = _EXACT if plain in (tool.name.lower(), tool.qualified.lower()) else _SQUASHED
        return pins

    def _order(self, scores: Scores, pins: Mapping[int, int], limit: int) -> list[int]:
        bound = min(heapq.nlargest(limit, scores.values()), default=0.0)
        slots = {slot for slot, score in scores.items() if score >= bound} | pins.keys()
        return sorted(slots, key=lambda s: (-pins.get(s, 0), -scores.get(s, 0.0), self._name(s)))[:limit]

    def _name(self, slot: int) -> str:
        tool = self._tools[slot]
        return tool.qualified if tool is not None else ""

    def _hit(
        self,
        slot: int,
        scores: Scores,
        ranked: Ranked,
        pins: Mapping[int, int],
        boosts: Mapping[int, float],
    ) -> Hit:
        tool = self._tools[slot]
        assert tool is not None  # noqa: S101 - only slots in use are allowed
        why: dict[str, Any] = {name: round(s.get(slot, 0.0), 4) for name, s in ranked.signals.items()}
        if slot in boosts:
            why["usage"] = round(boosts[slot], 3)
        if slot in pins:
            why["name"] = "exact"
        return Hit(tool, scores.get(slot, 0.0), why)

    def _try_also(
        self, hits: Sequence[Hit], text: str, among: AbstractSet[int] | None = None
    ) -> dict[str, list[str]]:
        """Return terms to search for by backend; with `among` only those that these tools have."""
        in_query = set(plain_tokens(text))
        backends = list(dict.fromkeys(hit.tool.backend for hit in hits))[:TRIED]
        found = {backend: self._distinctive(backend, in_query) for backend in backends}
        if among is not None:
            tools = [tool for slot in among if (tool := self._tools[slot]) is not None]
            shown = {b: {w for t in tools if t.backend == b for w in _distinctive_words(t)} for b in backends}
            found = {b: [word for word in words if word in shown[b]] for b, words in found.items()}
        return {backend: words for backend, words in found.items() if words}

    def _distinctive(self, backend: str, in_query: set[str]) -> list[str]:
        """Return the terms that are common in this backend and rare in others, without those of the query."""
        ranked = self._distinctive_terms.get(backend)
        if ranked is None:
            ranked = self._distinctive_terms[backend] = self._rank_terms(backend)
        return [word for word in ranked if word not in in_query][:DISTINCTIVE]

    def _rank_terms(self, backend: str) -> list[str]:
        total = max(1, len(self))
        scored: list[tuple[float, str]] = []
        for word, inside in self._terms.get(backend, Counter()).items():
            if inside > 0:
                df = self._documents[word]
                idf = math.log((total - df + 0.5) / (df + 0.5) + 1.0)
                scored.append((-math.log1p(inside) * idf, word))
        return [word for _, word in heapq.nsmallest(_TELLING, scored)]


def _squashed_names(tool: Tool) -> set[str]:
    return {squash(tool.name), squash(tool.qualified)} - {""}


def _distinctive_words(tool: Tool) -> list[str]:
    own = set(plain_tokens(tool.backend))
    return [
        w
        for w in plain_tokens(tool.name + " " + tool.description[:200])
        if 3 < len(w) <= _LONGEST_TERM and w.isalpha() and w not in FUNCTION_WORDS and w not in own
    ]
