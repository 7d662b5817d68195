"""Rows inside a stored document: which array they are, how many, and any stretch of them without reading all.

Rows are the elements of the root array, or of an array inside the root object that holds the bulk; other
JSON is one row; of a text, rows are its lines. Above: `results.py`. Below: `jsontext.py`, `digest.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gatemini.output.digest import Summary
from gatemini.output.jsontext import decode, lines, parse, size

BULK_SHARE = 0.5
MAX_DEPTH = 4
"""Levels of objects looked into for the array that holds the bulk."""


@dataclass(slots=True)
class RowIndex:
    """`path` is empty for the root array."""

    total: int
    path: str = ""
    keys: tuple[str, ...] = ()
    summary: Summary | None = None
    is_text: bool = False

    def read(self, data: bytes, offset: int, limit: int) -> list[Any]:
        if self.is_text:
            return lines(decode(data))[offset : offset + limit]
        parsed = parse(data)
        value: Any = parsed.value if parsed else []
        for key in self.keys:
            value = value[key]
        rows = value if isinstance(value, list) else [value]
        return rows[offset : offset + limit]


def index_rows(data: bytes, *, as_text: bool) -> RowIndex:
    parsed = None if as_text else parse(data)
    if parsed is None:
        return RowIndex(len(lines(decode(data))), is_text=True)
    keys = bulk_path(parsed.value)
    value = parsed.value
    for key in keys or ():
        value = value[key]
    rows = value if isinstance(value, list) else [value]
    summary = Summary()
    summary.add(rows)
    return RowIndex(len(rows), " > ".join(keys or ()), keys or (), summary)


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
