"""Rows inside a stored document: which array they are, how many, and any stretch of them without reading all.

Rows are the elements of the root array, or of an array inside the root object that holds the bulk; other
JSON is one row; of a text, rows are its lines. Above: `pages.py`, `results.py`, `pipeline.py`. Below: `survey.py`,
`branches.py`, `pieces.py`, `digest.py`, `jsontext.py`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from gatemini.output.branches import read_tree
from gatemini.output.digest import Summary
from gatemini.output.json_reduce import SEPARATOR
from gatemini.output.jsontext import decode, dump, encode, is_json, lines, parse
from gatemini.output.pieces import Piece, cut_json, cut_line, members
from gatemini.output.survey import (
    BATCH_BYTES,
    BULK_DEPTH,
    BULK_SHARE,
    ROW_BYTES,
    WHOLE_BYTES,
    Batch,
    Bulk,
    NotSurveyed,
    Survey,
    bulk_path,
    survey,
)
from gatemini.piecewise.cutting import MEMBER, skip_space

BATCH_ROWS = 1000
"""Rows between two remembered offsets of a long document."""
DESCRIBED_BYTES = 8 << 20
"""Of a larger row only its kind goes into schema and digest: parsed, it would take up fifteen times its size."""

CUTS_KEPT = 4
"""Rows in pieces whose cuts are remembered: who follows `next_offset` is in one of them at a time."""
ESCAPE_SHARE = 3
"""A control character is six as it is written in JSON, three times as many as a quote."""
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")

Read = Callable[[int, int | None], bytes]
"""`read(start, end)` gives these bytes of the document; from memory or from disk."""


Shown = Callable[[str], str]
"""The same text without secrets."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A row that is too large or nested too deep to be parsed with others: where it is."""

    start: int
    end: int


