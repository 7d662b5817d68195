"""Lines of the submitted text, edits made to it, and the way back from the edited text to the submitted one.

The erasing steps (javascript/erase.py and shape.py) never rewrite code; they note edits here: a blank of the same
length, a few inserted bytes, a replaced token. Applying them gives the JavaScript and a map, so that any place in the
JavaScript leads back to exactly one place in what the agent sent. Offsets are bytes of UTF-8.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property

# What ECMAScript calls a line terminator; CRLF counts once.
_LINE_END = re.compile("\r\n|[\n\r\u2028\u2029]")
_NOT_NEWLINE = re.compile(rb"[^\n]")


class SourceText:
    """The submitted text, and the same with every line end made a line feed, which is what gets parsed."""

    def __init__(self, submitted: str) -> None:
        text = submitted.removeprefix("\ufeff")
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        self.text = text
        # A lone surrogate cannot be written as UTF-8: one question mark instead keeps the columns.
        self.data = text.encode("utf-8", "replace")

    @cached_property
    def lines(self) -> list[str]:
        return _LINE_END.split(self.text)

    @cached_property
    def _starts(self) -> list[int]:
        """Byte offset of the first byte of each line."""
        starts, offset, at = [0], 0, 0
        for match in _LINE_END.finditer(self.text):
            offset += len(self.text[at : match.end()].encode("utf-8", "replace"))
            at = match.end()
            starts.append(offset)
        return starts

    def position(self, offset: int) -> tuple[int, int]:
        """Byte offset -> 1-based line and 1-based column in code points."""
        offset = min(max(offset, 0), len(self.data))
        line = bisect_right(self._starts, offset) - 1
        before = self.data[self._starts[line] : offset].decode("utf-8", "ignore")
        return line + 1, len(before) + 1

    def offset(self, line: int, column: int) -> int:
        """The way back from `position`."""
        return self._starts[line - 1] + len(self.line(line)[: column - 1].encode("utf-8", "replace"))

    def line(self, number: int) -> str:
        return self.lines[number - 1] if 0 < number <= len(self.lines) else ""


class Patch:
    """Edits to one text, kept apart from it until all are known. Edits inside a blanked range are dropped."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        # (start, 0 for an insertion that belongs to what ends there | 1 to what begins there | 2 for a range, order,
        # end, replacement)
        self._edits: list[tuple[int, int, int, int, bytes]] = []

    def blank(self, start: int, end: int, lead: bytes = b"") -> None:
        """Overwrite with spaces, keeping line feeds; `lead` takes the place of the first bytes."""
        if end <= start:
            return
        blanks = _NOT_NEWLINE.sub(b" ", self.data[start + len(lead) : end])
        self._edits.append((start, 2, len(self._edits), end, lead + blanks))

    def insert_after(self, offset: int, text: bytes) -> None:
        self._edits.append((offset, 0, len(self._edits), offset, text))

    def insert_before(self, offset: int, text: bytes) -> None:
        self._edits.append((offset, 1, len(self._edits), offset, text))

    def replace(self, start: int, end: int, text: bytes) -> None:
        """Put `text` in place of a range; line feeds of the range that `text` lacks follow it."""
        missing = self.data.count(b"\n", start, end) - text.count(b"\n")
        self._edits.append((start, 2, len(self._edits), end, text + b"\n" * missing))

    def apply(self, prefix: bytes = b"", suffix: bytes = b"") -> Patched:
        pieces: list[bytes] = [prefix]
        marks: list[tuple[int, int, bool]] = [(0, 0, False)] if prefix else []
        out, at = len(prefix), 0
        for start, rank, _order, end, text in sorted(self._edits):
            if start < at or (rank == 2 and end < at):
                continue  # inside a range that is gone already
            if start > at:
                marks.append((out, at, True))
                pieces.append(self.data[at:start])
                out += start - at
            marks.append((out, start, len(text) == end - start))
            pieces.append(text)
            out += len(text)
            at = max(at, end)
        marks.append((out, at, True))
        pieces.append(self.data[at:])
        out += len(self.data) - at
        if suffix:
            marks.append((out, len(self.data), False))
            pieces.append(suffix)
        return Patched(b"".join(pieces), marks)


class Patched:
    """The edited text and the way back to the original offsets."""

    def __init__(self, data: bytes, marks: list[tuple[int, int, bool]]) -> None:
        self.data = data
        self._marks = marks
        self._keys = [mark[0] for mark in marks]

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer(rb"\n", self.data))]

    def offset(self, line: int, byte_column: int) -> int:
        """1-based line and byte column of the edited text -> its byte offset, clamped to the text."""
        if line < 1:
            return 0
        if line > len(self._starts):
            return len(self.data)
        start = self._starts[line - 1]
        end = self._starts[line] - 1 if line < len(self._starts) else len(self.data)
        return min(start + max(byte_column - 1, 0), end)

    def original(self, offset: int) -> int:
        """Byte offset in the edited text -> byte offset in the text it was made from."""
        index = bisect_right(self._keys, offset) - 1
        if index < 0:
            return 0
        out, source, verbatim = self._marks[index]
        return source + (offset - out if verbatim else 0)
