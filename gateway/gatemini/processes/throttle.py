"""How much of the event loop's time one backend may take for what nobody asked of it: log lines, comments, notifications.

Pure but for the clock: time that was spent goes in, how long not to read comes out. Above: `pipes.py`, `http_link.py`,
which stop reading for so long: the pipe or the connection fills, the backend waits, others are served.
"""

from __future__ import annotations

import time

IDLE_SHARE = 0.1
IDLE_BURST_SECONDS = 0.25
MIN_REST_SECONDS = 0.05
MAX_REST_SECONDS = 1.0
"""Of the loop's time a backend takes this share, after a burst, and is left unread for so long at once: less would let it
into one of twenty calls of others, more would keep its own answers back."""

READ_SECONDS = 50e-6
"""What a piece of output has cost of the loop's time before it is seen here."""


class IdleShare:
    """The account of one stream, or of all streams of one backend."""

    def __init__(self) -> None:
        self._charged = time.perf_counter()
        self._debt = 0.0

    def charge(self, seconds: float) -> float:
        """Seconds to rest after `seconds` that were just spent; 0 while there is something left of the share."""
        now = time.perf_counter()
        paid = (now - seconds - self._charged) * IDLE_SHARE
        self._charged, self._debt = now, max(0.0, self._debt - paid) + seconds
        excess = self._debt - IDLE_BURST_SECONDS
        return min(max(excess / IDLE_SHARE, MIN_REST_SECONDS), MAX_REST_SECONDS) if excess > 0 else 0.0
