"""A row too large to be given whole, cut into pieces that are, each in itself, something code can use.

Pieces of an object are some of its members, of an array some of its items, of a string a stretch of its characters;
what is too large inside is cut in turn, under its path. In their order they say all that the row says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Raw

from gatemini.output import lazy
from gatemini.output.jsontext import parse

MAX_LEVELS = 16
"""Containers gone into, one in another; what is too large further down comes as parts of its JSON text."""
KEY_SHARE = 64
"""A key longer than this part of a piece is not part of its path, which has up to `MAX_LEVELS`."""


def cut_json(data: bytes, most: int) -> list[bytes]:
    """The pieces of a JSON value as JSON texts, each with at most `most` bytes of the row."""
    checked = lazy.checked(data)
    if checked is None:  # nested deeper than anything reads
        text = data.decode("utf-8", "replace")
        if len(data) <= most:
            return [lazy.written({"json": text})]
        return [lazy.written({"part": part}) for part in cut_text(text, most)]
    return list(map(lazy.written, _cut(lazy.compacted(checked, data), most, ())))


def cut_text(text: str, most: int) -> list[str]:
    """Stretches of a text of at most `most` bytes, cut between characters."""
    data = text.encode("utf-8", "surrogatepass")
    parts: list[str] = []
    start = 0
    while start < len(data) or not parts:
        end = min(len(data), start + most)
        while end < len(data) and data[end] & 0xC0 == 0x80:  # inside a character
            end -= 1
        parts.append(data[start:end].decode("utf-8", "surrogatepass"))
        start = end
    return parts


def _cut(raw: Raw, most: int, path: tuple[str | int, ...]) -> Iterator[dict[str, Any]]:
    at = {"path": list(path)} if path else {}
    if lazy.is_string(raw):
        for text in _cut_string(lazy.string(raw), most):
            yield {**at, "text": text}
    elif not lazy.is_container(raw) or len(path) >= MAX_LEVELS:
        for part in cut_text(bytes(raw).decode(), most):
            yield {**at, "part": part}
    elif lazy.is_array(raw):
        yield from _cut_items(lazy.items(raw), most, path, at)
    else:
        yield from _cut_members(lazy.fields(raw), most, path, at)


def _cut_string(text: str, most: int) -> Iterator[str]:
    """Stretches that are at most `most` bytes as JSON: a control character alone takes six."""
    for part in cut_text(text, most):
        if len(lazy.written(part)) - 2 <= most:
            yield part
        else:
            yield from cut_text(part, max(4, most // 6))


def _cut_items(
    rows: list[Raw], most: int, path: tuple[str | int, ...], at: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    first, load = 0, 0
    for number, row in enumerate(rows):
        if number > first and load + len(row) > most:
            yield {**at, "first": first, **_inside("items", rows[first:number])}
            first, load = number, 0
        if len(row) > most:
            yield from _cut(row, most, (*path, number))
            first = number + 1
        else:
            load += len(row) + 1
    if first < len(rows) or not rows:
        yield {**at, "first": first, **_inside("items", rows[first:])}


def _inside(form: str, node: Any) -> dict[str, Any]:
    """Items or members; as their JSON text where something nests too deep to be parsed."""
    data = lazy.written(node)
    return {form: Raw(data)} if parse(data) else {"json": data.decode()}


def _cut_members(
    fields: dict[str, Raw], most: int, path: tuple[str | int, ...], at: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    kept: dict[str, Raw] = {}
    load = 0
    for key, item in fields.items():
        weight = len(lazy.written(key)) + 1 + len(item)
        if kept and load + weight > most:
            yield {**at, **_inside("members", kept)}
            kept, load = {}, 0
        if weight <= most:
            kept[key] = item
            load += weight + 1
        elif len(key) > most // KEY_SHARE:  # every piece would repeat the long key
            for part in cut_text(lazy.written({key: item})[1:-1].decode(), most):
                yield {**at, "part": part}
        else:
            yield from _cut(item, most, (*path, key))
    if kept or not fields:
        yield {**at, **_inside("members", kept)}
