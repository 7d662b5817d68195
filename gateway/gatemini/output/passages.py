"""Long texts inside JSON: of each a useful piece, and of what the intent names its paragraphs or lines.

A file, a log or a page is often one string of a small object. Such a string is no branch to be listed by its size
alone: it is cut like any text, and filtered like any text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Raw

from gatemini.output.intent import filter_text
from gatemini.output.json import lazy_json as lazy
from gatemini.output.json.json_text import size
from gatemini.text.size_limit import SizeLimit, weight
from gatemini.text.truncate import truncate

LEAST_SHOWN = 256
"""Bytes of a text's piece; less would not say more than the text's first words in the list of key paths."""
MOST_SHOWN = 8
"""Texts of which a piece is shown, the longest."""
_TRIES = 4
"""Times a piece is cut shorter: escapes make it longer as JSON than as text."""

_SPARED = 16
"""Each time one part in so many more is left out: a cut moves to the end of a line."""


def shown_pieces(texts: Sequence[str], room: int) -> list[str]:
    """Pieces of the first texts, as many as are useful, that together take at most `room` bytes as JSON."""
    count = min(len(texts), MOST_SHOWN, room // LEAST_SHOWN)
    made: list[str] = []
    for left, text in zip(range(count, 0, -1), texts, strict=False):
        piece = _piece(text, room // left)
        made.append(piece)
        room -= size(piece)
    return made


def _piece(text: str, room: int) -> str:
    limit = room
    for _ in range(_TRIES):
        piece = truncate(text, SizeLimit(bytes=limit)).text
        taken = size(piece)
        if taken <= room:
            return piece
        limit = limit * room // taken * (_SPARED - 1) // _SPARED
    return ""


# ----------------------------------------------------------------------------------------------- intent


@dataclass(frozen=True, slots=True)
class FilteredText:
    """Where in the document a text was filtered, and how many of how many of its parts are left."""

    path: tuple[str, ...]
    kept: int
    total: int


def filter_texts(raw: Raw, intent: str, least: int) -> tuple[Any, list[FilteredText]]:
    """The document with every text of more than `least` bytes filtered in which some parts match and others do not."""
    found: list[FilteredText] = []
    return _filtered(raw, (), intent, least, found), found


def _filtered(raw: Raw, path: tuple[str, ...], intent: str, least: int, found: list[FilteredText]) -> Any:
    if len(raw) <= least:
        return raw
    if lazy.is_string(raw):
        text = lazy.string(raw)
        made = filter_text(text, intent) if weight(text) > least else None
        if made is None or not made.kept:
            return raw
        found.append(FilteredText(path, made.kept, made.total))
        return made.text
    before = len(found)
    if lazy.is_object(raw):
        members = {
            k: _filtered(item, (*path, k), intent, least, found) for k, item in lazy.fields(raw).items()
        }
        return members if len(found) > before else raw
    rows = lazy.items(raw) if lazy.is_array(raw) else []
    if max(map(len, rows), default=0) <= least:
        return raw
    items = [_filtered(item, (*path, f"[{n}]"), intent, least, found) for n, item in enumerate(rows)]
    return items if len(found) > before else raw
