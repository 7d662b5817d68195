"""JSON too large to show: arrays as count, types and first rows; the rest by key path, with sizes.

`look` finds the arrays, `collapsed` writes the document with something shorter in their places, and `outline` shows
small branches in full and lists the others. What they give is JSON.
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
"""Fewer rows than this are shown, not collapsed."""
MIN_BYTES = 1024
"""Arrays smaller than this are not where the bulk lies."""
MIN_SHARE = 5000
"""… nor are those smaller than this part of the document."""
CHUNK_BYTES = 4096
ROW_SHOWN_BYTES = 1024
"""Of rows that have differing keys, the first ones up to this size are shown."""
MISSING_TOLD = 24
"""Keys that some rows lack, of which is told how many lack them."""
MAX_DEPTH = 12
"""Levels looked into; deeper ones are part of their branch."""
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
    """A container with something in it that was looked into; of an array, the summary of its items."""

    raw: Raw
    inner: dict[str, Any] | list[Any]
    summary: Summary | None = None

    @property
    def bytes(self) -> int:
        return len(self.raw)


Node = Raw | Rows | Opened


class StandIn(dict[str, Any]):
    """An object of ours in an array's place; whatever its keys, none of the document's is one."""


def look(raw: Raw, least: int = 0, level: int = 0) -> Node:
    """The document with its arrays found and described, as far as they have `least` bytes."""
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
    """The object that stands for a uniform array, or for one of plain values."""
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
    """What can be said of rows that are of no one kind; the first ones up to a size are shown."""
    return _facts(
        summary, list(takewhile(lambda row: len(row) <= ROW_SHOWN_BYTES, items[: detail.rows])), detail
    )


def _facts(summary: Summary, shown: list[Any], detail: Detail) -> dict[str, Any]:
    """How many rows, their types, which keys some lack, the first rows, a digest."""
    made: dict[str, Any] = {"total_rows": summary.total, "shown_rows": len(shown), "types": summary.schema()}
    missing = summary.missing if summary.all_objects else {}
    if missing and (summary.uniform or len(missing) <= MISSING_TOLD):
        made["missing_in_rows"] = missing
    made["first_rows"] = shown
    if detail.digest and (digest := summary.digest()):
        made["digest"] = digest
    return made


def _identity(row: Raw, keys: Sequence[str]) -> Any:
    """What names a row, as it is written, if it is short."""
    for key in keys:
        found = lazy.fields(row).get(key) if lazy.is_object(row) else None
        if found is None:
            return None
        row = found
    return short(lazy.value(row)) if len(row) > IDENTITY_CHARS else row


@dataclass(frozen=True, slots=True)
class Collapsed:
    """The document with arrays shortened, and of each of them (total rows, rows shown) by its path."""

    value: Any
    arrays: dict[str, tuple[int, int]]


def collapsed(node: Node, detail: Detail, target: int) -> Collapsed:
    """Arrays become what stands for them; where that is more than `target` bytes, also those inside first rows."""
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
    """`results > items > [0-4]`; the document itself is `(root)`."""
    return SEPARATOR.join(key or '""' for key in path) if path else "(root)"


def kilobytes(count: int) -> str:
    return f"{count / 1024:.1f}KB"
