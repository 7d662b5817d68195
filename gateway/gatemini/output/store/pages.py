"""Pages of a stored result: as many rows as are asked for and as fit, and a row that does not fit in pieces.

Following `next_offset` from page to page gives all of a result, of any size and shape.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gatemini.errors import InvalidRequest
from gatemini.output.json.json_text import dump, size
from gatemini.output.json.typed_arrays import Items
from gatemini.output.store.request_checks import given, row_number
from gatemini.output.store.row_index import Read, RowIndex
from gatemini.text.size_limit import LONGEST_CHAR, SizeLimit
from gatemini.text.utf8 import decode, encode

PIECE_BYTES = 1 << 20
"""Of a row that is too large; as JSON a piece may take six times as many."""
PAGE = SizeLimit(chars=20_000)
"""A page for the model, facts included, has no more than this, nor than its client takes."""
ENVELOPE = 512
"""Bytes kept free for what is written around the rows of a page."""
REPLY_SHARE = 8
"""Rows for code fill this part of a reply; a single row may fill all of it."""
_CONTROL = re.compile(r"[\x00-\x1f]")
_PLACE = re.compile(r"([0-9]{1,15})(?::([0-9]{1,9}))?")

Shown = Callable[[str], str]
"""The same text without secrets."""

Offset = int | float | str
"""A row from 0, or "7:1": the second piece of row 7. JavaScript's numbers may be floats."""


@dataclass(frozen=True, slots=True)
class PageRoom:
    """Bytes of JSON on a page: of all `rows`, of a single `row`, of the text in a `piece` of a larger row.

    `strict`: a row that is larger than `rows` is left for the next page even if this one is empty.
    """

    rows: int
    row: int
    piece: int
    strict: bool = False

    @classmethod
    def of_reply(cls, most: int) -> PageRoom:
        """For code that takes `most` bytes at a time."""
        share = max(64, most // REPLY_SHARE)
        return cls(share, max(64, most - ENVELOPE), min(PIECE_BYTES, share))

    @classmethod
    def of_page(cls, most: int, beside: int = 0) -> PageRoom:
        """For a model with a client that takes `most` bytes, some of them `beside` the rows. Pieces are the same on each page."""
        free = most - ENVELOPE
        # Quotes may double the length of a piece.
        return cls(max(0, free - beside), free, free * 2 // 5, strict=True)


@dataclass(frozen=True, slots=True)
class Page:
    """Rows from `offset`. `next_offset` is None at the end. A row in pieces has a page for each: this is `piece`."""

    rows: list[Any]
    offset: int | str
    total: int
    next_offset: int | str | None
    piece: int = 0
    pieces: int = 0

    def fields(self) -> dict[str, Any]:
        made: dict[str, Any] = {
            "offset": self.offset,
            "total_rows": self.total,
            "next_offset": self.next_offset,
        }
        if self.pieces:
            made |= {"piece": self.piece, "pieces": self.pieces}
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
    """Up to `limit` rows; of a row in pieces the text that `shown` gives. Raises InvalidRequest for a piece that is not there."""
    row, piece = place(offset)
    if piece:
        return _piece(index, read, row, piece, room, shown)
    rows: list[Any] = []
    used = 0
    for batch in index.batches_from(row):
        if len(rows) >= limit:
            break
        if batch.count == 1 and batch.end - batch.start > room.row:  # not parsed to see that it does not fit
            found: list[Any] = []
        else:
            found = index.rows(batch, read)[max(0, row - batch.first) :][: limit - len(rows)]
        for value in found:
            count = size(value)
            if count > room.row:
                found = []
                break
            if used + count > room.rows and (rows or room.strict):
                return _page(index.total, row, rows)
            rows.append(value)
            used += count + 1
        if not found:
            return _page(index.total, row, rows) if rows else _piece(index, read, row, 0, room, shown)
    return _page(index.total, row, rows)


def _page(total: int, first: int, rows: list[Any]) -> Page:
    after = first + len(rows)
    return Page(rows, first, total, after if after < total else None)


def _piece(index: RowIndex, read: Read, row: int, number: int, room: PageRoom, shown: Shown | None) -> Page:
    if row >= index.total:
        raise _no_piece(row, number)
    text = index.row_text(row, read)
    # Secrets are taken out before the text is cut: half of one would be seen too.
    text = text if shown is None else shown(text)
    data = encode(text)
    # A control character (colours of a terminal) takes six in JSON. A cut moves to the beginning of a character.
    piece = room.piece // 3 if _CONTROL.search(text) else room.piece
    step = max(1, piece - LONGEST_CHAR + 1)
    count = max(1, -(-len(data) // step))
    if number >= count:
        raise _no_piece(row, number)
    part = decode(data[_character(data, number * step) : _character(data, (number + 1) * step)])
    value = part if index.is_text else {"$row": row, "$piece": number, "$pieces": count, "part": part}
    following: int | str | None = row + 1 if row + 1 < index.total else None
    if number + 1 < count:
        following = f"{row}:{number + 1}"
    return Page([value], f"{row}:{number}" if number else row, index.total, following, number, count)


def _character(data: bytes, at: int) -> int:
    """The beginning of the character at or before `at`."""
    at = min(at, len(data))
    while at < len(data) and data[at] & 0xC0 == 0x80:
        at -= 1
    return at


def _no_piece(row: int, number: int) -> InvalidRequest:
    return InvalidRequest(
        f'there is no "{row}:{number}" in this result: its next_offset leads from piece to piece'
    )


def page_of_blob(items: Items, read: Read, offset: Offset, limit: int, room: PageRoom) -> Page:
    """Items of a typed array, or stretches of other binary data in base64."""
    row, piece = place(offset)
    if piece:
        raise _no_piece(row, piece)
    count = max(1, min(limit, room.rows // items.longest))
    return _page(items.count, row, items.read(read, row, count) if row < items.count else [])


SPARE = ("digest", "schema", "rows_at", "label")
"""Facts left out, in this order, where there is no room for them."""


def facts(info: dict[str, Any], room: SizeLimit) -> dict[str, Any]:
    """What is known of a result, as far as there is room for it on a page."""
    made = dict(info)
    for name in SPARE:
        if room.holds(dump(made)):
            break
        made.pop(name, None)
    return made
