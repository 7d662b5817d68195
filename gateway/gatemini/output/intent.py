"""Keeps the parts of an answer that speak of what the caller said it wants.

A part stays when more than 30 % of the intent's terms occur in it as whole tokens (of scripts without spaces, pairs of letters). Text is split into
paragraphs or groups of ten lines, JSON into array records or top-level branches.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from typing import Any

from msgspec import Raw

from gatemini.discovery.search.lexicon import FOREIGN_STOP_WORDS
from gatemini.discovery.search.words import STOP_WORDS, UNSPACED, is_unspaced, pairs, plain_tokens
from gatemini.output.json import lazy_json as lazy
from gatemini.output.json.json_text import lines

KEEP_SHARE = 0.3
MIN_PARAGRAPHS = 3
GROUP_LINES = 10
MOST_TERMS = 24
"""Words of an intent that are looked for: each is searched in all of the answer, on the event loop where that is small."""
NAMED_ROWS = 100
"""Records of which the names of fields are read."""
_PARAGRAPH = re.compile(r"\n[ \t\r]*\n\s*")
_BOUND = re.compile(
    r"(?:[<>]=?|\b(?:over|above|under|below|than|least|most|between|before|after|since|until))\s*+[^\w\s]?\d[\d.,:-]*+"
    r"(?:\s++(?:and|to)\s++[^\w\s]?\d[\d.,:-]*+)?",
    re.I,
)
"""`over 95`, `between 10 and 12`: the records that meet it are others than those that hold the number."""
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)")
"""Of JSON: four digits of a character, or one of `"\\/bfnrt`, of which none is a letter or digit."""


@dataclass(frozen=True, slots=True)
class Filtered:
    """What is left (`value` of JSON or `text`), and how many of how many parts that is: 0 where all stay."""

    kept: int
    total: int
    value: Any = None
    text: str = ""
    all_match: bool = False
    """Whether nothing was left out because every part matches."""


class Wanted:
    """An intent, ready to be looked for in many texts, all in lower case."""

    def __init__(self, intent: str) -> None:
        self.words = terms(intent)
        self._need = _needed(self.words)
        self._searches = [(word, _whole_word(word)) for word in self.words]

    def hits(self, parts: Sequence[str]) -> list[int]:
        """The numbers of the parts in which more than `KEEP_SHARE` of the words occur."""
        need = self._need
        scores = [0] * len(parts)
        left = list(range(len(parts)))
        for word, search in self._searches:
            if len(left) == len(parts) and all(map(search, parts)):
                need -= 1
                if need == 0:
                    return left
                continue
            found = _among(left, parts, word, search)
            for n in found:
                scores[n] += 1
            if found:
                left = [n for n in left if scores[n] < need]
        return [n for n, score in enumerate(scores) if score >= need]


def _needed(words: Collection[str]) -> int:
    """Return how many of the words a part must have."""
    return int(len(words) * KEEP_SHARE) + 1


def _among(
    numbers: Iterable[int], parts: Sequence[str], word: str, search: Callable[[str], object]
) -> list[int]:
    """Return those of the numbers whose parts have the word."""
    likely = [n for n in numbers if word in parts[n]]  # much faster than the search
    return list(compress(likely, map(search, map(parts.__getitem__, likely))))


def _parts_with(word: str, parts: Sequence[str]) -> list[int]:
    """Return the numbers of the parts that have the word."""
    return _among(range(len(parts)), parts, word, _whole_word(word))


def _whole_word(word: str) -> Callable[[str], object]:
    """Finds `word` where no letter or digit is beside it, but of a script without spaces, in which it may lie anywhere.

    Begins with the word: that is searched for fastest.
    """
    literal = re.escape(word)
    if is_unspaced(word):
        return re.compile(literal).search
    beside = rf"[^\W_{UNSPACED}]"
    return re.compile(rf"{literal}(?<!{beside}{literal})(?!{beside})").search


def terms(intent: str) -> list[str]:
    """The intent's distinct tokens, as the search splits a query: of scripts without spaces, pairs of letters.

    Words that say nothing are left out where others are left: `the` is in every paragraph, and in no record.
    """
    tokens = plain_tokens(intent)
    found = dict.fromkeys(
        word for token in tokens for word in (pairs(token) if is_unspaced(token) else (token,))
    )
    said = [word for word in found if word not in STOP_WORDS and word not in FOREIGN_STOP_WORDS]
    return (said or list(found))[:MOST_TERMS]


def filter_text(text: str, intent: str) -> Filtered:
    """Keep the parts that match; none are kept where nothing or everything matches.

    Where every part matches, words that occur in each of them tell none from another: then the others decide.
    """
    parts = [part for part in _PARAGRAPH.split(text) if part.strip()]
    joint = "\n\n"
    if len(parts) < MIN_PARAGRAPHS:
        every = lines(text)
        parts = ["\n".join(every[at : at + GROUP_LINES]) for at in range(0, len(every), GROUP_LINES)]
        joint = "\n"
    kept = _telling(parts, intent)
    if kept is None:
        return Filtered(0, len(parts), all_match=True)
    return Filtered(len(kept), len(parts), text=joint.join(kept))


def _telling(parts: list[str], intent: str) -> list[str] | None:
    """Return the parts that match, None where that would be all of them."""
    lowered = [part.lower() for part in parts]
    words = terms(intent)
    while words:
        wanted = Wanted(" ".join(words))
        hits = wanted.hits(lowered)
        if len(hits) < len(parts):
            return [parts[n] for n in hits]
        some = [word for word in words if len(_parts_with(word, lowered)) < len(parts)]
        if len(some) == len(words):
            break
        words = some
    return None


def filter_json(raw: Raw, intent: str) -> Filtered:
    """Records of the array that holds the bulk (the root, or inside objects), else the branches of the root object."""
    keys = lazy.bulk_path(raw)
    if keys is not None:
        rows = lazy.items(lazy.at_keys(raw, keys))
        if len(rows) > 1 or not keys:
            hits = _matching_records(rows, intent)
            if not 0 < len(hits) < len(rows):
                return Filtered(0, len(rows), all_match=bool(hits))
            return Filtered(len(hits), len(rows), value=lazy.placed(raw, keys, [rows[n] for n in hits]))
    if not lazy.is_object(raw):
        return Filtered(0, 0)
    fields = lazy.fields(raw)
    names = [Raw(lazy.written(key)) for key in fields]
    texts = zip(_lowered(names), _lowered(list(fields.values())), strict=True)
    hits = Wanted(intent).hits([f"{name}:{text}" for name, text in texts])
    if not 0 < len(hits) < len(fields):
        return Filtered(0, len(fields), all_match=bool(hits))
    keyed = list(fields.items())
    return Filtered(len(hits), len(fields), value=dict(keyed[n] for n in hits))


def _matching_records(rows: list[Raw], intent: str) -> list[int]:
    """The numbers of the records that match, by the words that tell one record from another; numbers that records are
    compared with do not.

    Names of fields are in most records whatever their values are; they decide only where no other word does.
    """
    lowered = _lowered(rows)
    found = {word: _parts_with(word, lowered) for word in terms(_BOUND.sub(" ", intent))}
    telling = {word: numbers for word, numbers in found.items() if len(numbers) < len(lowered)}
    names = _lowered([Raw(lazy.written(key)) for key in _field_names(rows)])
    values = {word: numbers for word, numbers in telling.items() if not _parts_with(word, names)}
    deciding = values or telling
    if not deciding:
        return list(range(len(lowered))) if found else []
    need = _needed(deciding)
    scores = Counter(chain.from_iterable(deciding.values()))
    return sorted(n for n, score in scores.items() if score >= need)


def _field_names(rows: list[Raw]) -> list[str]:
    """The keys of some of the records, from all over the array."""
    some = rows[:: max(1, len(rows) // NAMED_ROWS)]
    return list({key: None for row in some if lazy.is_object(row) for key in lazy.fields(row)})


def _lowered(parts: list[Raw]) -> list[str]:
    """Each part in lower case, to be searched; compact JSON has no line feed, so they are split again at those."""
    return readable(b"\n".join(parts).decode()).lower().split("\n") if parts else []


def readable(text: str) -> str:
    """JSON text for matching only: escapes are the letters they stand for, or a blank."""
    if "\\" not in text:
        return text
    return _ESCAPE.sub(_letter if "\\u" in text else " ", text)


def _letter(escape: re.Match[str]) -> str:
    code = escape[0][2:]
    letter = chr(int(code, 16)) if code else " "
    return letter if letter.isalnum() else " "
