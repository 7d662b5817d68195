"""The time of one request to a backend, which stands still while the client is asked something for it.

A timer of the event loop, not a cancel scope: entering and leaving a scope costs a call more than sending it does.
Above: peer.py. Below: asyncio.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class CallClock:
    """Calls `over` once when `seconds` have run, unless `stop` comes first."""

    __slots__ = ("_loop", "_over", "_timer", "left")

    def __init__(self, seconds: float, over: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._over = over
        self.left = 0.0
        self._timer: asyncio.TimerHandle | None = self._loop.call_later(seconds, over)

    def pause(self) -> None:
        """Stand still; what is left is kept."""
        if self._timer is not None:
            self.left = max(0.0, self._timer.when() - self._loop.time())
            self.stop()

    def resume(self) -> None:
        """Go on after `pause`."""
        if self._timer is None:
            self._timer = self._loop.call_later(self.left, self._over)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
