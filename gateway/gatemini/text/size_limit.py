"""How much text a reader takes: characters, bytes, or both.

Clients count either, and of text that is not ASCII a character is two to four bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from gatemini.text.utf8 import decode, encode

BOUNDLESS = 1 << 60
"""A limit for what is not counted; still a number, so that it can be taken from and shared."""
LONGEST_CHAR = 4
"""Bytes of the longest character in UTF-8."""


@dataclass(frozen=True, slots=True)
class SizeLimit:
    """At most so many characters and so many bytes of UTF-8; never less than none."""

    chars: int = BOUNDLESS
    bytes: int = BOUNDLESS

    def holds(self, *lines: str) -> bool:
        """Whether these fit together, with a line feed between each two."""
        breaks = max(0, len(lines) - 1)
        chars = sum(map(len, lines)) + breaks
        if chars > self.plain:  # a character is at least a byte
            return False
        return chars * LONGEST_CHAR <= self.bytes or sum(map(weight, lines)) + breaks <= self.bytes

    def beside(self, *lines: str) -> SizeLimit:
        """What is left beside these, each with a line feed."""
        return self.less(sum(map(len, lines)) + len(lines), sum(map(weight, lines)) + len(lines))

    def less(self, chars: int, count: int | None = None) -> SizeLimit:
        """What is left beside so many characters of so many bytes (as many, if not said)."""
        return SizeLimit(max(0, self.chars - chars), max(0, self.bytes - (chars if count is None else count)))

    def part(self, numerator: int, denominator: int) -> SizeLimit:
        return SizeLimit(self.chars * numerator // denominator, self.bytes * numerator // denominator)

    def within(self, other: SizeLimit) -> SizeLimit:
        """What both allow."""
        return SizeLimit(min(self.chars, other.chars), min(self.bytes, other.bytes))

    @property
    def plain(self) -> int:
        """Characters of ASCII, or bytes of anything, that surely fit."""
        return min(self.chars, self.bytes)

    def first(self, text: str) -> int:
        """How many characters from the beginning of `text` fit."""
        count = min(len(text), self.chars)
        if count * LONGEST_CHAR <= self.bytes or text.isascii():
            return min(count, self.bytes)
        data = encode(text[: min(count, self.bytes)])
        end = min(len(data), self.bytes)
        while 0 < end < len(data) and _continues(data[end]):
            end -= 1
        return len(decode(data[:end]))

    def last(self, text: str) -> int:
        """How many characters at the end of `text` fit."""
        count = min(len(text), self.chars)
        if count * LONGEST_CHAR <= self.bytes or text.isascii():
            return min(count, self.bytes)
        data = encode(text[len(text) - min(count, self.bytes) :])
        start = max(0, len(data) - self.bytes)
        while start < len(data) and _continues(data[start]):
            start += 1
        return len(decode(data[start:]))


def weight(text: str, start: int = 0, end: int | None = None) -> int:
    """Bytes of `text`, or of `text[start:end]`, in UTF-8."""
    part = text if start == 0 and end is None else text[start:end]
    return len(part) if part.isascii() else len(encode(part))


def _continues(byte: int) -> bool:
    return byte & 0xC0 == 0x80
