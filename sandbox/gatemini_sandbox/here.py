"""Which steps may run on the event loop itself: short ones, as most are; a hand-off to a thread costs more than they do.

A step that turns out long is left at the first tick (guest.Longer) and goes on on a thread. What long steps may take
from the loop together is bounded. Above: session.py. Below: nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

HERE = sys.platform != "win32"
"""Whether a call that was begun on one thread can be gone on with on another: there, stacks belong to threads."""
LOOP_TURN_SECONDS = 0.005
"""What the steps of one chain hold the loop for before others get a turn."""
SHORT_SECONDS = 0.002
"""A guest whose last step took longer goes to a thread with the next one."""
BURST_SECONDS = 0.03
"""What steps that were not short may hold the loop for, one after another."""
SHARE = 0.25
"""Part of the loop's time they may hold in the long run."""
SMALL_BYTES = 16 * 1024
"""Messages in up to this size: they cross in one piece that cannot be left."""
SMALL_CODE = 4 * 1024
"""Code up to this size: reading it cannot be left either."""
SMALL_MEMORY = 8 * 1024 * 1024
"""Guests up to this size, a fresh one being 5 MiB: reading a message may begin with a collection of all garbage."""
READ_BYTES = 64 * 1024
"""Messages out up to this size are read on the loop."""


def reads_fast(source: bytes) -> bool:
    """Whether the engine reads this code in a few milliseconds, whatever it is.

    Not so with a slash in it, which may begin a regular expression: those are compiled with the code, and one of a few
    hundred bytes can take seconds."""
    return len(source) <= SMALL_CODE and b"/" not in source


class LoopShare:
    """How much of the loop's time is left to steps that turn out long. `clock` counts seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left = BURST_SECONDS
        self._since = clock()

    def open(self) -> bool:
        """Whether a step may be tried on the loop now."""
        if self._left < BURST_SECONDS:
            now = self._clock()
            self._left = min(BURST_SECONDS, self._left + (now - self._since) * SHARE)
            self._since = now
        return self._left > 0

    def spend(self, seconds: float) -> None:
        """One step was tried and held the loop for so long."""
        if seconds > SHORT_SECONDS:
            self._left -= seconds
            self._since = self._clock()
