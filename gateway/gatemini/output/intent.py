"""Keeps the parts of an answer that speak of what the caller said it wants.

A part stays when more than 30 % of the intent's terms occur in it as whole tokens. Text is split into
paragraphs or groups of ten lines, JSON into array records or top-level branches. Above: `pipeline.py`.
Below: `jsontext.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gatemini.output.jsontext import dump, lines, parse, size
from gatemini.output.survey import Bulk, NotSurveyed, Survey, Visit
from gatemini.search.words import plain_tokens

KEEP_SHARE = 0.3
MIN_PARAGRAPHS = 3
GROUP_LINES = 10
BULK_SHARE = 0.5
"""An array inside an object is filtered by records when it holds at least this share of the bytes."""
_PARAGRAPH = re.compile(r"\n[ \t\r]*\n\s*")
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)")


@dataclass(frozen=True, slots=True)
class Filtered:
    """What is left (`value` of JSON or `text`), and how many of how many parts that is."""

    kept: int
    total: int
    value: Any = None
    text: str = ""


def terms(intent: str) -> list[str]:
    """The intent's distinct tokens, as the search splits a query."""
    return list(dict.fromkeys(plain_tokens(intent)))


def filter_text(text: str, intent: str) -> Filtered | None:
    """None when nothing or everything matches: the text goes on unchanged."""
    wanted = terms(intent)
    parts = [part for part in _PARAGRAPH.split(text) if part.strip()]
    joint = "\n\n"
    if len(parts) < MIN_PARAGRAPHS:
        every = lines(text)
        parts = ["\n".join(every[at : at + GROUP_LINES]) for at in range(0, len(every), GROUP_LINES)]
        joint = "\n"
    kept = [part for part in parts if wanted and matches(part, wanted)]
    if not kept or len(kept) == len(parts):
        return None
    return Filtered(len(kept), len(parts), text=joint.join(kept))


def filter_json(value: Any, intent: str) -> Filtered | None:
    """Records of an array (the root, or one that holds the bulk), else the branches of the root object."""
    wanted = terms(intent)
    if not wanted:
        return None
    if isinstance(value, list):
        return _records(value, wanted)
    if not isinstance(value, dict):
        return None
    total = size(value)
    for key, child in value.items():
        if isinstance(child, list) and len(child) > 1 and size(child) >= total * BULK_SHARE:
            found = _records(child, wanted)
            if found is None:
                return None
            return Filtered(found.kept, found.total, value={**value, key: found.value})
    kept = {key: child for key, child in value.items() if matches(_readable({key: child}), wanted)}
    if not kept or len(kept) == len(value):
        return None
    return Filtered(len(kept), len(value), value=kept)


class RecordFilter:
    """Filters the long arrays of a surveyed document as their batches pass by; holds text, not values."""

    def __init__(self, intent: str) -> None:
        self._wanted = terms(intent)
        self._kept: dict[tuple[str, ...], list[str]] = {}

    def visit(self, bulk: Bulk) -> Visit:
        kept = self._kept.setdefault(bulk.keys, [])

        def batch(rows: list[Any], source: bytes) -> None:
            hits = [n for n, row in enumerate(rows) if matches(_readable(row), self._wanted)]
            if not hits:
                return
            exact = parse(source)  # the batch was read at full speed; what is shown must be exact
            if exact is None or exact.duplicates:
                raise NotSurveyed
            kept.extend(dump(exact.value[n]) for n in hits)

        return batch

    def result(self, found: Survey) -> Filtered | None:
        """The document (as text) with the matching rows of its long arrays; None when no or every row matches."""
        kept = sum(map(len, self._kept.values()))
        total = sum(bulk.summary.total for bulk in found.bulks)
        if not self._wanted or not kept or kept == total:
            return None
        return Filtered(kept, total, text=found.written(lambda bulk: ",".join(self._kept[bulk.keys])))


def _records(rows: list[Any], wanted: Sequence[str]) -> Filtered | None:
    kept = [row for row in rows if matches(_readable(row), wanted)]
    if not kept or len(kept) == len(rows):
        return None
    return Filtered(len(kept), len(rows), value=kept)


def _readable(value: Any) -> str:
    """JSON text for matching only: escapes are no letters."""
    text = dump(value)
    return _ESCAPE.sub(" ", text) if "\\" in text else text


def matches(part: str, wanted: Sequence[str]) -> bool:
    """Whether more than `KEEP_SHARE` of the terms occur in `part`."""
    lowered = part.lower()
    need = len(wanted) * KEEP_SHARE
    found = 0
    for term in wanted:
        if _occurs(lowered, term):
            found += 1
            if found > need:
                return True
    return False


def _occurs(text: str, term: str) -> bool:
    """`term` as a whole token, found by searching instead of by splitting all of the text."""
    at = text.find(term)
    while at >= 0:
        end = at + len(term)
        before = at == 0 or not text[at - 1].isalnum()
        if before and (end == len(text) or not text[end].isalnum()):
            return True
        at = text.find(term, at + 1)
    return False
