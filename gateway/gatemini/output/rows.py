"""Rows inside a stored document: which array they are, how many, and any stretch of them without reading all.

Rows are the elements of the root array, or of an array inside the root object that holds the bulk; other
JSON is one row; of a text, rows are its lines.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import orjson
from msgspec import Raw

from gatemini.output import lazy
from gatemini.output.digest import Summary, summarise
from gatemini.output.json_reduce import SEPARATOR
from gatemini.output.jsontext import decode, dump, encode, is_json, lines, parse, parse_carefully
from gatemini.output.lazy import BATCH_BYTES, BATCH_ROWS
from gatemini.output.pieces import cut_json, cut_text

ROW_BYTES = 128 << 10
"""A larger row is a batch of its own, and is not parsed before it is known to fit."""
DESCRIBED_BYTES = 8 << 20
"""Of a larger document that is one row only its kind goes into schema and digest: parsed, it takes fifteen times its size."""
CUTS_KEPT = 2
"""Rows in pieces that are remembered: reading follows `next_offset` through one of them at a time."""

Read = Callable[[int, int | None], bytes]
"""`read(start, end)` gives these bytes of the document; from memory or from disk."""

Shown = Callable[[str], str]
"""The same text without secrets."""


Found = tuple[Raw, Sequence[Raw], Summary]
"""An array, its items, and what is said of them."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows `first` to `first + count - 1` lie in `data[start:end]`, separated by commas."""

    first: int
    count: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Unread:
    """A row that is too large or nested too deep to be parsed with others: where it is."""

    start: int
    end: int


@dataclass(slots=True)
class RowIndex:
    """Where rows are. `keys` lead to their array."""

    total: int
    keys: tuple[str, ...] = ()
    schema: dict[str, str] | str | None = None
    digest: dict[str, Any] = field(default_factory=dict)
    is_text: bool = False
    batches: list[Batch] = field(default_factory=list)
    doubled: set[int] = field(default_factory=set)
    """Rows read so far in which a key occurs twice."""
    _cuts: dict[tuple[int, int, int], list[Any]] = field(default_factory=dict)
    """By row, bytes of a piece, and the hash of the text that was cut; least recently used first."""

    @property
    def path(self) -> str:
        return SEPARATOR.join(self.keys)

    def groups(self, read: Read, offset: int, limit: int) -> Iterator[tuple[list[Any], int]]:
        """The rows from `offset` to `offset + limit`, some at a time: (rows, bytes they have at the most).

        A row is its value, or `Unread`.
        """
        end = min(self.total, offset + limit)
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
        array = b"[%b]" % data
        parsed = parse(array)
        if parsed is not None and not parsed.duplicates:
            return list(parsed.value)
        if batch.count == 1:
            if parsed is not None:
                self.doubled.add(batch.first)
            return [Unread(batch.start, batch.end)] if parsed is None else list(parsed.value)
        found = _items(array)  # one of them is nested too deep, or has a key twice
        rows: list[Any] = []
        for number, (start, end) in enumerate(lazy.spans(data, 0, ([row] for row in found)), batch.first):
            rows += self._batch(Batch(number, 1, batch.start + start, batch.start + end), read)
        return rows

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
        at = found[0]
        if isinstance(at, Unread):  # noqa: SIM108 - one line of both is harder to read
            data = read(at.start, at.end)
        else:
            data = encode(at if self.is_text else dump(at))
        if shown is not None:
            data = encode(shown(decode(data)))
        # What is shown changes with the secrets that are known, and may be as long as before.
        key = (row, most, hash(data))
        pieces = self._cuts.pop(key, None) or self._cut(data, most)
        self._cuts[key] = pieces
        if len(self._cuts) > CUTS_KEPT:
            del self._cuts[next(iter(self._cuts))]
        if number >= len(pieces):
            return None
        piece = pieces[number]
        return (piece if isinstance(piece, str) else _value(piece)), len(pieces)

    def _cut(self, data: bytes, most: int) -> list[Any]:
        if self.is_text:
            return list(cut_text(decode(data.removesuffix(b"\n")), most))
        if not is_json(data):  # a secret may have been all digits, or a key
            return [lazy.written({"part": part}) for part in cut_text(decode(data), most)]
        return list(cut_json(data, most))


def _value(piece: bytes) -> Any:
    found = parse(piece)
    return None if found is None else found.value


def index_rows(
    data: bytes,
    *,
    as_text: bool,
    root: Raw | None = None,
    known: Callable[[tuple[str, ...]], Found | None] = lambda keys: None,
) -> RowIndex:
    """`as_text` False: as JSON if it is JSON, else as text all the same.

    `root` is the document, where that has been read; then `known` may know the array that some keys lead to.
    """
    if as_text:
        return _index_lines(data)
    root = lazy.checked(data) if root is None else root
    if root is None:
        return _deep_rows(data) if is_json(data) else _index_lines(data)
    keys = lazy.bulk_path(root)
    if keys is None:
        index = _one_row(data)
        if len(root) <= DESCRIBED_BYTES:
            _describe(index, summarise([root]))
        return index
    array, rows, summary = known(keys) or _found(lazy.at_keys(root, keys))
    index = RowIndex(len(rows), keys)
    _describe(index, summary)
    groups = list(_groups(rows))
    begin, first = lazy.offset_in(root, array), 0
    around = lazy.after_space(data, 0)
    for group, (start, end) in zip(groups, lazy.spans(data, around + begin + 1, groups), strict=True):
        index.batches.append(Batch(first, len(group), start, end))
        first += len(group)
    return index


def _found(array: Raw) -> Found:
    rows = lazy.items(array)
    return array, rows, summarise(rows)


def _groups(rows: Sequence[Raw]) -> Iterator[Sequence[Raw]]:
    """Rows that are read together; a large one goes alone."""
    for group in lazy.batches(rows):
        if max(map(len, group)) <= ROW_BYTES:
            yield group
        else:
            yield from ([row] for row in group)


def _describe(index: RowIndex, summary: Summary) -> None:
    index.schema, index.digest = summary.schema(), summary.digest()


def _items(array: bytes) -> list[Raw]:
    """What is in an array, however deep it nests."""
    checked = lazy.checked(array)
    if checked is not None:
        return lazy.items(checked)
    parsed = parse_carefully(array)
    return [Raw(encode(dump(row))) for row in (orjson.loads(array) if parsed is None else parsed.value)]


def _deep_rows(data: bytes) -> RowIndex:
    """The rows of a document that nests too deep to be read lazily: those of an array written without white space."""
    index = _one_row(data)
    rows = _items(data) if data[:1] == b"[" else []
    if not rows or b"[%b]" % b",".join(rows) != data:
        return index
    starts = accumulate(rows, lambda at, row: at + len(row) + 1, initial=1)
    index.total = len(rows)
    index.batches = [
        Batch(n, 1, at, at + len(row)) for n, (at, row) in enumerate(zip(starts, rows, strict=False))
    ]
    return index


def _one_row(data: bytes) -> RowIndex:
    start = lazy.after_space(data, 0)
    kind = {b"{": "object", b"[": "array"}.get(data[start : start + 1], "string")
    return RowIndex(1, schema=kind, batches=[Batch(0, 1, start, len(data.rstrip(b" \t\r\n")))])


def _index_lines(data: bytes) -> RowIndex:
    total = data.count(b"\n") + (1 if data and not data.endswith(b"\n") else 0)
    index = RowIndex(total, is_text=True)
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
        index.batches.append(Batch(first, count, start, end))
        first, start = first + count, end
    return index
