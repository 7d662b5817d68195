"""Smart truncation: head and tail of a text too long to show, cut where a reader expects it.

Works on characters (code points) and knows nothing of JSON but its escapes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gatemini.text.size_limit import SizeLimit, weight

MARK = "…"
"""Ends a cut text that has no room for more; redaction looks beside it for a piece of a secret."""
HEAD_FIFTHS = 3
"""Fifths of the room: how a thing starts says more than how it ends, but the end holds totals and errors."""
_LINE_SHARE = 0.5
"""A line boundary is taken when it gives away at most this share of the piece; else the cut is in a line."""
_ESCAPE_REACH = 12
"""Characters of the longest JSON escape: a surrogate pair written as two."""
_ESCAPE = re.compile(r"(?:\\u[dD][89abAB][0-9a-fA-F]{2})?\\u[0-9a-fA-F]{4}|\\.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Truncated:
    """`text` is `head + marker + tail`; `head` and `tail` are exact pieces of the original."""

    text: str
    head: str
    tail: str


def truncate(text: str, limit: SizeLimit) -> Truncated:
    """`text` within `limit`. The marker goes where it fits, else the head and `MARK`."""
    if limit.holds(text):
        return Truncated(text, text, "")
    # The marker's own length depends on the counts in it: reserve the longest it can be.
    longest = _marker(text, "", "", lines=True) + "characters" + 2 * f"{len(text)}"
    room = limit.less(len(longest), weight(longest))
    if room.plain < 2:
        head = beginning(text, limit)
        return Truncated(head, head.removesuffix(MARK), "")
    front = room.part(HEAD_FIFTHS, 5)
    head, head_at_line = _head(text, front.first(text))
    tail, tail_at_line = _tail(text, room.less(front.chars, front.bytes).last(text))
    marker = _marker(text, head, tail, lines=head_at_line and tail_at_line)
    first = "" if not head or head.endswith("\n") else "\n"
    return Truncated(f"{head}{first}{marker}\n{tail}", head, tail)


def beginning(text: str, limit: SizeLimit) -> str:
    """The first characters that fit with the mark of a cut behind them, or all of a shorter text."""
    if limit.holds(text):
        return text
    head = text[: _safe_cut(text, limit.less(len(MARK), weight(MARK)).first(text))]
    return head + MARK if limit.holds(MARK) else ""


def _marker(text: str, head: str, tail: str, *, lines: bool) -> str:
    start = len(head)
    end = max(start, len(text) - len(tail))
    open_end = start < end and text[end - 1] != "\n"
    count = text.count("\n", start, end) + open_end
    size = weight(text, start, end) / 1024
    if lines:
        shown = f"first {_lines(head)} + last {_lines(tail)} lines"
    else:
        shown = f"first {len(head)} + last {len(tail)} characters"
    return f"... [{count} lines / {size:.1f}KB truncated — showing {shown}] ..."


def _lines(piece: str) -> int:
    return piece.count("\n") + (1 if piece and not piece.endswith("\n") else 0)


def _head(text: str, room: int) -> tuple[str, bool]:
    """The first `room` characters or a little less, and whether they end at a line boundary."""
    at = text.rfind("\n", 0, room) + 1
    if at > room * _LINE_SHARE:
        return text[:at], True
    return text[: _safe_cut(text, room)], False


def _tail(text: str, room: int) -> tuple[str, bool]:
    start = len(text) - room
    at = text.find("\n", start - 1) + 1
    if 0 < at <= start + room * _LINE_SHARE and at < len(text):
        return text[at:], True
    return text[_safe_cut(text, start, forward=True) :], False


def _safe_cut(text: str, at: int, *, forward: bool = False) -> int:
    """`at`, moved off the inside of a JSON escape or a surrogate pair."""
    if not 0 < at < len(text):
        return max(0, min(at, len(text)))
    cut = _off_escape(text, at, forward=forward)
    # Checked last: a backslash before a pair is no escape, but looks like one of half of it.
    if 0 < cut < len(text) and "\ud800" <= text[cut - 1] <= "\udbff" and "\udc00" <= text[cut] <= "\udfff":
        return cut + 1 if forward else cut - 1
    return cut


def _off_escape(text: str, at: int, *, forward: bool) -> int:
    start = at
    while start > 0 and at - start < _ESCAPE_REACH and text[start - 1 : start] != "\\":
        start -= 1
    if start == 0 or text[start - 1] != "\\":
        return at
    # Walk the whole run of escapes from a place that is certainly outside one.
    begin = start - 1
    while begin > 0 and text[begin - 1] == "\\":
        begin -= 1
    while begin >= 6 and re.fullmatch(r"\\u[0-9a-fA-F]{4}", text[begin - 6 : begin]):
        begin -= 6
        while begin > 0 and text[begin - 1] == "\\":
            begin -= 1
    position = begin
    while position < at:
        found = _ESCAPE.match(text, position)
        end = found.end() if found else position + 1
        if end > at:
            return min(end, len(text)) if forward else position
        position = end
    return at
