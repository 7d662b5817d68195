"""A rate limit as one number: the time until which the uses so far are paid for (generic cell rate algorithm)."""

from __future__ import annotations

SLACK = 1e-6
"""Seconds by which sums of fractions may differ."""


def admitted(until: float | None, now: float, limit: int, period: float) -> tuple[float, float]:
    """Return (the new `until`, 0), or (`until`, the seconds until there is a use again).

    A period has `limit` uses, which come back evenly and may be taken at once.
    """
    start = now if until is None else max(until, now)
    after = start + period / limit
    wait = after - period - now
    return (after, 0.0) if wait <= SLACK else (start, wait)
