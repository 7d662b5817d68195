"""Pages of a stored result: as many rows as are asked for and as fit, and a row that does not fit in pieces.

Following `next_offset` from page to page gives all of a result, of any size and shape.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gatemini.errors import InvalidRequest
from gatemini.output.arrays import Items
from gatemini.output.asked import given, row_number
from gatemini.output.jsontext import dump
from gatemini.output.room import Room, weight
from gatemini.output.rows import Read, RowIndex, Shown, Unread

PIECE_BYTES = 1 << 20
"""Of a row that is too large; a string's escapes may make six times as many of them."""
PAGE = Room(chars=20_000)
"""A page for the model, facts included, has no more than this, nor than its client takes."""
BLOB_ROW = 3_072
"""Bytes of binary data in a row, a multiple of three: the rows' base64, joined, is that of the whole."""
ROWS_NAMED = 5
ENVELOPE = 512
"""Bytes kept free for what stands around the rows of a page."""
_EXPANDING = 6
"""Times that a row may be longer as JavaScript writes it: 1e20, control characters."""
_EXPONENT = re.compile(r"\de")
_PLACE = re.compile(r"([0-9]{1,15})(?::([0-9]{1,9}))?")

Offset = int | float | str
"""A row from 0, or "7:1": the second piece of row 7. JavaScript's numbers may be floats."""


