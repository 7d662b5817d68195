"""Inverted lists (term → slots and weights) that grow and shrink in place.

A slot is a document's number in the index. Adding or removing a backend costs what its own terms cost; nothing is
rebuilt. The lists are plain dicts: numpy would add 11 MB to every gateway, and at the size of real catalogs a query
spends less than two milliseconds in these loops.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Scores = dict[int, float]
"""Slot → score; slots without a score are left out."""

_EMPTY: Mapping[int, float] = {}


class Postings:
    """Which documents hold a term, and with what weight."""

    def __init__(self) -> None:
        self._lists: dict[str, dict[int, float]] = {}
        self._held: dict[int, tuple[str, ...]] = {}

    def __contains__(self, term: object) -> bool:
        return term in self._lists

    def terms(self) -> Iterable[str]:
        return self._lists.keys()

    def get(self, term: str) -> Mapping[int, float]:
        """Return the weight of `term` in each slot that holds it."""
        return self._lists.get(term, _EMPTY)

    def count(self, term: str) -> int:
        """Return the number of documents that hold `term`."""
        return len(self.get(term))

    def add(self, slot: int, weights: Mapping[str, float]) -> list[str]:
        """Add a document; return the terms that no document had before."""
        fresh = [term for term in weights if term not in self._lists]
        for term, weight in weights.items():
            self._lists.setdefault(term, {})[slot] = weight
        self._held[slot] = tuple(weights)
        return fresh

    def remove(self, slot: int) -> list[str]:
        """Remove a document; return the terms that no document has any more."""
        lost: list[str] = []
        for term in self._held.pop(slot):
            slots = self._lists[term]
            del slots[slot]
            if not slots:
                del self._lists[term]
                lost.append(term)
        return lost
