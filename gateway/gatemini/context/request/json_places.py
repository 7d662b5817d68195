"""JSON values with their places in the text, so that a changed value leaves all other bytes alone.

A value is read one level at a time, when it is looked into. Places count bytes from the beginning of the document.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Raw

from gatemini.output.json import lazy_json as lazy
from gatemini.output.json.json_text import parse
from gatemini.text.utf8 import decode

_SEPARATORS = re.compile(rb"[ \t\r\n,]*")
_KEY = re.compile(rb'[ \t\r\n,]*("(?:[^"\\]++|\\.)*+")[ \t\r\n]*:[ \t\r\n]*', re.DOTALL)
_END = re.compile(rb"[ \t\r\n]*\}")
HEAD_BYTES = 64
"""Of a value that are compared to see that it is the one in its place."""
_KINDS = {0x7B: "object", 0x5B: "array", 0x22: "string", 0x74: "boolean", 0x66: "boolean", 0x6E: "null"}
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[{]|[\]}]|[^\[\]{}",: \t\r\n]++', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Edit:
    """The bytes from `start` to `end` become `new`."""

    start: int
    end: int
    new: bytes


@dataclass(frozen=True, slots=True)
class Document:
    """A document's bytes. `exact`: they were read as they are, without replaced halves of surrogate pairs."""

    data: bytes
    exact: bool


class Json:
    """One value of a document; it begins at `start`, and `first` is its first byte."""

    __slots__ = ("_items", "_known", "_members", "document", "first", "raw", "start")

    def __init__(self, document: Document, start: int, raw: Raw, first: int) -> None:
        self.document = document
        self.start = start
        self.raw = raw
        self.first = first
        self._members: list[tuple[str, Json]] | None = None
        self._known: dict[str, Json] | None = None
        self._items: list[Json] | None = None

    @property
    def data(self) -> bytes:
        """The whole document."""
        return self.document.data

    @property
    def end(self) -> int:
        return self.start + len(self.raw)

    @property
    def written(self) -> bytes:
        """The value's very bytes."""
        return self.document.data[self.start : self.start + len(self.raw)]

    @property
    def kind(self) -> str:
        """`object`, `array`, `string`, `number`, `boolean` or `null`."""
        return _KINDS.get(self.first, "number")

    @property
    def is_object(self) -> bool:
        return self.first == 0x7B

    @property
    def is_array(self) -> bool:
        return self.first == 0x5B

    @property
    def is_string(self) -> bool:
        return self.first == 0x22

    def members(self) -> list[tuple[str, Json]]:
        """Key and value of an object, as they are written; a key may occur twice."""
        if self._members is None:
            self._members = self._walk(lazy.fields(self.raw)) or self._walk_twice_written()
        return self._members

    def get(self, *keys: str) -> Json | None:
        """The member of an object under the first of these keys that it has; the last one, where written twice."""
        known = self._known
        if known is None:
            known = self._known = dict(self.members()) if self.first == 0x7B else {}
        for key in keys:
            if key in known:
                return known[key]
        return None

    def items(self) -> list[Json]:
        """The items of an array."""
        if self._items is None:
            document, at = self.document, self.start + 1
            data, found = document.data, []
            for raw in lazy.items(self.raw):
                at = _after(_SEPARATORS, data, at)
                found.append(Json(document, at, raw, data[at]))
                at += len(raw)
            self._items = found
        return self._items

    def objects(self) -> list[Json]:
        """The items that are objects; none of anything but an array."""
        return [item for item in self.items() if item.is_object] if self.is_array else []

    def string(self) -> str:
        """The text of a string; of another value its JSON as it is written."""
        if not self.is_string:
            return decode(self.written)
        if self.document.exact:
            return lazy.string(self.raw)
        return str(json.loads(decode(self.written)))

    def text_of(self, *keys: str) -> str | None:
        """The text under a key, where it is a string."""
        found = self.get(*keys)
        return found.string() if found is not None and found.first == 0x22 else None

    def value(self) -> Any:
        """The value, with digits beyond a double's as text."""
        found = parse(self.written)
        return None if found is None else found.value

    def compact(self) -> bytes:
        """The value without white space, numbers and strings as they are written."""
        return bytes(lazy.compacted(self.raw, self.written))

    def replaced(self, new: bytes) -> Edit:
        return Edit(self.start, self.end, new)

    def with_member(self, member: bytes) -> Edit:
        """Add `"key":value` behind the members of an object."""
        members = self.members()
        at = members[-1][1].end if members else self.end - 1
        return Edit(at, at, b"," + member if members else member)

    def with_item(self, item: bytes) -> Edit:
        """Add an item behind those of an array."""
        items = self.items()
        at = items[-1].end if items else self.end - 1
        return Edit(at, at, b"," + item if items else item)

    def _walk(self, known: dict[str, Raw]) -> list[tuple[str, Json]] | None:
        """Members in their places; None where keys are written twice, so that the lengths do not fit."""
        document, at = self.document, self.start + 1
        data, match_key = document.data, _KEY.match
        found: list[tuple[str, Json]] = []
        for key, raw in known.items():
            match = match_key(data, at)
            if match is None:
                return None
            at = match.end()
            found.append((key, Json(document, at, raw, data[at])))
            at += len(raw)
        closing = _END.match(data, at)
        if closing is None or closing.end() != self.end:
            return None
        # Of keys written twice only the last value is known: then the last place holds something else.
        if found and document.exact:
            last = found[-1][1]
            if data[last.start : last.start + HEAD_BYTES][: len(last.raw)] != bytes(
                memoryview(last.raw)[:HEAD_BYTES]
            ):
                return None
        return found

    def _walk_twice_written(self) -> list[tuple[str, Json]]:
        """Members of an object that has a key twice; the ends are found token by token."""
        view, at = memoryview(self.raw), 1
        found: list[tuple[str, Json]] = []
        while (match := _KEY.match(view, at)) is not None:
            begin, depth, at = match.end(), 0, match.end()
            while True:
                token = _TOKEN.search(view, at)
                if token is None:
                    return found
                at = token.end()
                depth += {0x5B: 1, 0x7B: 1, 0x5D: -1, 0x7D: -1}.get(view[token.start()], 0)
                if depth == 0:
                    break
            value = msgspec.json.decode(view[begin:at], type=Raw)
            found.append(
                (str(json.loads(match[1])), Json(self.document, self.start + begin, value, view[begin]))
            )
        return found


