"""A document in which something nests too deep to be worked on: that alone is stood in for, and the rest is shown.

What is kept of it is the whole, as ever; rows nested too deep are read from there as text. Pure. Above: `pipeline.py`,
`record_filter.py`, `survey.py`, `branches.py`. Below: `jsontext.py`.
"""

from __future__ import annotations

from dataclasses import replace

from gatemini.output.jsontext import MAX_NESTING, Parsed, parse
from gatemini.piecewise.cutting import UP_TO_BRACKET

KEPT_LEVELS = 16
"""Levels that are kept around what is stood in for: rows and their fields."""


def parse_shown(data: bytes) -> Parsed | None:
    """Like `parse`, with a text in place of each value that nests too deep; `deep` counts them."""
    parsed = parse(data)
    if parsed is not None or data.count(b"[") + data.count(b"{") <= MAX_NESTING:
        return parsed
    pieces = _without_deep(data)
    if len(pieces) == 1:
        return None
    parsed = parse(b"".join(pieces))
    return replace(parsed, deep=len(pieces) // 2) if parsed else None


def _without_deep(data: bytes) -> list[bytes]:
    """The text around, and in between what stands for each value; `data` alone where none is too deep or it is no JSON."""
    pieces: list[bytes] = []
    stack: list[int] = []
    at = done = 0
    too_deep = False
    while True:
        found = UP_TO_BRACKET.match(data, at)
        at = found.end() if found else len(data)
        if at >= len(data) or data[at] == 0x22:  # the end, or a string without one
            break
        if data[at] in b"[{":
            stack.append(at)
            too_deep = too_deep or len(stack) > MAX_NESTING
        elif not stack:
            break
        else:
            start = stack.pop()
            if too_deep and len(stack) == KEPT_LEVELS:
                pieces += [data[done:start], _instead(at + 1 - start)]
                done, too_deep = at + 1, False
            if not stack:
                break  # what follows is no part of it
        at += 1
    return [*pieces, data[done:]]


def _instead(size: int) -> bytes:
    return b'"[nested deeper than %d levels: %.1fKB, kept in full]"' % (MAX_NESTING, size / 1024)
