"""A rate limit as one number: the time at which the uses so far have all come back (generic cell rate algorithm)."""

from __future__ import annotations

SLACK = 1e-6
"""Seconds by which rounding may change a sum."""


def admitted(until: float | None, now: float, limit: int, period: float) -> tuple[float, float]:
    """Return (`until` after one more use, 0), or (`until`, seconds to wait) where no use is left.

    There are `limit` uses, which may be taken at once; each comes back after `period / limit` seconds, one after another.
    """
    start = now if until is None else max(until, now)
    after = start + period / limit
    wait = after - period - now
    return (after, 0.0) if wait <= SLACK else (start, wait)
