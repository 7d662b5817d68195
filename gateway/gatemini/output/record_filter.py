"""The intent filter for large JSON: keeps the text of matching records while the document passes by in batches.

`survey.py` and `branches.py` tell of each batch. One in which too few of the wanted words occur costs one look; in the
others each member is looked at where it lies in the batch's text. Above: `pipeline.py`. Below: `intent.py`,
`survey.py`, `branches.py`, `deep.py`, `jsontext.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise, repeat
from typing import Any

import orjson

from gatemini.output.branches import Level
from gatemini.output.deep import parse_shown
from gatemini.output.intent import Filtered, Wanted, readable, same_length
from gatemini.output.jsontext import decode, dump, encode, same_but_space
from gatemini.output.survey import BULK_DEPTH, BULK_SHARE, Bulk, NotSurveyed, Survey, Visit

_SAFE_KEY = re.compile(r"[A-Za-z0-9_@$.-]{1,64}")
"""Keys in which nothing can be taken for structure."""
_SPACE = r"[ \t\r\n]*"
_BETWEEN_STRINGS = re.compile(f'"{_SPACE},{_SPACE}"')


class RecordFilter:
    """What is kept of the members of one container, in document order."""

    def __init__(self, wanted: Wanted, data: bytes = b"", start: int = 0) -> None:
        self._wanted = wanted
        self._data = data
        self.start = self.end = start
        self.array = data[start : start + 1] != b"{"
        self.kept = 0
        self.total = 0
        self._texts: list[str] = []
        self._large: list[tuple[int, int, int]] = []

    @property
    def text(self) -> str:
        """The kept members, separated by commas."""
        return ",".join(self._texts)

    @property
    def selects(self) -> bool:
        """Whether some members match and others do not: else the document goes on unchanged."""
        return 0 < self.kept < self.total

    def batch(self, items: Any, piece: bytes) -> None:
        """`items` were read at full speed from `piece`; what is kept of them is exact. Raises NotSurveyed."""
        self.total += len(items)
        text = decode(piece)
        in_place = "\\" not in text or "\\u" not in text  # no letter is written as an escape
        lowered = (same_length(text) if in_place else readable(text)).lower()
        if not self._wanted.matches(lowered):
            return
        hits, texts = (in_place and self._split(items, text, lowered)) or self._written(items, piece, lowered)
        if len(hits) == len(items):
            self._texts.append(text[1:-1])
        elif hits:
            self._texts.append(",".join([texts(n) for n in hits]))
        self.kept += len(hits)

    def _split(self, items: Any, text: str, lowered: str) -> tuple[list[int], Callable[[int], str]] | None:
        """(which match, the text of one), where the text can be split at what stands between any two."""
        edges = _edges(items, text)
        if edges is None:
            return None
        tail, comma, head = edges
        between = tail + comma + head
        begin, end = 1 + len(head), len(text) - 1 - len(tail)
        if not (text.startswith(head, 1) and text.endswith(tail, 0, -1)):
            return None
        parts = lowered[begin : len(lowered) - 1 - len(tail)].split(between.lower())
        if len(parts) != len(items):
            return None
        hits = self._wanted.hits(parts, head.lower())
        texts = text[begin:end].split(between) if len(hits) < len(items) else []
        return hits, lambda n: f"{head}{texts[n]}{tail}"

    def _written(self, items: Any, piece: bytes, lowered: str) -> tuple[list[int], Callable[[int], str]]:
        """(which match, the text of one) of any members, each written by itself."""
        texts = _each(items, plain=b"\\" not in piece)
        whole = encode(",".join(texts))
        if whole != piece[1:-1]:
            if not same_but_space(whole, piece[1:-1]):
                exact = parse_shown(piece)
                if exact is None or exact.duplicates:
                    raise NotSurveyed
                texts = _each(exact.value)
            lowered = same_length(f"[{','.join(texts)}]").lower()
        ends = list(accumulate(map(len, texts), lambda at, length: at + length + 1, initial=1))
        if len(lowered) == ends[-1]:
            parts = [lowered[at : after - 1] for at, after in pairwise(ends)]
        else:  # one letter in lower case may be two
            parts = [readable(member).lower() for member in texts]
        return self._wanted.hits(parts), texts.__getitem__

    def large(self, start: int, end: int) -> None:
        """A member too large for a batch, in the document at these offsets; it is looked at when that may matter."""
        self.total += 1
        self._large.append((len(self._texts), start, end))

    def settle(self) -> None:
        """Looks at the large members; one that is alone is kept or not with the whole document."""
        if self.total == 1:
            return
        for before, start, end in reversed(self._large):
            text = decode(self._data[start:end])
            if self._wanted.matches(readable(text).lower()):
                self.kept += 1
                self._texts.insert(before, text)
        self._large.clear()


def _each(items: Any, *, plain: bool = False) -> list[str]:
    """The members as compact JSON; those of an object with their keys, which are `plain` where none has an escape."""
    values = items.values() if isinstance(items, dict) else items
    try:
        texts = list(map(bytes.decode, map(orjson.dumps, values)))
    except TypeError:  # what orjson does not write
        texts = list(map(dump, values))
    if not isinstance(items, dict):
        return texts
    keys = items if plain else map(dump, items)
    sign = '"' if plain else ""
    return [f"{sign}{key}{sign}:{text}" for key, text in zip(keys, texts, strict=True)]


def _edges(items: Any, text: str) -> tuple[str, str, str] | None:
    """(how each item ends, the comma, how each begins), where that is the same for all of them."""
    if not ('"' in text or "[" in text[1:] or "{" in text):
        return "", ",", ""
    kinds = set(map(type, items)) if isinstance(items, list) else set()
    if kinds == {str} and "\\" not in text:
        # The first quote from a string's beginning is its end: split at so many, there is no other quote in a part.
        found = _BETWEEN_STRINGS.search(text)
        return _around_comma(found[0]) if found else None
    if kinds != {dict}:
        return None
    first = set(map(next, map(iter, items), repeat("")))
    key = first.pop()
    if first or not _SAFE_KEY.fullmatch(key):
        return None
    # In a string a quote has a backslash before it: with such a key between brackets it is structure, of these rows or
    # of rows inside them, which their number tells.
    between = re.compile(rf'\}}{_SPACE},{_SPACE}\{{{_SPACE}"{re.escape(key)}"{_SPACE}:')
    found = between.search(text)
    if found is None or text.count(found[0]) != len(items) - 1:
        return None
    if len(found[0]) > len(key) + 6 and sum(1 for _ in between.finditer(text)) != len(items) - 1:
        return None  # written with blanks: those written with others count as well
    return _around_comma(found[0])


def _around_comma(between: str) -> tuple[str, str, str]:
    at = between.index(",")
    blanks = at + 1
    while between[blanks].isspace():
        blanks += 1
    return between[:at], between[at:blanks], between[blanks:]


class SurveyFilter:
    """Filters the long arrays of a surveyed document."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._arrays: dict[tuple[str, ...], RecordFilter] = {}

    def visit(self, bulk: Bulk) -> Visit:
        return self._arrays.setdefault(bulk.keys, RecordFilter(self._wanted)).batch

    def result(self, found: Survey) -> Filtered | None:
        """The document (as text) with the matching rows of its long arrays; None when no or every row matches."""
        kept = sum(part.kept for part in self._arrays.values())
        total = sum(part.total for part in self._arrays.values())
        if not 0 < kept < total:
            return None
        return Filtered(kept, total, text=found.written(lambda bulk: self._arrays[bulk.keys].text))


