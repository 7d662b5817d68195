"""A timer for one request that pauses while the client answers a question of the backend.

A timer of the event loop and not a cancel scope, because entering and leaving a scope takes longer than sending the
request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class CallClock:
    """Calls `over` once after `seconds`, unless `stop` comes first."""

    __slots__ = ("_loop", "_over", "_timer", "left", "seconds")

    def __init__(self, seconds: float, over: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._over = over
        self.left = 0.0
        self.seconds = seconds
        self._timer: asyncio.TimerHandle | None = self._loop.call_later(seconds, over)

    def pause(self) -> None:
        """Stop, and keep the remaining time in `left`."""
        if self._timer is not None:
            self.left = max(0.0, self._timer.when() - self._loop.time())
            self.stop()

    def resume(self) -> None:
        """Continue after `pause`."""
        if self._timer is None:
            self._timer = self._loop.call_later(self.left, self._over)

    def restart(self, most: float) -> None:
        """Wait for the full time again, but for `most` seconds; a paused clock is left alone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = self._loop.call_later(min(self.seconds, most), self._over)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
