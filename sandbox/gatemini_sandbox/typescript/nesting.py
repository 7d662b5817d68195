"""Refuse code on which the parser would compute, and take memory, past every limit.

After `<` the grammar follows two readings, a comparison and type arguments. Where thousands of them stay open side by
side, its way out of the second reading takes time and memory that grow with their square, in one step that cannot
be interrupted: 250 KB took minutes and more than 20 GB.
"""

from __future__ import annotations

import re

from gatemini_sandbox.errors import ReadingTooLong

MOST_BRACKETS = 3000
"""Brackets that may be open at once, as in the code of a chain: the parsers take quadratic time for them."""
MOST_OPEN = 500
"""Signs `<` that may be open together: 20 ms at most. A person's code has a handful."""

# `<` alone, `>` alone or in rows; not of `<=`, `<<`, `=>` and `>=`.
_SIGN = re.compile(rb"(?<!<)<(?![<=])|(?<!=)>+(?!=)|[()\[\]{};]")
_BRACKET = re.compile(r"[()\[\]{}]")
_PARTNERS = {b")": b"(", b"]": b"[", b"}": b"{"}


def check_brackets(source: str) -> None:
    """Raises ReadingTooLong for code with more than MOST_BRACKETS open brackets; those in strings and comments count."""
    if sum(map(source.count, "([{")) <= MOST_BRACKETS:
        return
    depth = 0
    for found in _BRACKET.finditer(source):
        depth += 1 if found[0] in "([{" else -1
        if depth > MOST_BRACKETS:
            line = source.count("\n", 0, found.start()) + 1
            raise ReadingTooLong(f"more than {MOST_BRACKETS:,} brackets are open at line {line}")


def check_openings(data: bytes) -> None:
    """Raises ReadingTooLong for code with more than MOST_OPEN open `<`.

    Signs in strings and comments count as well: only the parser can tell them apart.
    """
    if data.count(b"<") <= MOST_OPEN:
        return
    brackets: list[bytes] = []
    counts = [0]
    total = 0
    for match in _SIGN.finditer(data):
        sign = match[0]
        if sign == b"<":
            counts[-1] += 1
            total += 1
            if total > MOST_OPEN:
                raise ReadingTooLong(f"the code has more than {MOST_OPEN:,} `<` open in one expression")
        elif sign[0] == 0x3E:
            closed = min(len(sign), counts[-1])
            counts[-1] -= closed
            total -= closed
        elif sign == b";":
            total -= counts[-1]
            counts[-1] = 0
        elif sign in b"([{":
            brackets.append(sign)
            counts.append(0)
        elif brackets and brackets[-1] == _PARTNERS[sign]:
            brackets.pop()
            total -= counts.pop()


__all__ = ["MOST_BRACKETS", "MOST_OPEN", "check_brackets", "check_openings"]
