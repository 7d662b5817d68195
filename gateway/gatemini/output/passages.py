"""Long texts inside JSON: of each a useful piece, and of what the intent names its paragraphs or lines.

A file, a log or a page is often one string of a small object. Such a string is no branch to be listed by its size
alone: it is cut like any text, and filtered like any text. Pure. Above: `branches.py`, `json_reduce.py`, `pipeline.py`.
Below: `intent.py`, `truncate.py`, `pieces.py`, `room.py`, `jsontext.py`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gatemini.output.intent import filter_text
from gatemini.output.jsontext import MAX_NESTING, decode, dump, size
from gatemini.output.pieces import members
from gatemini.output.room import Room, weight
from gatemini.output.truncate import NO_GAP, Gap, truncate
from gatemini.piecewise.cutting import MEMBER

HELD_CHARS = 4096
"""Held of either end of a text that is not held whole: more than is ever shown of it."""
LEAST_SHOWN = 256
"""Bytes of a text's piece; less would not say more than the text's first words in the list of key paths."""
MOST_SHOWN = 8
"""Texts of which a piece is shown, the longest."""
_TRIES = 4
"""Times a piece is cut shorter: escapes make it longer as JSON than as text."""

LEAST_STRETCH = 512
"""Looking for shorter stretches takes longer than reading the document."""
_SPARED = 16
"""… and a part more is left out: a cut moves to the end of a line."""


@dataclass(frozen=True, slots=True)
class LongText:
    """A text, or its two ends with what is missing between them; `bytes` of the whole."""

    text: str
    bytes: int
    gap: Gap = NO_GAP


def long_text(text: str) -> LongText:
    """`text` without its middle, if there is much of that."""
    whole = weight(text)
    if len(text) <= 3 * HELD_CHARS:
        return LongText(text, whole)
    head, tail = text[:HELD_CHARS], text[-HELD_CHARS:]
    breaks = text.count("\n", HELD_CHARS, len(text) - HELD_CHARS)
    return LongText(head + tail, whole, Gap(breaks, whole - weight(head) - weight(tail)))


def shown_pieces(texts: Sequence[LongText], room: int) -> dict[int, str]:
    """Pieces of the longest texts, by their number, that together take at most `room` bytes as JSON."""
    count = min(len(texts), MOST_SHOWN, room // LEAST_SHOWN)
    longest = sorted(range(len(texts)), key=lambda n: texts[n].bytes, reverse=True)[:count]
    made: dict[int, str] = {}
    for left, number in zip(range(count, 0, -1), reversed(longest), strict=True):
        piece = _piece(texts[number], room // left)
        if piece is not None:
            made[number] = piece
            room -= size(piece)
    return dict(sorted(made.items()))


def _piece(text: LongText, room: int) -> str | None:
    limit = room
    for _ in range(_TRIES):
        piece = truncate(text.text, Room(bytes=limit), text.gap).text
        taken = size(piece)
        if taken <= room:
            return piece
        limit = limit * room // taken * (_SPARED - 1) // _SPARED
    return None


# ----------------------------------------------------------------------------------------------- intent


@dataclass(frozen=True, slots=True)
class FilteredText:
    """Where in the document a text was filtered, and how many of how many of its parts are left."""

    path: tuple[str, ...]
    kept: int
    total: int


def filter_texts(value: Any, intent: str, least: int) -> tuple[Any, list[FilteredText]]:
    """The document with every text of more than `least` bytes filtered in which some parts match and others do not."""
    found: list[FilteredText] = []
    return _filtered(value, (), intent, least, found), found


def _filtered(value: Any, path: tuple[str, ...], intent: str, least: int, found: list[FilteredText]) -> Any:
    if isinstance(value, str):
        made = filter_text(value, intent) if weight(value) > least else None
        if made is None:
            return value
        found.append(FilteredText(path, made.kept, made.total))
        return made.text
    if len(path) >= MAX_NESTING or not isinstance(value, dict | list):
        return value
    before = len(found)
    if isinstance(value, dict):
        members = {key: _filtered(item, (*path, key), intent, least, found) for key, item in value.items()}
        return members if len(found) > before else value
    items = [_filtered(item, (*path, f"[{n}]"), intent, least, found) for n, item in enumerate(value)]
    return items if len(found) > before else value


Place = tuple[tuple[str, ...], int, int]
"""(path, start, end): the text lies there in a document that is not held, alone or with other members of its object."""


def may_hold_text(data: bytes, least: int) -> bool:
    """Whether there can be a text of more than `least` bytes in a document: a stretch without its closing quote."""
    step = least // 2
    if step < LEAST_STRETCH:
        return True
    # Of so long a text one such stretch is the inside, whose quotes have a backslash before them.
    return any(
        data.find(b'"', at, at + step) < 0
        or data.count(b'"', at, at + step) == data.count(b'\\"', at - 1, at + step)
        for at in range(step, len(data) - step, step)
    )


def filter_written(data: bytes, places: Sequence[Place], intent: str) -> tuple[str, list[FilteredText]]:
    """The document's text with the texts at `places`, in their order, filtered; of no use where none was."""
    found: list[FilteredText] = []
    parts: list[str] = []
    done = 0
    for path, start, end in places:
        begin, stop = _text_at(data, path[-1], start, end)
        made = filter_text(json.loads(decode(data[begin:stop])), intent)
        if made is None:
            continue
        found.append(FilteredText(path, made.kept, made.total))
        parts += decode(data[done:begin]), dump(made.text)
        done = stop
    if found:
        parts.append(decode(data[done:]))
    return "".join(parts), found


def _text_at(data: bytes, name: str, start: int, end: int) -> tuple[int, int]:
    """Where between `start` and `end` the text of the member `name` lies; an array's item is there alone."""
    for begin, stop in members(data, start - 1, end + 1):
        key = MEMBER.match(data, begin, stop)
        if key is not None and json.loads(decode(key[1])) == name:
            return key.end(), stop
    return start, end
