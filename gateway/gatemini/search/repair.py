"""Query words that the catalog does not know, mended one by one.

An empty answer is the wrong moment to mend: in a large catalog almost every query hits something. So each word
that no tool has is looked at alone: a known abbreviation, a compound of known words, a misspelling, a beginning.
Above: `best.py`. Below: `words.py`, `postings.py`, rapidfuzz.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from rapidfuzz.distance import OSA

from gatemini.search.lexicon import ENGLISH, SHORT_FORMS
from gatemini.search.postings import Postings
from gatemini.search.words import stem

_MIN_PIECE = 2
_MAX_PIECE = 18
_MAX_COMPOUND = 48
_CANDIDATES = 64
"""Vocabulary words that are compared letter by letter; chosen by shared letter pairs."""


@dataclass(frozen=True, slots=True)
class Mended:
    """Words to ask for instead, each with its share of the weight; `shown` is what a person would read."""

    words: dict[str, float]
    shown: str | None = None


class Vocabulary:
    """The stemmed words of all tools, findable by spelling. `count` is in how many tools a word occurs."""

    def __init__(self, count: Callable[[str], int], named: Callable[[str], int]) -> None:
        self._count = count
        self._named = named
        self._pairs = Postings()
        self._words: list[str] = []
        self._slots: dict[str, int] = {}
        self._free: list[int] = []
        self._written: dict[str, str] = {}

    def add(self, words: Iterable[str], written: Iterable[str]) -> None:
        """Take in stemmed `words`; `written` are words as somebody wrote them, to be shown for a stem."""
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
        gone = np.zeros(len(self._words), dtype=np.bool_)
        pairs: set[str] = set()
        for word in words:
            slot = self._slots.pop(word, None)
            self._written.pop(word, None)
            if slot is not None:
                gone[slot] = True
                pairs.update(_letter_pairs(word))
                self._free.append(slot)
        self._pairs.remove(gone, pairs)

    def mend(self, word: str) -> Mended | None:
        """What an unknown `word` (folded, not stemmed) probably means, or None.

        A plain English word that no tool has is no slip of one that some tool has.
        """
        expanded = self._expand(word)
        if expanded is not None:
            return Mended(dict.fromkeys(expanded, 1.0))
        pieces = self._split(word) if len(word) >= 5 else None
        near, edits = self._misspelt(word) if stem(word) not in ENGLISH else (None, 0)
        # One wrong letter is likelier a slip than a compound of short pieces; two letters are not.
        if pieces is not None and (near is None or _is_convincing(pieces, edits)):
            return self._compound(pieces)
        if near is not None:
            return near
        return self._completed(word)

    def expand(self, word: str) -> list[str]:
        """The stems a known short form also stands for, where the catalog has them."""
        return self._expand(word) or []

    def _expand(self, word: str) -> list[str] | None:
        stems = [s for s in SHORT_FORMS.get(word, ()) if self._count(s)]
        return stems or None

    def _compound(self, pieces: list[str]) -> Mended:
        meant: dict[str, float] = {}
        for piece in pieces:
            if self._count(stem(piece)):
                meant[stem(piece)] = 1.0
            for more in self.expand(piece):
                meant.setdefault(more, 0.9)
        return Mended(meant, " ".join(pieces))

    def _split(self, word: str) -> list[str] | None:
        """`word` as the fewest, most common known pieces, each in some tool's name."""
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
            if piece in SHORT_FORMS and self._expand(piece):
                return 1.6
            return 1.4 + 2.0 / uses if uses >= 3 else None
        if uses:
            return 1.0 + 0.5 / uses
        return 1.5 if piece in SHORT_FORMS and self._expand(piece) else None

    def _misspelt(self, word: str) -> tuple[Mended | None, int]:
        """The known words that differ least, and in how many letters."""
        if len(word) < 3:
            return None, 0
        scored: list[tuple[float, str, int]] = []
        for asked in {word, stem(word)}:
            bound = 1 if len(asked) <= 4 else 2 if len(asked) <= 9 else 3
            for candidate in self._similar(asked):
                if len(candidate) < 3:
                    continue
                distance = OSA.distance(asked, candidate, score_cutoff=bound)
                if distance > bound or distance >= len(candidate) / 2:
                    continue
                if len(asked) == 3 and sorted(asked) != sorted(candidate):
                    continue  # of so short a word only a swap of letters is surely a slip
                cost = distance + (0.0 if candidate[0] == asked[0] else 0.7)
                cost -= 0.08 * min(5.0, float(np.log2(1 + self._count(candidate))))
                cost -= 0.06 * min(4.0, float(np.log2(1 + self._named(candidate))))
                scored.append((cost, candidate, distance))
        if not scored:
            return None, 0
        scored.sort()
        meant: dict[str, float] = {}
        for cost, candidate, _ in scored:
            if cost > scored[0][0] + 0.35 or len(meant) == 3:
                break
            meant.setdefault(candidate, 0.9 if not meant else 0.5)
        return Mended(meant, self._shown(scored[0][1])), scored[0][2]

    def _shown(self, word: str) -> str:
        return self._written.get(word, word)

    def _similar(self, word: str) -> list[str]:
        found = self._pairs.gather(list(dict.fromkeys(_letter_pairs(word))))
        if not len(found.slots):
            return []
        shared = np.bincount(found.slots, minlength=len(self._words))
        # Two words that share n pairs of l each are alike by n / l; the longer one counts.
        near = np.flatnonzero(shared >= max(1, (len(word) + 1) // 4))
        if len(near) > _CANDIDATES:
            near = near[np.argsort(-shared[near], kind="stable")[:_CANDIDATES]]
        return [self._words[i] for i in near if abs(len(self._words[i]) - len(word)) <= 3]

    def _completed(self, word: str) -> Mended | None:
        """Words that begin with `word`: the commonest few."""
        if len(word) < 3:
            return None
        begins = [w for w in self._similar_prefix(word) if w.startswith(word)]
        if not begins:
            return None
        begins.sort(key=lambda w: (-self._named(w), -self._count(w), w))
        return Mended({w: 0.8 if i == 0 else 0.5 for i, w in enumerate(begins[:3])}, self._shown(begins[0]))

    def _similar_prefix(self, word: str) -> list[str]:
        pairs = [f"^{word[0]}", *(word[i : i + 2] for i in range(len(word) - 1))]
        found = self._pairs.gather(pairs)
        if not len(found.slots) or not found.counts.all():
            return []
        shared = np.bincount(found.slots, minlength=len(self._words))
        return [self._words[i] for i in np.flatnonzero(shared >= len(set(pairs)))]


def _is_convincing(pieces: list[str], edits: int) -> bool:
    lengths = sorted(map(len, pieces))
    return len(pieces) == 2 and (lengths[0] >= 4 or (edits >= 2 and lengths[1] >= 4))


def _letter_pairs(word: str) -> list[str]:
    padded = f"^{word}$"
    return [padded[i : i + 2] for i in range(len(padded) - 1)]