@dataclass(slots=True)
class RowIndex:
    """Where rows are. `keys` lead to their array; `batches` is empty where all is parsed at once."""

    total: int
    keys: tuple[str, ...] = ()
    summary: Summary | None = None
    is_text: bool = False
    batches: list[Batch] = field(default_factory=list)
    doubled: set[int] = field(default_factory=set)
    """Rows read so far in which a key occurs twice."""
    _cuts: dict[tuple[int, int, int | None], list[Piece]] = field(default_factory=dict)
    """By row, bytes of a piece, and the hash of the text shown in its place, if any; least recently used first."""

    @property
    def path(self) -> str:
        return SEPARATOR.join(self.keys)

    def groups(self, read: Read, offset: int, limit: int) -> Iterator[tuple[list[Any], int]]:
        """The rows from `offset` to `offset + limit`, some at a time: (rows, bytes they have at the most).

        A row is its value, or `Unread`.
        """
        end = min(self.total, offset + limit)
        if offset >= end:
            return
        if not self.batches:
            data = read(0, None)
            yield self._parsed(data)[offset:end], len(data)
            return
        at = bisect_right(self.batches, offset, key=lambda batch: batch.first) - 1
        while offset < end:
            batch = self.batches[at]
            skip = offset - batch.first
            rows = self._batch(batch, read)[skip : skip + end - offset]
            yield rows, batch.end - batch.start
            offset += len(rows)
            at += 1

    def _batch(self, batch: Batch, read: Read) -> list[Any]:
        if batch.count == 1 and batch.end - batch.start > ROW_BYTES:
            return [Unread(batch.start, batch.end)]
        data = read(batch.start, batch.end)
        if self.is_text:
            return lines(decode(data))
        parsed = parse(b"[%b]" % data)
        if parsed is not None and not parsed.duplicates:
            return list(parsed.value)
        rows: list[Any] = []
        # One of them is nested too deep, or has a key twice.
        for number, (start, end) in enumerate(members(b"[%b]" % data, 0, len(data) + 2), batch.first):
            alone = parse(data[start - 1 : end - 1])
            if alone is not None and alone.duplicates:
                self.doubled.add(number)
            unread = Unread(batch.start + start - 1, batch.start + end - 1)
            rows.append(unread if alone is None else alone.value)
        return rows

    def _parsed(self, data: bytes) -> list[Any]:
        if self.is_text:
            return lines(decode(data))
        parsed = parse(data)
        value: Any = parsed.value if parsed else []
        for key in self.keys:
            value = value[key]
        return value if isinstance(value, list) else [value]

    def whole(self, row: Unread, read: Read) -> Any:
        """The value of a row that was not read with others; raises ValueError where it cannot be one."""
        data = read(row.start, row.end)
        if self.is_text:
            return decode(data.removesuffix(b"\n"))
        parsed = parse(data)
        if parsed is None:
            raise ValueError("nested too deep")
        return parsed.value

    def piece(
        self, read: Read, row: int, number: int, most: int, shown: Shown | None = None
    ) -> tuple[Any, int] | None:
        """(the piece of this number of a row cut into pieces of `most` bytes, how many there are), or None.

        `shown` takes out of the row's text what must not be seen, before it is cut: half of it would be seen too.
        """
        (found, _) = next(self.groups(read, row, 1), ([], 0))
        if not found:
            return None
        at = found[0] if isinstance(found[0], Unread) else None
        if at is not None and shown is None:
            known = self._recalled((row, most, None))
            if known is not None:  # the row is read and scanned once, however many pieces are then wanted
                return self._told(known, number, lambda begin, end: read(at.start + begin, at.start + end))
        if at is not None:
            data = read(at.start, at.end)
        else:
            data = encode(found[0] if self.is_text else dump(found[0]))
        if shown is not None:
            data = encode(shown(decode(data)))
        if at is None:
            return self._told(self._cut(data, most), number, lambda begin, end: data[begin:end])
        # What is shown changes with the secrets that are known, and may be as long as before.
        key = (row, most, None if shown is None else hash(data))
        pieces = self._recalled(key)
        if pieces is None:
            pieces = self._cuts[key] = self._cut(data, most)
            if len(self._cuts) > CUTS_KEPT:
                del self._cuts[next(iter(self._cuts))]
        return self._told(pieces, number, lambda begin, end: data[begin:end])

    def _recalled(self, key: tuple[int, int, int | None]) -> list[Piece] | None:
        """The cuts known under this key, which is now the last one used."""
        pieces = self._cuts.pop(key, None)
        if pieces is not None:
            self._cuts[key] = pieces
        return pieces

    def _cut(self, data: bytes, most: int) -> list[Piece]:
        if self.is_text or not is_json(data):  # a secret may have been all digits, or a key
            if _CONTROL.search(data, 0, len(data) - 1):
                most //= ESCAPE_SHARE
            return cut_line(data, 0, len(data.removesuffix(b"\n")), most)
        return cut_json(data, 0, len(data), most)

    def _told(
        self, pieces: list[Piece], number: int, read: Callable[[int, int], bytes]
    ) -> tuple[Any, int] | None:
        if number >= len(pieces):
            return None
        piece = pieces[number]
        data = read(piece.start, piece.end)
        return (decode(data) if self.is_text else piece.value(data)), len(pieces)


def index_rows(data: bytes, *, as_text: bool) -> RowIndex:
    """`as_text` False: as JSON if it is JSON, else as text all the same."""
    if as_text:
        return _index_lines(data)
    if len(data) > WHOLE_BYTES:
        try:
            return index_survey(survey(data))
        except NotSurveyed:
            pass  # no long array in it, or no JSON
        return _located(data) if _is_json(data) else _index_lines(data)
    parsed = parse(data)
    if parsed is None:
        return _located(data) if is_json(data) else _index_lines(data)
    if parsed.duplicates:
        return _located(data)
    keys = bulk_path(parsed.value)
    value = parsed.value
    for key in keys or ():
        value = value[key]
    rows = value if isinstance(value, list) else [value]
    summary = Summary()
    summary.add(rows)
    return RowIndex(len(rows), keys or (), summary)


