"""The documented ladder, `search.ranking: classic`: BM25, then trigrams, then spelling, fused with embeddings by RRF.

Each tier is used only when the one before it finds nothing. Its scores can be computed by hand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from heapq import nlargest

from gatemini.discovery.search.bm25 import K1, B, Bm25
from gatemini.discovery.search.fallbacks import TrigramMatch, correct
from gatemini.discovery.search.postings import Scores
from gatemini.discovery.search.ranked import Meaning, Ranked, likeness
from gatemini.discovery.search.words import MAX_TEXT, plain_tokens
from gatemini.model import Tool

NAME_WEIGHT = 2.0
RRF_K = 60
"""Reciprocal rank fusion: a tool at rank r of a list adds 1 / (K + r) (Cormack and others, 2009)."""
CANDIDATES = 30
"""Minimum number of candidates fused from each list."""


class ClassicRanker:
    """The ladder, over slots."""

    def __init__(self, *, k1: float = K1, b: float = B, name_weight: float = NAME_WEIGHT) -> None:
        self._bm25 = Bm25(k1, b)
        self._trigrams = TrigramMatch()
        self._name_weight = name_weight

    def add(self, slot: int, tool: Tool) -> None:
        frequencies: dict[str, float] = dict(Counter(plain_tokens(tool.description[:MAX_TEXT])))
        for token in plain_tokens(tool.name):
            frequencies[token] = frequencies.get(token, 0.0) + self._name_weight
        self._bm25.add(slot, frequencies)
        self._trigrams.add(slot, tool)

    def remove(self, slot: int, tool: Tool) -> None:
        self._bm25.remove(slot)
        self._trigrams.remove(slot)

    def rank(self, text: str, allowed: AbstractSet[int], meaning: Meaning | None, limit: int) -> Ranked:
        terms = plain_tokens(text)
        tier, did_you_mean = "bm25", None
        scores = self._bm25_scores(terms, allowed)
        if not scores:
            tier, scores = "trigram", _only(self._trigrams.scores(terms), allowed)
        if not scores:
            corrected = correct(terms, self._bm25.postings.terms())
            scores = self._bm25_scores(corrected or (), allowed)
            tier = "spelling" if scores else "none"
            did_you_mean = " ".join(corrected) if corrected and scores else None
        signals = {tier: scores}
        if meaning is not None:
            signals["meaning"] = likeness(meaning, allowed)
            scores = _fuse([scores, signals["meaning"]], max(CANDIDATES, limit))
        return Ranked(scores, tier, did_you_mean, signals)

    def _bm25_scores(self, terms: Sequence[str], allowed: AbstractSet[int]) -> Scores:
        return _only(self._bm25.scores(Counter(terms)), allowed)


def _only(scores: Scores, allowed: AbstractSet[int]) -> Scores:
    return {slot: score for slot, score in scores.items() if slot in allowed}


def _fuse(lists: Sequence[Scores], candidates: int) -> Scores:
    """Fuse the best `candidates` of each list by reciprocal rank; equal scores share a rank."""
    total: Scores = {}
    for scores in lists:
        rank, last = 0, None
        for place, (slot, score) in enumerate(
            nlargest(candidates, scores.items(), key=lambda kv: (kv[1], -kv[0])), 1
        ):
            if score != last:
                rank, last = place, score
            total[slot] = total.get(slot, 0.0) + 1.0 / (RRF_K + rank)
    return total