def read_json(data: bytes) -> Json | None:
    """The document, or None where `data` is not JSON or nests deeper than about 900 levels."""
    raw = lazy.checked(data)
    if raw is None:
        return None
    exact = (b"\\u" not in data and b"\xed" not in data) or bytes(raw) == data.strip(lazy.WHITE)
    return Json(Document(data, exact), lazy.after_space(data, 0), raw, memoryview(raw)[0])


def spliced(data: bytes, edits: Iterable[Edit]) -> bytes:
    """The document with these edits, which do not overlap."""
    parts: list[bytes] = []
    at = 0
    for edit in sorted(edits, key=lambda each: (each.start, each.end)):
        parts += (data[at : edit.start], edit.new)
        at = edit.end
    return b"".join((*parts, data[at:])) if parts else data


def without_items(array: Json, gone: Sequence[bool]) -> list[Edit]:
    """Remove items of an array, each with one comma and the white space around it."""
    items, edits = array.items(), []
    kept = [index for index, is_gone in enumerate(gone) if not is_gone]
    if not kept:
        return [Edit(items[0].start, items[-1].end, b"")] if items else []
    if kept[0] > 0:
        edits.append(Edit(items[0].start, items[kept[0]].start, b""))
    for before, after in zip(kept, [*kept[1:], len(items)], strict=True):
        if after > before + 1:
            edits.append(Edit(items[before].end, items[after - 1].end, b""))
    return edits


def _after(pattern: re.Pattern[bytes], data: bytes, at: int) -> int:
    found = pattern.match(data, at)
    return found.end() if found else at
