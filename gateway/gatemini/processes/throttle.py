"""Limit the share of the event loop's time that one backend's unsolicited output may take.

Log lines, comments and notifications without end would delay the calls of other backends. A reader that used more
than its share is paused: the pipe or the connection fills, and only that backend waits.
"""

from __future__ import annotations

import time

IDLE_SHARE = 0.1
IDLE_BURST_SECONDS = 0.25
MIN_REST_SECONDS = 0.05
MAX_REST_SECONDS = 1.0
"""The share of the loop's time, what may be used at once, and the bounds of a pause. A smaller burst would delay one of
twenty calls of others; longer pauses would keep back the backend's own answers."""

READ_SECONDS = 50e-6
"""What the event loop spends on a piece of output before a reader is called."""


class Throttle:
    """The time account of one stream."""

    def __init__(self) -> None:
        self._charged = time.perf_counter()
        self._debt = 0.0

    def charge(self, seconds: float) -> float:
        """Add `seconds` just spent; the seconds to pause now, 0 within the share."""
        now = time.perf_counter()
        paid = (now - seconds - self._charged) * IDLE_SHARE
        self._charged, self._debt = now, max(0.0, self._debt - paid) + seconds
        excess = self._debt - IDLE_BURST_SECONDS
        return min(max(excess / IDLE_SHARE, MIN_REST_SECONDS), MAX_REST_SECONDS) if excess > 0 else 0.0