@dataclass(frozen=True, slots=True)
class PageRoom:
    """What a page may hold in bytes: `rows` together, `row` a single one, `piece` of a row beyond that.

    `exact`: rows are weighed as they are written, and one that fits a page but not this one is left for the next.
    """

    rows: int
    row: int
    piece: int
    exact: bool = False

    @classmethod
    def of_reply(cls, most: int) -> PageRoom:
        """For code that takes `most` bytes at a time."""
        part = max(64, most // (_EXPANDING + 2))
        return cls(part, max(64, most - ENVELOPE), min(PIECE_BYTES, part))

    @classmethod
    def of_page(cls, most: int, beside: int = 0) -> PageRoom:
        """For a model whose client takes `most` bytes, some of them `beside` the rows. Pieces are the same on each page."""
        free = most - ENVELOPE
        # A piece may double as it is written (quotes), with a path of half its size.
        return cls(max(0, free - beside), free, free * 2 // 5, exact=True)


@dataclass(frozen=True, slots=True)
class Page:
    """Rows from `offset`. `next_offset` is None at the end. A row in pieces stands alone: this is piece `piece`."""

    rows: list[Any]
    offset: int | str
    total: int
    next_offset: int | str | None
    piece: int = 0
    pieces: int = 0
    doubled: tuple[int, ...] = ()
    """Rows in which a key occurs twice."""

    def fields(self) -> dict[str, Any]:
        made: dict[str, Any] = {
            "offset": self.offset,
            "total_rows": self.total,
            "next_offset": self.next_offset,
        }
        if self.pieces:
            made |= {"piece": self.piece, "pieces": self.pieces}
        if self.doubled:
            rows = ", ".join(map(str, self.doubled[:ROWS_NAMED])) + (
                ", …" if len(self.doubled) > ROWS_NAMED else ""
            )
            made["note"] = f"a key occurs twice in row {rows}: the last value of it is given"
        return {**made, "rows": self.rows}


def place(offset: Offset) -> tuple[int, int]:
    """(row, piece) of an offset; raises InvalidRequest."""
    if isinstance(offset, str) and (found := _PLACE.fullmatch(offset)) and found[2] is not None:
        return int(found[1]), int(found[2])
    if isinstance(offset, str):
        raise InvalidRequest(
            f'offset must be a whole number from 0, or as "7:1" what next_offset gave, not {given(offset)}'
        )
    return row_number(offset), 0


def page_of_rows(
    index: RowIndex, read: Read, offset: Offset, limit: int, room: PageRoom, shown: Shown | None = None
) -> Page:
    """Up to `limit` rows; of one in pieces only what may be `shown`. Raises InvalidRequest for a piece that is not there."""
    row, piece = place(offset)
    if piece:
        return _piece(index, read, row, piece, room, shown)
    rows: list[Any] = []
    used = 0
    for group, heavy in index.groups(read, row, limit):
        if not room.exact and used + heavy <= room.rows and not any(type(item) is Unread for item in group):
            rows += group
            used += heavy
            continue
        for item in group:
            value, heavy = _weighed(index, read, item, room)
            if heavy > room.row:
                return (
                    _page(index, row, rows, more=True) if rows else _piece(index, read, row, 0, room, shown)
                )
            if used + heavy > room.rows and (rows or room.exact):
                return _page(index, row, rows, more=True)
            rows.append(value)
            used += heavy + 1
    return _page(index, row, rows, more=False)


def _page(index: RowIndex, first: int, rows: list[Any], *, more: bool) -> Page:
    after = first + len(rows)
    doubled = tuple(sorted(row for row in index.doubled if first <= row < after))
    return Page(rows, first, index.total, after if more or after < index.total else None, doubled=doubled)


def _weighed(index: RowIndex, read: Read, item: Any, room: PageRoom) -> tuple[Any, int]:
    """The row and its bytes as JSON; more than the room where it has to come in pieces."""
    if type(item) is Unread:
        if item.end - item.start > room.row:
            return None, room.row + 1
        try:
            item = index.whole(item, read)
        except ValueError:
            return None, room.row + 1
    text = dump(item)
    count = weight(text)
    if (
        not room.exact
        and count * _EXPANDING > room.row
        and not isinstance(item, str)
        and _EXPONENT.search(text)
    ):
        count *= _EXPANDING
    return item, count


def _piece(index: RowIndex, read: Read, row: int, number: int, room: PageRoom, shown: Shown | None) -> Page:
    found = index.piece(read, row, number, room.piece, shown)
    if found is None:
        raise _no_piece(row, number)
    value, count = found
    if not index.is_text:
        value = {"$row": row, "$piece": number, "$pieces": count, **value}
    following: int | str | None = row + 1 if row + 1 < index.total else None
    if number + 1 < count:
        following = f"{row}:{number + 1}"
    return Page([value], f"{row}:{number}" if number else row, index.total, following, number, count)


def _no_piece(row: int, number: int) -> InvalidRequest:
    return InvalidRequest(
        f'there is no "{row}:{number}" in this result: its next_offset leads from piece to piece'
    )


def _whole_row(offset: Offset) -> int:
    """The row of an offset where no row comes in pieces; raises InvalidRequest for a piece."""
    row, piece = place(offset)
    if piece:
        raise _no_piece(row, piece)
    return row


def page_of_items(items: Items, read: Read, offset: Offset, limit: int, room: PageRoom) -> Page:
    """Items of a typed array."""
    row = _whole_row(offset)
    limit = max(1, min(limit, room.rows // _LONGEST_ITEM))
    rows = items.read(read, row, limit) if row < items.count else []
    after = row + len(rows)
    return Page(rows, row, items.count, after if after < items.count else None)


_LONGEST_ITEM = 26
"""Characters of a double or a 64-bit integer as JSON, with its comma."""


def page_of_bytes(
    size: int, read: Callable[[int, int | None], bytes], offset: Offset, limit: int, room: PageRoom
) -> Page:
    """Stretches of binary data in base64."""
    row = _whole_row(offset)
    total = -(-size // BLOB_ROW)
    count = max(1, min(limit, room.rows // (BLOB_ROW * 4 // 3 + 3)))
    rows = [
        base64.b64encode(read(at * BLOB_ROW, min(size, (at + 1) * BLOB_ROW))).decode()
        for at in range(row, min(total, row + count))
    ]
    after = row + len(rows)
    return Page(rows, row, total, after if after < total else None)


SPARE = ("digest", "rows_at", "label")
"""Facts left out where even without the types there is no room for them."""


def facts(info: dict[str, Any], room: Room) -> dict[str, Any]:
    """What is known of a result, for a page; of many fields the first, and how many there are."""
    if room.holds(dump(info)):
        return info
    made = dict(info)
    schema = made.get("schema")
    if isinstance(schema, dict):
        made["schema"] = {}
        made["fields"] = len(schema)
        left = room.beside(dump(made))
        for name, kind in schema.items():
            left = left.beside(dump({name: kind}))
            if not left.plain:
                break
            made["schema"][name] = kind
    for name in SPARE:
        if not room.holds(dump(made)):
            made.pop(name, None)
    return made
