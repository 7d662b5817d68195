"""Shorten the arrays of JSON that is too large to show: to their count, the types of their fields, and first rows.

`look` finds the arrays, `collapsed` writes the document with descriptions in their places. What they give is JSON;
`document_outline.py` shortens what is still too large.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from msgspec import Raw

from gatemini.output.describe_value import IDENTITY_CHARS, short
from gatemini.output.digest import Summary, summarise
from gatemini.output.json import lazy_json as lazy
from gatemini.output.json.lazy_json import size

FIRST_ROWS = 3
IDENTITIES = 20
MIN_ROWS = 5
"""An array with fewer rows is shown, not collapsed."""
MIN_BYTES = 1024
"""Smallest array, in bytes, that is collapsed …"""
MIN_SHARE = 5000
"""… and its smallest part of the document, as a divisor."""
CHUNK_BYTES = 4096
ROW_SHOWN_BYTES = 1024
"""Size of the first rows that are shown if rows have differing keys."""
MOST_MISSING = 24
"""Most keys that are listed with the number of rows without them."""
MAX_DEPTH = 12
"""Levels that are outlined separately; deeper ones count as part of their branch."""
SEPARATOR = " > "


@dataclass(frozen=True, slots=True)
class Detail:
    """How much of an array is shown; `texts`: characters that plain texts may have together."""

    rows: int = FIRST_ROWS
    identities: int = IDENTITIES
    digest: bool = True
    texts: int = CHUNK_BYTES


DETAILS = (
    Detail(),
    Detail(rows=1, identities=10, texts=CHUNK_BYTES // 4),
    Detail(rows=1, identities=0, digest=False, texts=0),
    Detail(0, 0, False, 0),
)


@dataclass(frozen=True, slots=True)
class Rows:
    """An array that its count, types and first rows describe."""

    raw: Raw
    items: Sequence[Raw]
    summary: Summary

    @property
    def bytes(self) -> int:
        return len(self.raw)


@dataclass(frozen=True, slots=True)
class Opened:
    """A container with at least one outlined member; for an array, `summary` describes its items."""

    raw: Raw
    inner: dict[str, Any] | list[Any]
    summary: Summary | None = None

    @property
    def bytes(self) -> int:
        return len(self.raw)


Node = Raw | Rows | Opened


class StandIn(dict[str, Any]):
    """A description that replaces an array. Its own type distinguishes it from objects of the document."""


def look(raw: Raw, least: int = 0, level: int = 0) -> Node:
    """Find and describe the arrays of the document that have at least `least` bytes."""
    least = least or max(MIN_BYTES, len(raw) // MIN_SHARE)
    if len(raw) < least or level > MAX_DEPTH or not lazy.is_container(raw):
        return raw
    if not lazy.is_array(raw):
        fields = lazy.fields(raw)
        found = {key: look(item, least, level + 1) for key, item in fields.items()}
        return raw if all(found[key] is item for key, item in fields.items()) else Opened(raw, found)
    items = lazy.items(raw)
    summary = None
    if len(items) >= MIN_ROWS:
        summary = summarise(items)
        if summary.collapsible:
            return Rows(raw, items, summary)
    if max(map(len, items), default=0) < least:
        return Opened(raw, items, summary) if summary else raw
    return Opened(raw, [look(item, least, level + 1) for item in items], summary)


def stand_in(rows: Rows, detail: Detail) -> StandIn:
    """Return the description that replaces a uniform array, or an array of plain values."""
    summary, head = rows.summary, rows.items[: FIRST_ROWS + IDENTITIES]
    shown: list[Any]
    if summary.plain is not None:
        first = head[: detail.identities or detail.rows]
        each = max(IDENTITY_CHARS, detail.texts // max(1, len(first)))
        shown = [short(lazy.string(item), each) if lazy.is_string(item) else item for item in first]
    else:
        shown = list(head[: detail.rows])
    made = StandIn()
    made["$reduced"] = f"{summary.total} {'values' if summary.plain else 'rows'}, first {len(shown)} shown"
    made |= _facts(summary, shown, detail)
    keys = summary.identity
    if keys is not None and detail.identities:
        later = head[detail.rows : detail.rows + detail.identities]
        made["next_identities"] = {"key": ".".join(keys), "values": [_identity(row, keys) for row in later]}
    return made


def varied_rows(summary: Summary, items: Sequence[Raw], detail: Detail) -> dict[str, Any]:
    """Describe rows of differing kinds; the first ones up to a size are shown."""
    return _facts(
        summary, list(takewhile(lambda row: len(row) <= ROW_SHOWN_BYTES, items[: detail.rows])), detail
    )


def _facts(summary: Summary, shown: list[Any], detail: Detail) -> dict[str, Any]:
    """Return the number of rows, their types, keys that some rows lack, the first rows and a digest."""
    made: dict[str, Any] = {"total_rows": summary.total, "shown_rows": len(shown), "types": summary.schema()}
    missing = summary.missing if summary.all_objects else {}
    if missing and (summary.uniform or len(missing) <= MOST_MISSING):
        made["missing_in_rows"] = missing
    made["first_rows"] = shown
    if detail.digest and (digest := summary.digest()):
        made["digest"] = digest
    return made


def _identity(row: Raw, keys: Sequence[str]) -> Any:
    """Return the identity of a row as JSON, if it is short."""
    for key in keys:
        found = lazy.fields(row).get(key) if lazy.is_object(row) else None
        if found is None:
            return None
        row = found
    return short(lazy.value(row)) if len(row) > IDENTITY_CHARS else row


@dataclass(frozen=True, slots=True)
class Collapsed:
    """The document with arrays shortened, and path → (total rows, rows shown) of each of them."""

    value: Any
    arrays: dict[str, tuple[int, int]]


def collapsed(node: Node, detail: Detail, target: int) -> Collapsed:
    """Replace arrays by their descriptions; if the result exceeds `target` bytes, also arrays inside the first rows."""
    arrays: dict[str, tuple[int, int]] = {}
    value = _filled(node, detail, (), arrays, inside=False)
    if arrays and detail.rows and size(value) > target:
        arrays = {}
        value = _filled(node, detail, (), arrays, inside=True)
    return Collapsed(value, arrays)


def _filled(
    node: Node, detail: Detail, path: tuple[str, ...], arrays: dict[str, tuple[int, int]], *, inside: bool
) -> Any:
    if isinstance(node, Rows):
        made = stand_in(node, detail)
        if inside and node.summary.plain is None:
            rows = enumerate(made["first_rows"])
            made["first_rows"] = [
                _filled(look(row), detail, (*path, "first_rows", f"[{n}]"), arrays, inside=True)
                for n, row in rows
            ]
        if size(made) >= node.bytes:
            return node.raw
        arrays[path_text(path)] = (node.summary.total, made["shown_rows"])
        return made
    if isinstance(node, Raw):
        return node
    if isinstance(node.inner, dict):
        return {
            key: _filled(item, detail, (*path, key), arrays, inside=inside)
            for key, item in node.inner.items()
        }
    if set(map(type, node.inner)) == {Raw}:
        return node.raw
    return [
        _filled(item, detail, (*path, f"[{n}]"), arrays, inside=inside) for n, item in enumerate(node.inner)
    ]


def path_text(path: Sequence[str]) -> str:
    """Return a path as text: `results > items > [0-4]`, and `(root)` for the document itself."""
    return SEPARATOR.join(key or '""' for key in path) if path else "(root)"


def kilobytes(count: int) -> str:
    return f"{count / 1024:.1f}KB"
