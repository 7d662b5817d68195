"""The intent filter for large JSON: keeps the text of matching records while the document passes by in batches.

`survey.py` and `branches.py` tell of each batch. One in which too few of the wanted words occur costs one look; in the
others each member is looked at where it lies in the batch's text. Above: `pipeline.py`. Below: `intent.py`,
`survey.py`, `branches.py`, `jsontext.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from gatemini.output.branches import Level
from gatemini.output.intent import BULK_SHARE, Filtered, Wanted, readable, same_length
from gatemini.output.jsontext import decode, dump, parse, rewritten
from gatemini.output.survey import Bulk, NotSurveyed, Survey, Visit

_SAFE_KEY = re.compile(r"[A-Za-z0-9_@$.-]{1,64}")
"""Keys in which nothing can be taken for structure."""


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
        if not self._wanted.matches(readable(decode(piece)).lower()):
            return
        again = rewritten(items, piece)
        if again is None:
            exact = parse(piece)
            if exact is None or exact.duplicates:
                raise NotSurveyed
            items = exact.value
            text = dump(items)
        else:
            text = decode(again)
        hits, texts = self._split(items, text) or self._measured(items, text)
        if len(hits) == len(items):
            self._texts.append(text[1:-1])
        elif hits:
            self._texts.append(",".join([texts(n) for n in hits]))
        self.kept += len(hits)

    def _split(self, items: Any, text: str) -> tuple[list[int], Callable[[int], str]] | None:
        """(which match, the text of one), where the text can be split at what stands between any two."""
        edges = _edges(items, text)
        if edges is None:
            return None
        head, tail = edges
        begin, end, between = 1 + len(head), len(text) - 1 - len(tail), f"{tail},{head}"
        if text.count(between) != len(items) - 1:
            return None
        lowered = same_length(text).lower()
        parts = lowered[begin : len(lowered) - 1 - len(tail)].split(between.lower())
        if len(parts) != len(items):
            return None
        hits = self._wanted.hits(parts, head.lower())
        texts = text[begin:end].split(between) if len(hits) < len(items) else []
        return hits, lambda n: f"{head}{texts[n]}{tail}"

    def _measured(self, items: Any, text: str) -> tuple[list[int], Callable[[int], str]]:
        """(which match, the text of one) of any members: by the length that each has when written."""
        if isinstance(items, dict):
            lengths = [len(dump({key: item})) - 2 for key, item in items.items()]
        else:
            lengths = [len(dump(item)) for item in items]
        starts = list(accumulate(lengths, lambda at, length: at + length + 1, initial=1))
        spans = [slice(start, start + length) for start, length in zip(starts, lengths, strict=False)]
        lowered = same_length(text).lower()
        if len(lowered) == len(text):
            parts = [lowered[span] for span in spans]
        else:  # one letter in lower case may be two
            parts = [readable(text[span]).lower() for span in spans]
        return self._wanted.hits(parts), lambda n: text[spans[n]]

    def large(self, start: int, end: int) -> None:
        """A member too large for a batch, in the document at these offsets."""
        self.total += 1
        text = decode(self._data[start:end])
        if self._wanted.matches(readable(text).lower()):
            self.kept += 1
            self._texts.append(text)


def _edges(items: Any, text: str) -> tuple[str, str] | None:
    """(how each item begins, how it ends) in compact JSON, where that is the same for all of them."""
    if not ('"' in text or "[" in text[1:] or "{" in text):
        return "", ""
    kinds = set(map(type, items)) if isinstance(items, list) else set()
    if kinds == {str} and "\\" not in text:
        return '"', '"'  # the first quote from a string's beginning is its end
    if kinds != {dict} or not all(items):
        return None
    first = set(map(next, map(iter, items)))
    key = first.pop()
    # In a string a quote has a backslash before it: with such a key between brackets it is structure, of these rows or
    # of rows inside them, which their number tells.
    return (f'{{"{key}":', "}") if not first and _SAFE_KEY.fullmatch(key) else None


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

    def enter(self, path: Sequence[str], start: int) -> Level | None:
        """The root, and large arrays right below it, which may turn out to hold the bulk."""
        if path and (len(path) > 1 or self._data[start] != 0x5B):
            return None
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
        if not chosen.selects:
            return None
        opening, closing = ("[", "]") if chosen.array else ("{", "}")
        before, after = decode(self._data[: chosen.start]), decode(self._data[chosen.end :])
        return Filtered(chosen.kept, chosen.total, text=f"{before}{opening}{chosen.text}{closing}{after}")
