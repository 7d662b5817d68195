"""Lines and columns of the submitted code, as its reader counts them.

Lines end at LF, CRLF, CR, U+2028 and U+2029; columns are 1-based Unicode code points.
"""

from __future__ import annotations

import re

LINE_END = re.compile(r"\r\n|[\n\r\u2028\u2029]")


def place(text: str, offset: int) -> tuple[int, int]:
    """Line and column (both 1-based) of a character offset."""
    line, start = 1, 0
    for end in LINE_END.finditer(text, 0, offset):
        line, start = line + 1, end.end()
    return line, offset - start + 1


def line_at(text: str, line: int) -> str | None:
    """The text of a line by its 1-based number, or None when there is no such line."""
    start = 0
    for _ in range(line - 1):
        end = LINE_END.search(text, start)
        if end is None:
            return None
        start = end.end()
    if line < 1:
        return None
    end = LINE_END.search(text, start)
    return text[start : end.start() if end else len(text)]


def blank(text: str) -> str:
    """The same number of lines with nothing on them, so that the lines behind them keep their numbers."""
    return "".join(LINE_END.findall(text))
