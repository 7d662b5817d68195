"""Durations as people write them: `500ms`, `30s`, `5m`, `1h`."""

from __future__ import annotations

import re

MAX_SECONDS = 7 * 24 * 3600.0
_ALLOWED = "a duration above 0 and at most 168h, such as 500ms, 30s, 5m or 1h"
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h)?\s*")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds_of(text: str) -> float:
    """The seconds that a text means; a bare number means seconds. Raises ValueError."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(_ALLOWED)
    return _bounded(float(match[1]) * _UNITS[match[2] or "s"])


def parse_duration(value: object) -> object:
    """Text as seconds; a bare number is seconds already. Values of other types are left to the caller's check."""
    if isinstance(value, bool):
        raise ValueError(_ALLOWED)
    if isinstance(value, str):
        return seconds_of(value)
    return _bounded(value) if isinstance(value, int | float) else value


def _bounded(seconds: float) -> float:
    if not 0 < seconds <= MAX_SECONDS:
        raise ValueError(_ALLOWED)
    return seconds
