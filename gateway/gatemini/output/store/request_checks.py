"""What callers of the result store ask for: numbers checked, and wrong ones repeated in a few characters."""

from __future__ import annotations

import math
from typing import Any

from gatemini.errors import InvalidRequest
from gatemini.output.json.json_text import dump
from gatemini.text.shorten import shorten

GIVEN_CHARS = 60
"""Characters of a wrong argument that its error repeats."""
LAST_ROW = 2**53
"""Beyond it code cannot count row by row."""
NULL_MAY_BE = " (NaN and Infinity arrive as null)"


def natural(value: Any, name: str, least: int = 0) -> int:
    """A whole number from `least`; raises InvalidRequest that says what was given."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    endless = isinstance(value, float) and not math.isfinite(value)
    if not number or endless or value < least or value != int(value):
        why = NULL_MAY_BE if value is None else ""
        raise InvalidRequest(f"{name} must be a whole number from {least}, not {given(value)}{why}")
    return int(value)


def row_number(value: Any) -> int:
    """An offset; raises InvalidRequest."""
    number = natural(value, "offset")
    if number > LAST_ROW:
        raise InvalidRequest(f"offset must be a whole number from 0 to 2^53, not {given(value)}")
    return number


def given(value: Any) -> str:
    """A wrong argument, as an error repeats it."""
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    return shorten(dump(value), GIVEN_CHARS)
