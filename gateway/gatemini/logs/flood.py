"""A bound on what one source may log in a short time, with a count of what it left out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

LINES = 500
SECONDS = 5.0
"""A source that logs more than `LINES` lines within so long is silent for the rest of that time."""


class Flood:
    """Counts the lines of each source in windows of `SECONDS`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: dict[str, int] = {}
        self._end = 0.0

    def takes(self, source: str) -> bool:
        """Whether a line of this source may be written now. `dropped` is to be read first."""
        count = self._counts[source] = self._counts.get(source, 0) + 1
        return count <= LINES

    def dropped(self, *, closing: bool = False) -> Iterator[tuple[str, int]]:
        """At the end of a window, or at the end of the log: each source that logged too much, and how much."""
        now = self._clock()
        if now < self._end and not closing:
            return
        counts, self._counts, self._end = self._counts, {}, now + SECONDS
        yield from ((source, count - LINES) for source, count in counts.items() if count > LINES)
