"""Rows inside a stored document: which array they are, how many, and any stretch of them without reading all.

Rows are the elements of the root array, or of an array inside the root object that holds the bulk; other
JSON is one row; of a text, rows are its lines.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import Raw

from gatemini.output.collapsed_arrays import SEPARATOR
from gatemini.output.digest import Summary, one_row, summarise
from gatemini.output.json import lazy_json as lazy
from gatemini.output.json.json_text import dump, lines, parse
from gatemini.output.json.lazy_json import BATCH_BYTES, BATCH_ROWS
from gatemini.text.utf8 import decode

ROW_BYTES = 128 << 10
"""A larger row is a batch of its own, and is not parsed before it is known to fit."""
Read = Callable[[int, int | None], bytes]
"""`read(start, end)` gives these bytes of the document; from memory or from disk."""

Found = tuple[Raw, Sequence[Raw], Summary]
"""An array, its items, and what is said of them."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows `first` to `first + count - 1` lie in `data[start:end]`, separated by commas."""

    first: int
    count: int
    start: int
    end: int


@dataclass(slots=True)
class RowIndex:
    """The positions of a document's rows. `keys` lead to their array."""

    total: int
    keys: tuple[str, ...] = ()
    schema: dict[str, str] | str | None = None
    digest: dict[str, Any] = field(default_factory=dict)
    is_text: bool = False
    batches: list[Batch] = field(default_factory=list)

    @property
    def path(self) -> str:
        return SEPARATOR.join(self.keys)

    def batches_from(self, row: int) -> Sequence[Batch]:
        """The batch that holds this row, and those after it."""
        if row >= self.total:
            return ()
        return self.batches[bisect_right(self.batches, row, key=lambda batch: batch.first) - 1 :]

    def rows(self, batch: Batch, read: Read) -> list[Any]:
        """The values of a batch's rows; lines of a text."""
        data = read(batch.start, batch.end)
        if self.is_text:
            return lines(decode(data))
        parsed = parse(b"[%b]" % data)
        return [decode(data)] if parsed is None else list(parsed.value)

    def row_text(self, row: int, read: Read) -> str:
        """One row as text: a line, or JSON as it was written where it is too large to be parsed."""
        batch = self.batches_from(row)[0]
        if batch.count == 1:
            text = decode(read(batch.start, batch.end))
            return text.removesuffix("\n") if self.is_text else text
        value = self.rows(batch, read)[row - batch.first]
        return value if self.is_text else dump(value)


def index_rows(
    data: bytes,
    *,
    as_text: bool,
    root: Raw | None = None,
    known: Callable[[tuple[str, ...]], Found | None] = lambda keys: None,
) -> RowIndex:
    """`as_text` False: as JSON if it is JSON, else as text all the same.

    JSON nested deeper than about 900 levels is one row. `root` is the document, where that has been read; then `known` may know the array that some keys lead to.
    """
    if as_text:
        return _index_lines(data)
    root = lazy.checked(data) if root is None else root
    if root is None:
        return _index_lines(data) if parse(data) is None else _one_row(data)
    keys = lazy.bulk_path(root)
    if keys is None:
        index = _one_row(data)
        row = one_row(root)
        if row is not None:
            _describe(index, summarise([Raw(lazy.written(row))]))
        return index
    array, rows, summary = known(keys) or _found(lazy.at_keys(root, keys))
    index = RowIndex(len(rows), keys)
    _describe(index, summary)
    groups = list(_groups(array, rows))
    begin, first = lazy.offset_in(root, array), 0
    around = lazy.after_space(data, 0)
    for group, (start, end) in zip(groups, lazy.spans(data, around + begin + 1, groups), strict=True):
        index.batches.append(Batch(first, len(group), start, end))
        first += len(group)
    return index


def _found(array: Raw) -> Found:
    rows = lazy.items(array)
    return array, rows, summarise(rows)


def _groups(array: Raw, rows: Sequence[Raw]) -> Iterator[Sequence[Raw]]:
    """Rows that are read together; a large one goes alone."""
    for group in lazy.batches(rows, len(array)):
        if max(map(len, group)) <= ROW_BYTES:
            yield group
        else:
            yield from ([row] for row in group)


def _describe(index: RowIndex, summary: Summary) -> None:
    index.schema, index.digest = summary.schema(), summary.digest()


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
