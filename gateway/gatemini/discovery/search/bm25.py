"""Okapi BM25 over growing postings.

    IDF(t) = ln((N - df + 0.5) / (df + 0.5) + 1)
    score  = sum over query terms of IDF(t) * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / average))

(Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009; the +1 inside the logarithm keeps it
positive.) A term frequency may be a weighted sum over fields (BM25F with one normalisation).

The package `rank-bm25` is not used here because it imports numpy, rebuilds everything at each change and scores
every document for each term; a test compares the scores with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from gatemini.discovery.search.postings import Postings, Scores

K1 = 1.2
B = 0.75


class Bm25:
    """Documents by slot, scored against weighted query terms."""

    def __init__(self, k1: float = K1, b: float = B) -> None:
        self.k1 = k1
        self.b = b
        self.postings = Postings()
        self._lengths: dict[int, float] = {}
        self._total = 0.0

    @property
    def count(self) -> int:
        """Return the number of documents."""
        return len(self._lengths)

    def add(self, slot: int, frequencies: Mapping[str, float]) -> list[str]:
        """Add a document by its (weighted) term frequencies; return the terms new to the vocabulary."""
        self._lengths[slot] = length = float(sum(frequencies.values()))
        self._total += length
        return self.postings.add(slot, frequencies)

    def remove(self, slot: int) -> list[str]:
        """Remove a document; return the terms that left the vocabulary."""
        self._total -= self._lengths.pop(slot)
        return self.postings.remove(slot)

    def idf(self, term: str) -> float:
        count = self.postings.count(term)
        return math.log((self.count - count + 0.5) / (count + 0.5) + 1.0)

    def scores(self, weights: Mapping[str, float]) -> Scores:
        """Return the score of every document that holds a query term; `weights` has the weight of each term."""
        average = self._total / self.count if self._total > 0 else 1.0
        base, slope = self.k1 * (1.0 - self.b), self.k1 * self.b / average
        lengths = self._lengths
        scores: Scores = {}
        for term, weight in weights.items():
            factor = weight * self.idf(term) * (self.k1 + 1.0)
            for slot, tf in self.postings.get(term).items():
                scores[slot] = scores.get(slot, 0.0) + factor * tf / (tf + base + slope * lengths[slot])
        return scores
