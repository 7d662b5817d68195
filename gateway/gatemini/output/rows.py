"""Rows inside a stored document: which array they are, how many, and any stretch of them without reading all.

Rows are the elements of the root array, or of an array inside the root object that holds the bulk; other
JSON is one row; of a text, rows are its lines. Above: `results.py`, `pipeline.py`. Below: `survey.py`,
`digest.py`, `jsontext.py`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gatemini.errors import InvalidRequest
from gatemini.output.digest import Summary
from gatemini.output.json_reduce import SEPARATOR
from gatemini.output.jsontext import decode, lines, parse, size
from gatemini.output.survey import WHOLE_BYTES, Batch, Bulk, NotSurveyed, Survey, survey

BULK_SHARE = 0.5
MAX_DEPTH = 4
"""Levels of objects looked into for the array that holds the bulk."""
LINE_BATCH = 1000
"""Lines between two remembered offsets of a long text."""

Read = Callable[[int, int | None], bytes]
"""`read(start, end)` gives these bytes of the document; from memory or from disk."""


@dataclass(slots=True)
class RowIndex:
    """Where rows are. `keys` lead to their array; `batches` is empty where all is parsed at once."""

    total: int
    keys: tuple[str, ...] = ()
    summary: Summary | None = None
    is_text: bool = False
    batches: list[Batch] = field(default_factory=list)

    @property
    def path(self) -> str:
        return SEPARATOR.join(self.keys)

    def read(self, read: Read, offset: int, limit: int) -> list[Any]:
        """Rows `offset` to `offset + limit`, fewer at the end."""
        if offset >= self.total or limit <= 0:
            return []
        if not self.batches:
            return self._parsed(read(0, None))[offset : offset + limit]
        at = bisect_right(self.batches, offset, key=lambda batch: batch.first) - 1
        rows: list[Any] = []
        skip = offset - self.batches[at].first
        while at < len(self.batches) and len(rows) < skip + limit:
            rows += self._batch(self.batches[at], read)
            at += 1
        return rows[skip : skip + limit]

    def _batch(self, batch: Batch, read: Read) -> list[Any]:
        data = read(batch.start, batch.end)
        if self.is_text:
            return lines(decode(data))
        parsed = parse(b"[" + data + b"]")
        if parsed is None:  # leaving them out would number all later rows wrongly
            raise InvalidRequest(
                f"one of the rows {batch.first} to {batch.first + batch.count - 1} cannot be read by itself: "
                "it is nested too deep, or the kept file was changed from outside",
                hint="results.load(handle) gives the whole value",
            )
        return list(parsed.value)

    def _parsed(self, data: bytes) -> list[Any]:
        if self.is_text:
            return lines(decode(data))
        parsed = parse(data)
        value: Any = parsed.value if parsed else []
        for key in self.keys:
            value = value[key]
        return value if isinstance(value, list) else [value]


def index_rows(data: bytes, *, as_text: bool) -> RowIndex:
    """`as_text` False: as JSON if it is JSON, else as text all the same."""
    if as_text:
        return _index_lines(data)
    if len(data) > WHOLE_BYTES:
        try:
            return index_survey(survey(data))
        except NotSurveyed:
            pass  # no long array in it, or no JSON: parsing at once decides
    parsed = parse(data)
    if parsed is None:
        return _index_lines(data)
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


def _index_lines(data: bytes) -> RowIndex:
    total = data.count(b"\n") + (1 if data and not data.endswith(b"\n") else 0)
    batches: list[Batch] = []
    if len(data) > WHOLE_BYTES:
        start = first = 0
        while start < len(data):
            end, count = start, 0
            while count < LINE_BATCH and end < len(data):
                newline = data.find(b"\n", end)
                end = len(data) if newline < 0 else newline + 1
                count += 1
            batches.append(Batch(first, count, start, end))
            first, start = first + count, end
    return RowIndex(total, is_text=True, batches=batches)


def bulk_path(value: Any) -> tuple[str, ...] | None:
    """Keys that lead to the array holding at least half of the document; None if there is none."""
    total = size(value)
    keys: list[str] = []
    while isinstance(value, dict) and len(keys) < MAX_DEPTH:
        large = [(size(child), key) for key, child in value.items() if isinstance(child, dict | list)]
        weight, key = max(large, default=(0, ""), key=lambda pair: pair[0])
        if weight < total * BULK_SHARE:
            return None
        keys.append(key)
        value = value[key]
    return tuple(keys) if isinstance(value, list) else None