class TreeFilter:
    """Filters the members of a document's root, or the records of an array in it that holds the bulk."""

    def __init__(self, wanted: Wanted, data: bytes) -> None:
        self._wanted = wanted
        self._data = data
        self._levels: list[RecordFilter] = []
        self._arrays: set[tuple[str, ...]] = set()

    def enter(self, path: Sequence[str], start: int) -> Level | None:
        """The root, and large arrays inside objects only, which may turn out to hold the bulk."""
        keys = tuple(path)
        array = self._data[start] == 0x5B
        inside = any(keys[:level] in self._arrays for level in range(len(keys)))
        if inside or len(keys) > BULK_DEPTH or (keys and not array):
            return None
        if array:
            self._arrays.add(keys)
        self._levels.append(RecordFilter(self._wanted, self._data, start))
        return self._levels[-1]

    def result(self) -> Filtered | None:
        """The document's text with what matches of its parts; None when nothing or everything does."""
        if not self._levels:
            return None  # an empty document, however much white space is in it
        root, *arrays = self._levels
        half = len(self._data) * BULK_SHARE
        bulk = next((part for part in arrays if part.end - part.start >= half and part.total > 1), None)
        chosen = root if root.array or bulk is None else bulk
        chosen.settle()
        if not chosen.selects:
            return None
        opening, closing = ("[", "]") if chosen.array else ("{", "}")
        before, after = decode(self._data[: chosen.start]), decode(self._data[chosen.end :])
        return Filtered(chosen.kept, chosen.total, text=f"{before}{opening}{chosen.text}{closing}{after}")
