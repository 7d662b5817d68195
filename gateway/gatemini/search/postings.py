"""Inverted lists that grow and shrink in place, read by numpy without copying.

`term → (slots, weights)`, where a slot is a document's number in the index. Adding or removing a backend
costs what its own terms cost; nothing is ever rebuilt. Above: every ranker. Below: numpy.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Gathered:
    """The lists of some terms laid end to end; `which[i]` is the term that entry `i` belongs to."""

    slots: Ints
    weights: Floats
    which: Ints
    counts: Ints
    """Documents per term, zero for terms that are not there."""


class Postings:
    """Which documents hold a term, and with what weight."""

    def __init__(self) -> None:
        self._lists: dict[str, tuple[array[int], array[float]]] = {}

    def __contains__(self, term: object) -> bool:
        return term in self._lists

    def __len__(self) -> int:
        return len(self._lists)

    def terms(self) -> Iterable[str]:
        return self._lists.keys()

    def count(self, term: str) -> int:
        """In how many documents the term occurs."""
        found = self._lists.get(term)
        return len(found[0]) if found else 0

    def add(self, slot: int, weights: Mapping[str, float]) -> list[str]:
        """Put a document in; the terms nobody had before."""
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

    def remove(self, gone: NDArray[np.bool_], terms: Iterable[str]) -> list[str]:
        """Take the documents marked in `gone` (by slot) out of `terms`; the terms nobody has any more."""
        lost: list[str] = []
        for term in terms:
            found = self._lists.get(term)
            if found is None:
                continue
            slots, weights = found
            leaving = _marked(gone, slots)
            if len(leaving) > max(_SHORT, len(slots) // _FEW):
                left = ~gone[np.frombuffer(slots, dtype=np.int32)]
                slots = array("i", np.frombuffer(slots, dtype=np.int32)[left].tobytes())
                weights = array("f", np.frombuffer(weights, dtype=np.float32)[left].tobytes())
                self._lists[term] = (slots, weights)
                leaving = []
            # Few entries leave a list: the last ones take their places, so nothing is copied.
            for position in leaving:
                slots[position] = slots[-1]
                weights[position] = weights[-1]
                slots.pop()
                weights.pop()
            if not slots:
                del self._lists[term]
                lost.append(term)
        return lost

    def remove_in_steps(self, gone: NDArray[np.bool_], terms: Iterable[str]) -> Iterator[list[str]]:
        """The same, some terms at a time: whoever steps may do something else in between."""
        left = iter(terms)
        while some := list(islice(left, STEP)):
            yield self.remove(gone, some)

    def gather(self, terms: Sequence[str]) -> Gathered:
        """The lists of `terms` end to end, for one vectorised pass."""
        empty = (_NO_INTS, _NO_FLOATS)
        lists = [self._lists.get(term, empty) for term in terms]
        counts = np.fromiter((len(slots) for slots, _ in lists), dtype=np.int32, count=len(lists))
        if not counts.any():
            nothing = np.zeros(0, dtype=np.int32)
            return Gathered(nothing, np.zeros(0, dtype=np.float32), nothing, counts)
        # np.concatenate copies, so no view outlives this call and the arrays may grow again.
        slots = np.concatenate([np.frombuffer(s, dtype=np.int32) for s, _ in lists if len(s)])
        weights = np.concatenate([np.frombuffer(w, dtype=np.float32) for _, w in lists if len(w)])
        which = np.repeat(np.arange(len(lists), dtype=np.int32), counts)
        return Gathered(slots, weights, which, counts)


def _marked(gone: NDArray[np.bool_], slots: array[int]) -> list[int]:
    """Positions in `slots` whose slot is marked, last first."""
    if len(slots) <= _SHORT:
        return [i for i in range(len(slots) - 1, -1, -1) if gone[slots[i]]]
    found: list[int] = np.flatnonzero(gone[np.frombuffer(slots, dtype=np.int32)]).tolist()
    return found[::-1]


STEP = 256
"""Terms that one step of a removal looks at: a few milliseconds."""
_SHORT = 6
"""Below this a loop is faster than numpy."""
_FEW = 16
"""Where more than one entry in so many leaves a list, the list is copied without them."""
_NO_INTS: array[int] = array("i")
_NO_FLOATS: array[float] = array("f")
