"""The documented ladder, `search.ranking: classic` (spec 3.2): BM25, trigrams, spelling, RRF with embeddings.

Each tier is used only when the one before finds nothing. Kept exactly as documented, for those who want scores
they can compute by hand. Above: `index.py`. Below: `bm25.py`, `fallbacks.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from gatemini.model import Tool
from gatemini.search.bm25 import K1, B, Bm25
from gatemini.search.fallbacks import TrigramMatch, correct
from gatemini.search.postings import Floats
from gatemini.search.ranked import Ranked
from gatemini.search.words import MAX_TEXT, plain_tokens

NAME_WEIGHT = 2.0
RRF_K = 60
"""Reciprocal rank fusion: a tool at rank r of a list adds 1 / (K + r) (Cormack and others, 2009)."""
CANDIDATES = 30
"""At least so many of each list are fused."""


class ClassicRanker:
    """The ladder, over slots."""

    def __init__(self, *, k1: float = K1, b: float = B, name_weight: float = NAME_WEIGHT) -> None:
        self._bm25 = Bm25(k1, b)
        self._trigrams = TrigramMatch()
        self._name_weight = name_weight
        self._held: dict[int, tuple[str, ...]] = {}

    def add(self, slot: int, tool: Tool) -> None:
        frequencies: dict[str, float] = dict(Counter(plain_tokens(tool.description[:MAX_TEXT])))
        for token in plain_tokens(tool.name):
            frequencies[token] = frequencies.get(token, 0.0) + self._name_weight
        self._bm25.add(slot, frequencies)
        self._trigrams.add(slot, tool)
        self._held[slot] = tuple(frequencies)

    def remove(self, slots: Sequence[int], capacity: int) -> Iterator[None]:
        for _ in self._bm25.remove(slots, {t for slot in slots for t in self._held.pop(slot)}):
            yield
        yield from self._trigrams.remove(slots, capacity)

    def rank(self, text: str, allowed: NDArray[np.bool_], meaning: Floats | None, limit: int) -> Ranked:
        terms = plain_tokens(text)
        capacity = len(allowed)
        scores = self._lexical(terms, allowed)
        tier, did_you_mean = "bm25", None
        if not scores.any():
            scores = np.where(allowed, self._trigrams.scores(terms, capacity), 0.0).astype(np.float32)
            tier = "trigram"
        if not scores.any():
            corrected = correct(terms, self._bm25.postings.terms())
            if corrected is not None:
                scores, tier = self._lexical(corrected, allowed), "spelling"
                did_you_mean = " ".join(corrected) if scores.any() else None
        if not scores.any():
            tier = "none"
        signals = {tier: scores}
        if meaning is not None:
            signals["meaning"] = meaning
            scores = _fuse(
                [scores, np.where(allowed, meaning, 0.0).astype(np.float32)], max(CANDIDATES, limit)
            )
        return Ranked(scores, tier, did_you_mean, signals, tuple(dict.fromkeys(terms)))

    def _lexical(self, terms: Sequence[str], allowed: NDArray[np.bool_]) -> Floats:
        asked = {term: float(n) for term, n in Counter(terms).items()}
        scores = self._bm25.scores(asked, len(allowed))
        return np.where(allowed, scores, 0.0).astype(np.float32)


def _fuse(lists: Sequence[Floats], candidates: int) -> Floats:
    """Reciprocal rank fusion of the best `candidates` of each list; equal scores share a rank."""
    total = np.zeros(len(lists[0]), dtype=np.float32)
    for scores in lists:
        order = np.argsort(-scores, kind="stable")[:candidates]
        order = order[scores[order] > 0]
        for slot in order:
            rank = 1 + int(np.count_nonzero(scores > scores[slot]))
            total[slot] += 1.0 / (RRF_K + rank)
    return total
