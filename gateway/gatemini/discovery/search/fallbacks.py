"""Tiers 2 and 3 of the classic ladder: letter trigrams, then spelling correction.

Each tier is used only when the one before it finds nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from gatemini.discovery.search.postings import Postings, Scores
from gatemini.discovery.search.words import squash
from gatemini.model import Tool

DESCRIPTION_SHARE = 0.5
"""Weight of a trigram found only in the description; one in the name has weight 1."""
ENOUGH = 0.5
"""Share of the query's trigrams that a match holds at least."""
_MAX_DESCRIPTION = 1_000


class TrigramMatch:
    """Tools by the letter trigrams of their squashed names and descriptions."""

    def __init__(self) -> None:
        self._postings = Postings()

    def add(self, slot: int, tool: Tool) -> None:
        weights = dict.fromkeys(_windows(squash(tool.description[:_MAX_DESCRIPTION])), DESCRIPTION_SHARE)
        weights.update(dict.fromkeys(_windows(squash(tool.name)), 1.0))
        self._postings.add(slot, weights)

    def remove(self, slot: int) -> None:
        self._postings.remove(slot)

    def scores(self, terms: Sequence[str]) -> Scores:
        """Return the weighted share of the terms' trigrams that each tool holds, from `ENOUGH` up."""
        trigrams_wanted = dict.fromkeys(t for term in terms for t in _windows(squash(term)))
        sums: Scores = {}
        for trigram in trigrams_wanted:
            for slot, weight in self._postings.get(trigram).items():
                sums[slot] = sums.get(slot, 0.0) + weight
        return {
            slot: total / len(trigrams_wanted)
            for slot, total in sums.items()
            if total >= ENOUGH * len(trigrams_wanted)
        }


def edits_allowed(term: str) -> int:
    """Return the edits that a term may need: 1 to length 4, 2 to length 12, 3 beyond."""
    return 1 if len(term) <= 4 else 2 if len(term) <= 12 else 3


def correct(terms: Sequence[str], vocabulary: Iterable[str]) -> list[str] | None:
    """Replace each unknown term by its closest known word (fewest edits, then by name); None if nothing changes."""
    known = sorted(vocabulary)
    present = set(known)
    corrected = [term if term in present else _closest(term, known) or term for term in terms]
    return corrected if corrected != list(terms) else None


def _closest(term: str, known: list[str]) -> str | None:
    found = process.extractOne(term, known, scorer=Levenshtein.distance, score_cutoff=edits_allowed(term))
    return found[0] if found is not None else None


def _windows(squashed: str) -> list[str]:
    return [squashed[i : i + 3] for i in range(len(squashed) - 2)]
