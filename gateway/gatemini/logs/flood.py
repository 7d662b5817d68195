"""A bound on what one source may log in a short time, with a count of what it left out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

LINES = 500
SECONDS = 5.0
"""Of each source, at most `LINES` lines are written in a window of `SECONDS`."""


class Flood:
    """Counts the lines of each source in windows of `SECONDS`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: dict[str, int] = {}
        self._end = 0.0

    def takes(self, source: str) -> bool:
        """Count a line of this source; return whether it may be written. `dropped` must be called first."""
        count = self._counts[source] = self._counts.get(source, 0) + 1
        return count <= LINES

    def dropped(self, *, closing: bool = False) -> Iterator[tuple[str, int]]:
        """At the end of a window, or of the log (`closing`), yield each source with how many lines it has lost."""
        now = self._clock()
        if now < self._end and not closing:
            return
        counts, self._counts, self._end = self._counts, {}, now + SECONDS
        yield from ((source, count - LINES) for source, count in counts.items() if count > LINES)