def index_survey(found: Survey) -> RowIndex:
    """The rows of a surveyed document are those of its longest array."""
    bulk: Bulk = max(found.bulks, key=lambda bulk: bulk.bytes)
    return RowIndex(bulk.summary.total, bulk.keys, bulk.summary, batches=bulk.batches)


def _is_json(data: bytes) -> bool:
    try:
        read_tree(data)  # parses all of it and holds next to nothing
    except NotSurveyed:
        return is_json(data)
    return True


def _located(data: bytes) -> RowIndex:
    """The rows of a large document without a shape of its own, found without holding it."""
    start = skip_space(data, 0)
    end = len(data.rstrip(b" \t\r\n"))
    total = end - start
    keys: list[str] = []
    while data[start : start + 1] == b"{" and len(keys) < BULK_DEPTH:
        found = _heaviest(data, start, end)
        if found is None or found[2] - found[1] < total * BULK_SHARE:
            break
        keys.append(found[0])
        start, end = found[1], found[2]
    if data[start : start + 1] == b"[":
        return _batched(data, tuple(keys), members(data, start, end))
    start = skip_space(data, 0)
    return _batched(data, (), iter([(start, start + total)]))


def _heaviest(data: bytes, start: int, end: int) -> tuple[str, int, int] | None:
    """(key, start, end) of the largest object or array right inside this object."""
    best: tuple[str, int, int] | None = None
    for item, stop in members(data, start, end):
        found = MEMBER.match(data, item)
        if found is None or data[found.end() : found.end() + 1] not in (b"{", b"["):
            continue
        weight = stop - found.end()
        if best is None or weight > best[2] - best[1]:
            named = parse(found[1])
            best = (str(named.value) if named else "", found.end(), stop)
    return best


def _batched(data: bytes, keys: tuple[str, ...], rows: Iterator[tuple[int, int]]) -> RowIndex:
    """Rows that lie at these offsets: described, and gathered into batches; a large one is a batch of its own."""
    index = RowIndex(0, keys, Summary())
    begin = last = -1
    count = 0

    def close() -> None:
        nonlocal begin, count
        if count:
            index.batches.append(Batch(index.total, count, begin, last))
            _describe(index, data[begin:last], count)
            index.total += count
        begin, count = -1, 0

    for start, end in rows:
        if count and (end - start > ROW_BYTES or end - begin > BATCH_BYTES or count == BATCH_ROWS):
            close()
        begin, last = (start if count == 0 else begin), end
        count += 1
        if end - start > ROW_BYTES:
            close()
    close()
    return index


def _describe(index: RowIndex, data: bytes, count: int) -> None:
    if index.summary is None:
        return
    parsed = parse(b"[%b]" % data) if len(data) <= DESCRIBED_BYTES else None
    if parsed is not None:
        index.summary.add(parsed.value)
    elif count > 1:  # one of them is nested too deep
        inner = b"[%b]" % data
        for start, end in members(inner, 0, len(inner)):
            _describe(index, inner[start:end], 1)
    else:
        index.summary.add([{b"{": {}, b"[": []}.get(data[:1], "")])


def _index_lines(data: bytes) -> RowIndex:
    total = data.count(b"\n") + (1 if data and not data.endswith(b"\n") else 0)
    batches: list[Batch] = []
    if len(data) > WHOLE_BYTES:
        start = first = 0
        while start < len(data):
            end, count = start, 0
            while count < BATCH_ROWS and end < len(data) and end - start < BATCH_BYTES:
                newline = data.find(b"\n", end)
                stop = len(data) if newline < 0 else newline + 1
                if count and stop - end > ROW_BYTES:
                    break  # the long line goes alone
                end = stop
                count += 1
            batches.append(Batch(first, count, start, end))
            first, start = first + count, end
    return RowIndex(total, is_text=True, batches=batches)
