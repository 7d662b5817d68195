"""Repair of query words that no tool contains, one word at a time.

An empty result is the wrong trigger for repair: in a large catalog almost every query hits something. So each unknown
word is looked up by itself: as an abbreviation, a compound of known words, a misspelling.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rapidfuzz.distance import OSA

from gatemini.discovery.search.lexicon import ENGLISH, SHORT_FORMS
from gatemini.discovery.search.postings import Postings
from gatemini.discovery.search.words import stem

_MIN_PIECE = 2
_MAX_PIECE = 18
_MAX_COMPOUND = 48
_CANDIDATES = 64
"""Vocabulary words compared letter by letter, chosen by shared letter pairs."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """Stems to search for instead, each with its share of the weight; `shown` is the text for `did_you_mean`."""

    words: dict[str, float]
    shown: str | None = None


class Vocabulary:
    """The stemmed words of all tools, found by spelling.

    `count` returns the number of tools with a word, `named` the number of names with it.
    """

    def __init__(self, count: Callable[[str], int], named: Callable[[str], int]) -> None:
        self._count = count
        self._named = named
        self._pairs = Postings()
        self._words: list[str] = []
        self._slots: dict[str, int] = {}
        self._free: list[int] = []
        self._written: dict[str, str] = {}

    def add(self, words: Iterable[str], written: Iterable[str]) -> None:
        """Add stemmed `words`; `written` are unstemmed words, one of which is shown for its stem."""
        missing = set(words)
        for word in written if missing else ():
            if stem(word) in missing:
                self._written.setdefault(stem(word), word)
        for word in missing:
            if word in self._slots:
                continue
            if self._free:
                slot = self._free.pop()
                self._words[slot] = word
            else:
                slot = len(self._words)
                self._words.append(word)
            self._slots[word] = slot
            self._pairs.add(slot, dict.fromkeys(_letter_pairs(word), 1.0))

    def remove(self, words: Iterable[str]) -> None:
        """Forget stemmed words that left the catalog."""
        for word in words:
            self._written.pop(word, None)
            slot = self._slots.pop(word)
            self._pairs.remove(slot)
            self._free.append(slot)

    def repair(self, word: str) -> Repaired | None:
        """Return what an unknown `word` (folded, not stemmed) probably means, or None.

        A known English word that no tool contains is not taken for a misspelling of one that some tool contains.
        """
        expanded = self.expand(word)
        if expanded:
            return Repaired(dict.fromkeys(expanded, 1.0))
        pieces = self._split(word) if len(word) >= 5 else None
        if pieces is not None:
            return self._compound(pieces)
        return self._misspelt(word) if stem(word) not in ENGLISH else None

    def expand(self, word: str) -> list[str]:
        """Return the stems a known short form also means, as far as the catalog has them."""
        return [s for s in SHORT_FORMS.get(word, ()) if self._count(s)]

    def _compound(self, pieces: list[str]) -> Repaired:
        meant: dict[str, float] = {}
        for piece in pieces:
            if self._count(stem(piece)):
                meant[stem(piece)] = 1.0
            for more in self.expand(piece):
                meant.setdefault(more, 0.9)
        return Repaired(meant, " ".join(pieces))

    def _split(self, word: str) -> list[str] | None:
        """Split `word` into the fewest, most common known pieces, each part of some tool's name."""
        if len(word) > _MAX_COMPOUND or not word.isalnum():
            return None
        best: list[tuple[float, list[str]] | None] = [None] * (len(word) + 1)
        best[0] = (0.0, [])
        for end in range(_MIN_PIECE, len(word) + 1):
            for start in range(max(0, end - _MAX_PIECE), end - _MIN_PIECE + 1):
                before = best[start]
                if before is None:
                    continue
                cost = self._piece_cost(word[start:end])
                if cost is None:
                    continue
                total = before[0] + cost
                held = best[end]
                if held is None or total < held[0]:
                    best[end] = (total, [*before[1], word[start:end]])
        found = best[len(word)]
        return found[1] if found is not None and len(found[1]) > 1 else None

    def _piece_cost(self, piece: str) -> float | None:
        uses = self._named(stem(piece))
        if len(piece) <= 3:
            if self.expand(piece):
                return 1.6
            return 1.4 + 2.0 / uses if uses >= 3 else None
        if uses:
            return 1.0 + 0.5 / uses
        return 1.5 if self.expand(piece) else None

    def _misspelt(self, word: str) -> Repaired | None:
        """Return the known words that differ least."""
        if len(word) < 3:
            return None
        scored: list[tuple[float, str]] = []
        for wanted in {word, stem(word)}:
            bound = 1 if len(wanted) <= 4 else 2 if len(wanted) <= 9 else 3
            for candidate in self._similar(wanted):
                if len(candidate) < 3:
                    continue
                distance = OSA.distance(wanted, candidate, score_cutoff=bound)
                if distance > bound or distance >= len(candidate) / 2:
                    continue
                if len(wanted) == 3 and sorted(wanted) != sorted(candidate):
                    continue  # with three letters only a swap is surely a misspelling
                if len(wanted) <= 4 and candidate[0] != wanted[0]:
                    continue  # `zone` is no slip for `one`
                cost = distance + (0.0 if candidate[0] == wanted[0] else 0.7)
                cost -= 0.08 * min(5.0, math.log2(1 + self._count(candidate)))
                cost -= 0.06 * min(4.0, math.log2(1 + self._named(candidate)))
                scored.append((cost, candidate))
        if not scored:
            return None
        scored.sort()
        meant: dict[str, float] = {}
        for cost, candidate in scored:
            if cost > scored[0][0] + 0.35 or len(meant) == 3:
                break
            meant.setdefault(candidate, 0.9 if not meant else 0.5)
        closest = scored[0][1]
        return Repaired(meant, self._written.get(closest, closest))

    def _similar(self, word: str) -> list[str]:
        """Return known words that share letter pairs with `word`, the most alike first, at most `_CANDIDATES`."""
        shared: Counter[int] = Counter()
        for pair in dict.fromkeys(_letter_pairs(word)):
            shared.update(self._pairs.get(pair).keys())
        # Two words that share n pairs of l each are alike by n / l; the longer one counts.
        least = max(1, (len(word) + 1) // 4)
        near = [slot for slot, count in shared.items() if count >= least]
        near.sort(key=lambda slot: (-shared[slot], slot))
        found = (self._words[slot] for slot in near[:_CANDIDATES])
        return [known for known in found if abs(len(known) - len(word)) <= 3]


def _letter_pairs(word: str) -> list[str]:
    padded = f"^{word}$"
    return [padded[i : i + 2] for i in range(len(padded) - 1)]
