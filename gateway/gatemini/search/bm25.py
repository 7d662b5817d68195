"""Okapi BM25 over growing postings: k1, b and the IDF that spec 3.2 names.

    IDF(t) = ln((N - df + 0.5) / (df + 0.5) + 1)
    score  = sum over query terms of IDF(t) * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / average))

(Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009; the +1 inside the logarithm keeps it
positive.) A term frequency may be a weighted sum over fields (BM25F with one normalisation). The arithmetic is
held to `rank-bm25` by a test; that package itself rebuilds everything at each change. Above: `classic.py`,
`best.py`. Below: `postings.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from gatemini.search.postings import Floats, Postings

K1 = 1.2
B = 0.75


class Bm25:
    """Documents by slot; `scores` answers for all slots at once."""

    def __init__(self, k1: float = K1, b: float = B) -> None:
        self.k1 = k1
        self.b = b
        self.postings = Postings()
        self.count = 0
        self._lengths: Floats = np.zeros(0, dtype=np.float32)
        self._total = 0.0

    def add(self, slot: int, frequencies: Mapping[str, float]) -> list[str]:
        """Put a document in: its (weighted) term frequencies. Answers the terms new to the vocabulary."""
        if slot >= len(self._lengths):
            grown = np.zeros(max(64, (slot + 1) * 3 // 2), dtype=np.float32)
            grown[: len(self._lengths)] = self._lengths
            self._lengths = grown
        length = float(sum(frequencies.values()))
        self._lengths[slot] = length
        self._total += length
        self.count += 1
        return self.postings.add(slot, frequencies)

    def remove(self, slots: Sequence[int], terms: Iterable[str]) -> Iterator[list[str]]:
        """Take documents out, in steps; `terms` are all they hold. A step answers terms that left the vocabulary."""
        gone = np.zeros(len(self._lengths), dtype=np.bool_)
        gone[list(slots)] = True
        self._total = max(0.0, self._total - float(self._lengths[gone].sum(dtype=np.float64)))
        self._lengths[gone] = 0.0
        self.count -= len(slots)
        return self.postings.remove_in_steps(gone, terms)

    def idf(self, terms: Sequence[str]) -> Floats:
        counts = np.fromiter((self.postings.count(t) for t in terms), dtype=np.float32, count=len(terms))
        return np.log((self.count - counts + 0.5) / (counts + 0.5) + 1.0).astype(np.float32)

    def scores(self, weights: Mapping[str, float], capacity: int) -> Floats:
        """Score of every slot below `capacity` for the query terms, each with its weight."""
        terms = list(weights)
        found = self.postings.gather(terms)
        if not len(found.slots):
            return np.zeros(capacity, dtype=np.float32)
        factors = self.idf(terms) * np.fromiter(weights.values(), dtype=np.float32, count=len(terms))
        average = self._total / self.count if self.count and self._total > 0 else 1.0
        norm = self.k1 * (1.0 - self.b + self.b * self._lengths[found.slots] / average)
        parts = factors[found.which] * found.weights * (self.k1 + 1.0) / (found.weights + norm)
        return np.bincount(found.slots, weights=parts, minlength=capacity)[:capacity].astype(np.float32)
