"""Strings of megabytes in JSON text, looked at in windows of a bounded size.

Between two windows other threads, the event loop's first of all, have their turn. Otherwise pure.
Above: `cutting.py`, `reading.py`. Below: `steps.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gatemini.piecewise.steps import give_way

WINDOW_BYTES = 256 * 1024
"""Bytes of a string looked at in one call: half a millisecond."""

_HIGH_HALF = re.compile(rb"\\u[dD][89abAB]")
_ESCAPE = 6
"""Bytes of the longest escape, one half of a surrogate pair."""

_LONGEST_TAIL = 3
"""Bytes of UTF-8 that may follow the first of a character."""


class NotInPieces(Exception):
    """The document is no JSON, or of a shape that cannot be read in pieces."""


def windows(data: bytes, opening: int) -> Iterator[tuple[int, int]]:
    """The content of the string whose quote is at `opening`, as (start, end) of windows; the last ends at its quote.

    No window begins inside an escape, a surrogate pair or a character. Raises NotInPieces.
    """
    at = opening + 1
    while True:
        end = _character_start(data, at + WINDOW_BYTES)
        # Of the same length, without what looks like a quote or the start of an escape and is none.
        plain = data[at:end].replace(b"\\\\", b"__").replace(b'\\"', b"__")
        quote = plain.find(b'"')
        if quote >= 0:
            yield at, at + quote
            return
        if end == len(data):
            raise NotInPieces  # no closing quote
        length = _whole_escapes(plain)
        yield at, at + length
        give_way()
        at += length


def _whole_escapes(plain: bytes) -> int:
    """How much of a window can be read by itself: its last escapes may go on after it."""
    at = plain.find(b"\\", len(plain) - 2 * _ESCAPE)
    if at < 0:
        return len(plain)
    return at - _ESCAPE if _HIGH_HALF.match(plain, at - _ESCAPE) else at


def string_end(data: bytes, opening: int) -> int:
    """The offset after the closing quote of the string whose opening one is there. Raises NotInPieces."""
    return max(end for _, end in windows(data, opening)) + 1


def _character_start(data: bytes, at: int) -> int:
    """`at` or a little before: where no character of UTF-8 is cut."""
    if at >= len(data):
        return len(data)
    for before in range(at, at - _LONGEST_TAIL - 1, -1):
        if data[before] & 0xC0 != 0x80:
            return before
    return at  # so many in a row are no part of a character
