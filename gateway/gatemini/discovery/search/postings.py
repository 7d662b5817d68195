"""Inverted lists (term → slots and weights) that grow and shrink in place.

A slot is a document's number in the index. Adding or removing a backend costs what its own terms cost; nothing is
rebuilt. The lists are standard-library arrays: numpy would add 11 MB to every gateway, and at the size of real
catalogs a query spends less than two milliseconds in these loops.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import islice

STEP = 256
"""Terms that one step of a removal looks at: a few milliseconds."""

Scores = dict[int, float]
"""Slot → score; slots without a score are left out."""

_EMPTY: tuple[array[int], array[float]] = (array("i"), array("f"))


class Postings:
    """Which documents hold a term, and with what weight."""

    def __init__(self) -> None:
        self._lists: dict[str, tuple[array[int], array[float]]] = {}

    def __contains__(self, term: object) -> bool:
        return term in self._lists

    def terms(self) -> Iterable[str]:
        return self._lists.keys()

    def get(self, term: str) -> tuple[array[int], array[float]]:
        """The slots that hold `term` and its weight in each, as two arrays of one length."""
        return self._lists.get(term, _EMPTY)

    def count(self, term: str) -> int:
        """Number of documents that hold `term`."""
        return len(self.get(term)[0])

    def add(self, slot: int, weights: Mapping[str, float]) -> list[str]:
        """Add a document; return the terms that no document had before."""
        fresh: list[str] = []
        for term, weight in weights.items():
            found = self._lists.get(term)
            if found is None:
                self._lists[term] = (array("i", (slot,)), array("f", (weight,)))
                fresh.append(term)
            else:
                found[0].append(slot)
                found[1].append(weight)
        return fresh

    def remove(self, gone: Set[int], terms: Iterable[str]) -> Iterator[list[str]]:
        """Remove the slots `gone` from the lists of `terms`; each step yields the terms that became empty."""
        rest = iter(terms)
        while some := list(islice(rest, STEP)):
            yield [term for term in some if self._shrink(term, gone)]

    def _shrink(self, term: str, gone: Set[int]) -> bool:
        slots, weights = self.get(term)
        kept = [(slot, weight) for slot, weight in zip(slots, weights, strict=True) if slot not in gone]
        if kept:
            self._lists[term] = (array("i", [s for s, _ in kept]), array("f", [w for _, w in kept]))
            return False
        return self._lists.pop(term, None) is not None
