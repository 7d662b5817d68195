"""A row too large to be handed over whole, cut into pieces that are, each in itself, something code can use.

Pieces of an object are some of its members, of an array some of its items, of a string a stretch of its characters;
what is too large inside is cut in turn, under its path. In their order they say all that the row says. A line of text
is cut between characters. Pure. Above: `rows.py`. Below: `survey.py`, `jsontext.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from gatemini.output.jsontext import decode, parse
from gatemini.piecewise.cutting import MEMBER, UP_TO_BRACKET, skip_space

MAX_LEVELS = 16
"""Containers gone into, one in another; what is too large further down comes as parts of its JSON text."""
_UP_TO_COMMA = re.compile(rb'[^"\[\]{},]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"\[\]{},]*+)*+', re.DOTALL)
_KEY_BYTES = 1024
_KEY_SHARE = 64
"""A key longer than this part of a piece is not part of its path, which has up to `MAX_LEVELS`."""
_LONGEST_ESCAPE = 12
"""Bytes of a surrogate pair written as two escapes."""
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.", re.DOTALL
)

Form = Literal["members", "items", "text", "part", "line"]


@dataclass(frozen=True, slots=True)
class Piece:
    """`data[start:end]` of a document: members or items (separated by commas), characters of a string, a part of the
    JSON text of what is nested too deep to be gone into, or a part of a line.

    `path` leads from the row to what the piece is of; `first` is the number of the first item.
    """

    form: Form
    start: int
    end: int
    path: tuple[str | int, ...] = ()
    first: int = 0

    def value(self, data: bytes) -> dict[str, Any]:
        """What code gets of the piece, `data` being its bytes."""
        made: dict[str, Any] = {"path": list(self.path)} if self.path else {}
        inside = {"members": b"{%b}", "items": b"[%b]", "text": b'"%b"'}.get(self.form)
        if inside is None:
            return {**made, "part": decode(data)}
        if self.form == "items":
            made["first"] = self.first
        parsed = parse(inside % data)
        if parsed is None or not parsed.faithful:  # nested too deep, or a key twice: then as it is written
            return {**made, "json": decode(inside % data)}
        return {**made, self.form: parsed.value}


def cut_json(data: bytes, start: int, end: int, most: int) -> list[Piece]:
    """The pieces of the JSON value in `data[start:end]`, none of more than `most` bytes."""
    return list(_value(data, start, end, most, ()))


def cut_line(data: bytes, start: int, end: int, most: int) -> list[Piece]:
    """The pieces of a line of UTF-8 text."""
    return [Piece("line", begin, stop) for begin, stop in _stretches(data, start, end, most, escapes=False)]


def _value(data: bytes, start: int, end: int, most: int, path: tuple[str | int, ...]) -> Iterator[Piece]:
    first = data[start : start + 1]
    if first == b'"':
        for begin, stop in _stretches(data, start + 1, end - 1, most, escapes=True):
            yield Piece("text", begin, stop, path)
    elif first in (b"{", b"[") and len(path) < MAX_LEVELS:
        yield from _container(data, start, end, most, path)
    else:
        for begin, stop in _stretches(data, start, end, most, escapes=False):
            yield Piece("part", begin, stop, path)


def _container(data: bytes, start: int, end: int, most: int, path: tuple[str | int, ...]) -> Iterator[Piece]:
    form: Form = "items" if data[start : start + 1] == b"[" else "members"
    begin = last = -1
    first = 0
    for count, (item, stop) in enumerate(members(data, start, end)):
        if begin >= 0 and (stop - begin > most):
            yield Piece(form, begin, last, path, first)
            begin = -1
        if stop - item > most:
            key: str | int = count
            value = item
            if form == "members":
                found = MEMBER.match(data, item)
                named = (
                    parse(found[1])
                    if found and len(found[1]) <= min(_KEY_BYTES, most // _KEY_SHARE)
                    else None
                )
                if found is None or named is None:  # every piece would repeat the long key
                    for start_of, end_of in _stretches(data, item, stop, most, escapes=False):
                        yield Piece("part", start_of, end_of, path)
                    last = stop
                    continue
                key, value = named.value, found.end()
            yield from _value(data, value, stop, most, (*path, key))
        elif begin < 0:
            begin, first = item, count
        last = stop
    if begin >= 0:
        yield Piece(form, begin, last, path, first)


def members(data: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Where each member of the container `data[start:end]` begins and ends, white space around it left out."""
    at = skip_space(data, start + 1)
    inner = end - 1
    while at < inner:
        stop = _member_end(data, at, inner)
        if stop <= at:
            return  # no JSON
        bare = stop
        while bare > at and data[bare - 1] in b" \t\r\n":
            bare -= 1
        yield at, bare
        at = skip_space(data, stop + 1)


def _member_end(data: bytes, at: int, end: int) -> int:
    """The offset of the comma after the member at `at`, or `end`."""
    depth = 0
    while at < end:
        found = (UP_TO_BRACKET if depth else _UP_TO_COMMA).match(data, at, end)
        at = found.end() if found else at
        if at >= end:
            return end
        sign = data[at]
        if sign == 0x2C and not depth:
            return at
        if sign == 0x22:  # a string without an end
            return end
        depth += 1 if sign in b"{[" else -1 if sign in b"}]" else 0
        at += 1
    return end


def _stretches(data: bytes, start: int, end: int, most: int, *, escapes: bool) -> Iterator[tuple[int, int]]:
    """Stretches of at most `most` bytes, cut between characters and, of JSON's strings, between escapes."""
    most = max(most, 2 * _LONGEST_ESCAPE)
    while end - start > most:
        cut = start + most
        while cut > start and data[cut] & 0xC0 == 0x80:  # inside a character
            cut -= 1
        if escapes:
            cut = _off_escape(data, start, cut)
        yield start, cut
        start = cut
    yield start, end


def _off_escape(data: bytes, start: int, cut: int) -> int:
    """`cut`, moved back off the inside of an escape, or of a surrogate pair written as two; `start` is outside one."""
    # The last stretch without a backslash is certainly outside: from its end on, escape by escape.
    at = cut
    while at > start and (cut - at < _LONGEST_ESCAPE or data[at - 1] == 0x5C):
        at -= 1
    run = at
    while run > start and data[run - 1] == 0x5C:
        run -= 1
    at = run
    while at < cut:
        found = _ESCAPE.match(data, at) if data[at] == 0x5C else None
        stop = found.end() if found else at + 1
        if stop > cut:
            return at
        at = stop
    return cut
