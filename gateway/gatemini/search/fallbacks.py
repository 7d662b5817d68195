"""Tiers 2 and 3 of the classic ladder: letter trigrams, then spelling correction.

Each is used only when the tier before found nothing (spec 3.2). Above: `classic.py`. Below: `postings.py`,
rapidfuzz.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from gatemini.model import Tool
from gatemini.search.postings import Floats, Postings
from gatemini.search.words import squash

DESCRIPTION_SHARE = 0.5
"""What a trigram found only in the description is worth against one in the name."""
ENOUGH = 0.5
"""Share of the query's trigrams a tool must have to be a match."""
_MAX_DESCRIPTION = 1_000


class TrigramMatch:
    """Tools by the letter trigrams of their squashed names and descriptions."""

    def __init__(self) -> None:
        self._postings = Postings()
        self._held: dict[int, tuple[str, ...]] = {}

    def add(self, slot: int, tool: Tool) -> None:
        weights = dict.fromkeys(_windows(squash(tool.description[:_MAX_DESCRIPTION])), DESCRIPTION_SHARE)
        weights.update(dict.fromkeys(_windows(squash(tool.name)), 1.0))
        self._postings.add(slot, weights)
        self._held[slot] = tuple(weights)

    def remove(self, slots: Sequence[int], capacity: int) -> Iterator[None]:
        """Take tools out, in steps."""
        gone = np.zeros(capacity, dtype=np.bool_)
        gone[list(slots)] = True
        terms = {t for slot in slots for t in self._held.pop(slot)}
        for _ in self._postings.remove_in_steps(gone, terms):
            yield

    def scores(self, terms: Sequence[str], capacity: int) -> Floats:
        """Share of the terms' trigrams each slot has, 0 below `ENOUGH`."""
        asked = list(dict.fromkeys(t for term in terms for t in _windows(squash(term))))
        if not asked:
            return np.zeros(capacity, dtype=np.float32)
        found = self._postings.gather(asked)
        sums = np.bincount(found.slots, weights=found.weights, minlength=capacity)[:capacity]
        shares = (sums / len(asked)).astype(np.float32)
        shares[shares < ENOUGH] = 0.0
        return shares


def edits_allowed(term: str) -> int:
    """1 edit to length 4, 2 to 12, 3 beyond."""
    return 1 if len(term) <= 4 else 2 if len(term) <= 12 else 3


def correct(terms: Sequence[str], vocabulary: Iterable[str]) -> list[str] | None:
    """Each unknown term as its closest known word (fewest edits, then by name); None if nothing changes."""
    known = sorted(vocabulary)
    present = set(known)
    corrected = [term if term in present else _closest(term, known) or term for term in terms]
    return corrected if corrected != list(terms) else None


def _closest(term: str, known: list[str]) -> str | None:
    found = process.extractOne(term, known, scorer=Levenshtein.distance, score_cutoff=edits_allowed(term))
    return found[0] if found is not None else None


def _windows(squashed: str) -> list[str]:
    return [squashed[i : i + 3] for i in range(len(squashed) - 2)]
