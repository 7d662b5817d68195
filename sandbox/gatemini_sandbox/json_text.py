"""Check the depth of JSON text, and keep the digits of large integers, before a guest parses it.

Text is read in pieces: one search over tens of megabytes would hold the interpreter, and every other guest of the
process, until its end.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from itertools import accumulate

PIECE = 1 << 18
"""Bytes looked at in one go: a millisecond or two, whatever they hold. At least 2, the length of an escape."""

QUOTE = 0x22
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_WHOLE_STRINGS = re.compile(rb'(?:[^"]*+"[^"\\]*+(?:\\.[^"\\]*+)*+"|(?!))*+', re.DOTALL)
_IN_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_NOT_BRACKETS = bytes(c for c in range(256) if c not in b"[]{}")
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
"""A bracket as what it does to the depth, a signed byte."""
_DIGITS_TO_ZERO = bytes.maketrans(b"123456789", b"000000000")
_SIXTEEN_DIGITS = b"0" * 16
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|-?[0-9][0-9.eE+-]*+', re.DOTALL)
_MOST_EXACT = 2**53 - 1


def pieces(text: bytes) -> Iterator[tuple[int, int]]:
    """Where to cut JSON text (`start`, `end`) so that no string and no number is in two pieces.

    A piece has at most PIECE bytes, or is one long string or number.
    """
    at = 0
    while len(text) - at > PIECE:
        end = _cut(text, at, at + PIECE)
        yield at, end
        at = end
    yield at, len(text)


def _cut(text: bytes, at: int, limit: int) -> int:
    strings = _WHOLE_STRINGS.match(text, at, limit)
    end = strings.end() if strings else at
    quote = text.find(b'"', end, limit)
    if quote > at:
        return quote  # the string that begins there ends behind the limit
    if quote == at:
        return _string_end(text, at)
    if (comma := text.rfind(b",", end, limit)) >= 0:
        return comma + 1
    if end > at:
        return end
    while limit < len(text) and text[limit] in b"0123456789.eE+-":
        limit += 1
    return limit


def _string_end(text: bytes, at: int) -> int:
    """Behind the closing quote of the string that begins at `at`; the end of the text where there is none."""
    at += 1
    while at < len(text):
        found = _IN_STRING.match(text, at, at + PIECE)
        end = found.end() if found else at
        if end < len(text) and text[end] == QUOTE:
            return end + 1
        if end == at:
            break
        at = end
    return len(text)


def deeper_than(text: bytes, depth: int) -> bool:
    """Whether JSON text nests deeper than `depth`, without recursion and in time linear in its size."""
    if text.count(b"[") + text.count(b"{") <= depth:
        return False
    level = 0
    for start, end in pieces(text):
        if end - start > PIECE and text[start] == QUOTE:
            continue  # one long string
        brackets = _STRING.sub(b"", text[start:end]).translate(_STEPS, _NOT_BRACKETS)
        if not brackets:
            continue
        levels = array("i", accumulate(array("b", brackets), initial=level))
        if max(levels) > depth:
            return True
        level = levels[-1]
    return False


def keep_digits(text: bytes, notes: list[str]) -> bytes:
    """Integers beyond 2^53 become strings, so that they keep their digits in JavaScript."""
    if len(text) < 16:
        return text
    made: list[bytes] = []
    changed = False

    def exact(match: re.Match[bytes]) -> bytes:
        nonlocal changed
        token = match.group()
        if token[:1] == b'"' or len(token) < 16 or not token.lstrip(b"-").isdigit():
            return token
        if len(token) < 20 and abs(int(token)) <= _MOST_EXACT:
            return token
        changed = True
        return b'"' + token + b'"'

    for start, end in pieces(text):
        piece = text[start:end]
        long_string = end - start > PIECE and text[start] == QUOTE
        if not long_string and _SIXTEEN_DIGITS in piece.translate(_DIGITS_TO_ZERO):
            piece = _TOKEN.sub(exact, piece)
        made.append(piece)
    if not changed:
        return text
    note = "integers beyond 2^53 arrived as strings, to keep their digits"
    if note not in notes:
        notes.append(note)
    return b"".join(made)


__all__ = ["PIECE", "deeper_than", "keep_digits", "pieces"]
