"""Where a large JSON container can be cut between two of its members.

Batches of members are cut at places that look like a boundary between two of them and are certain once parsed: from a
true boundary on, a slice that ends inside a string or a member is never valid JSON. Where the guess fails, a tokenizer
finds the boundary. Pure. Above: `reading.py`, `output/survey.py`, `output/branches.py`. Below: `strings.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from gatemini.piecewise.strings import NotInPieces, string_end

CANDIDATES = 3
"""Likely boundaries tried before the tokenizer is asked."""
_MISSES = 3
"""Batches of one container for which no guess was right; from then on the tokenizer is asked at once."""

TOKEN_OR_COMMA = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{},]', re.DOTALL)
_TOKEN_OR_COMMA = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(")?|[\[\]{},]', re.DOTALL)
"""The same within a window: of a string that goes on after it there is no closing quote."""
UP_TO_BRACKET = re.compile(rb'[^"\[\]{}]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"\[\]{}]*+)*+', re.DOTALL)
"""Everything up to the next bracket outside of strings."""
_BRACKET = re.compile(UP_TO_BRACKET.pattern + rb"[\[\]{}]", re.DOTALL)
"""That, and the bracket."""
MEMBER = re.compile(rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")[ \t\r\n]*:[ \t\r\n]*', re.DOTALL)
"""The key of a member, its colon and the space around that."""
_SPACE = re.compile(rb"[ \t\r\n]*")
_FIRST_KEY = re.compile(rb'\{[ \t\r\n]*("[^"\\]{1,64}")[ \t\r\n]*:')
_KEY = rb'"[^"\\]{0,128}"[ \t\r\n]*:[ \t\r\n]*'
_COMMA = rb"[ \t\r\n]*,[ \t\r\n]*"

BOUNDARY = {
    ord("{"): re.compile(rb"\}[ \t\r\n]*,[ \t\r\n]*\{"),
    ord("["): re.compile(rb"\][ \t\r\n]*,[ \t\r\n]*\["),
    ord('"'): re.compile(rb'"[ \t\r\n]*,[ \t\r\n]*"'),
}
SCALAR_BOUNDARY = re.compile(rb"[0-9el][ \t\r\n]*,")
"""After a number, true, false or null."""

Read = Callable[[int, int, bool], Any]
"""The members in `data[start:end]`, as a list or dict; empty or None where these are not whole members.

The third argument tells that the end was guessed."""


class Cutter:
    """Finds where the next batch of one container ends, and what it holds."""

    def __init__(self, data: bytes, bracket: int, first: int, batch: int, read: Read) -> None:
        self.data = data
        self.batch = batch
        self._read = read
        self._patterns = list(_boundaries(data, bracket, first))
        self._misses = 0
        self._counting = False

    def next(self, start: int) -> tuple[int, Any] | None:
        """(end, members) of a batch; None where a container begins that is larger than a batch."""
        if self._misses < _MISSES:
            found = self._guess(start)
            if found is not None:
                return found
            self._misses += 1
        cut = self._walk(start)
        if cut is None:
            return None
        items = self._read(start, cut, False)
        if not items:
            raise NotInPieces
        return cut, items

    def _guess(self, start: int) -> tuple[int, Any] | None:
        for pattern in self._patterns:
            for cut in likely_cuts(self.data, pattern, start, self.batch, counting=self._counting):
                if items := self._read(start, cut, True):
                    return cut, items
        if self._counting:
            return None
        self._counting = True  # counting takes time: only where it is needed
        return self._guess(start)

    def _walk(self, start: int) -> int | None:
        """Where the last member ends that ends within a batch, or a giant text; None where a container does not."""
        data = self.data
        depth = 0
        cut = at = start
        target = start + self.batch
        while depth or at < target or cut == start:
            if depth:
                found = _BRACKET.match(data, at, target)
            else:
                found = _TOKEN_OR_COMMA.search(data, at, max(at, target) + self.batch)
            if found is None:
                if depth:
                    return cut if cut > start else None
                at = max(at, target) + self.batch
                if at >= len(data):
                    raise NotInPieces  # the document ends before its container
                continue
            at = found.end()
            first = data[at - 1] if depth else data[found.start()]
            if first == 0x22 and found[1] is None:
                if cut > start:
                    return cut  # a giant goes alone: whoever reads it finds its end
                at = string_end(data, found.start())
            elif first == 0x2C:
                cut = at - 1
            elif first in b"{[":
                depth += 1
            elif first in b"}]":
                depth -= 1
                if depth < 0:  # a giant last member goes alone: what is before it may have to be read exactly
                    return cut if cut > start and at > target + self.batch else at - 1
        return cut


def _boundaries(data: bytes, bracket: int, first: int) -> Iterator[re.Pattern[bytes]]:
    """What likely lies between two members, most certain first; each begins with a member's last byte."""
    indent = data[bracket + 1 : first]
    array = data[bracket] == 0x5B
    if b"\n" in indent:
        opening = b"[^ \t\r\n]" if array else b'"'
        yield re.compile(rb'[\]}"0-9el],' + re.escape(indent) + opening)
    value = first
    between = _COMMA
    if not array:
        found = MEMBER.match(data, first)
        value = found.end() if found else first
        between += _KEY
    opening = data[value : value + 1]
    if opening == b"{":
        key = _FIRST_KEY.match(data, value)
        if key is not None:
            yield re.compile(rb"\}" + between + rb"\{[ \t\r\n]*" + re.escape(key[1]))
    if array:
        yield BOUNDARY.get(opening[0], SCALAR_BOUNDARY) if opening else SCALAR_BOUNDARY
    elif opening in (b"{", b"["):
        yield re.compile(re.escape(b"}" if opening == b"{" else b"]") + between + re.escape(opening))
    else:
        yield re.compile(rb'["0-9el]' + between)


def likely_cuts(
    data: bytes, pattern: re.Pattern[bytes], start: int, batch: int, *, counting: bool
) -> Iterator[int]:
    """Offsets, at least `batch` after `start`, at which a member ends that began there, if the pattern is right.

    `counting`: only where as many brackets were closed as opened, which those in strings may make wrong.
    """
    target = start + batch
    braced = squared = start
    braces = squares = 0
    given = 0
    for found in pattern.finditer(data, target, target + batch):
        cut = found.start() + 1
        if counting:
            braces += data.count(b"{", braced, cut) - data.count(b"}", braced, cut)
            braced = cut
            if braces:
                continue
            squares += data.count(b"[", squared, cut) - data.count(b"]", squared, cut)
            squared = cut
        if not squares:
            yield cut
            given += 1
            if given == CANDIDATES:
                return


def skip_space(data: bytes, at: int) -> int:
    found = _SPACE.match(data, at)
    return found.end() if found else at
