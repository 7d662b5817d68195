"""Limits of the calls of one backend: how many run at once, and how many start within a window.

A call waits for a place for at most `semaphore_timeout`, and not beyond its own deadline; then it fails as busy, with
nothing sent.
"""

from __future__ import annotations

from collections import deque

import anyio

from gatemini.config.model.schema import BackendConfig, RateLimit
from gatemini.errors import BackendBusy

CLI_CONCURRENT_CALLS = 5
"""The default `max_concurrent_calls` of a CLI adapter: each of its calls is a process."""


class RateWindow:
    """At most `max_calls` starts within any `window` seconds (an exact sliding window)."""

    def __init__(self, limit: RateLimit) -> None:
        self.limit = limit
        self._starts: deque[float] = deque()

    def take(self, now: float) -> float:
        """Count a start and return 0, or return the seconds until the next start is allowed."""
        while self._starts and now - self._starts[0] >= self.limit.window:
            self._starts.popleft()
        if len(self._starts) < self.limit.max_calls:
            self._starts.append(now)
            return 0.0
        return self.limit.window - (now - self._starts[0])


class CallLimits:
    """The limits of one backend; each of its calls has a place."""

    def __init__(self, config: BackendConfig) -> None:
        most = config.max_concurrent_calls
        if most is None and config.transport == "cli-adapter":
            most = CLI_CONCURRENT_CALLS
        self._name = config.name
        self._most = most
        self._patience = config.semaphore_timeout
        self._running = anyio.Semaphore(most, fast_acquire=True) if most else None
        self._rate = RateWindow(config.rate_limit) if config.rate_limit else None
        self._idle = anyio.Event()
        self.open = 0
        """The number of running calls."""

    async def take_place(self, deadline: float) -> None:
        """Take a place for one call, until `leave_place`; raises `BackendBusy` when none gets free before `deadline`."""
        if self._running is not None or self._rate is not None:
            await self._take(deadline)
        self.open += 1

    def leave_place(self) -> None:
        """Give a place back; the call that took it has ended."""
        if self._running is not None:
            self._running.release()
        self.open -= 1
        if self.open == 0:
            self._idle.set()

    async def idle(self) -> None:
        """Wait until no call runs."""
        while self.open:
            self._idle = anyio.Event()
            await self._idle.wait()

    async def _take(self, deadline: float) -> None:
        give_up = min(deadline, anyio.current_time() + self._patience)
        if self._running is None:
            await self._wait_for_rate(give_up)
            return
        with anyio.move_on_at(give_up) as wait:
            await self._running.acquire()
        if wait.cancelled_caught:
            raise BackendBusy(
                f"{self._name} already runs {self._most} calls (max_concurrent_calls) and none ended in time",
                hint="call it less often at once, or raise max_concurrent_calls or semaphore_timeout",
            )
        try:
            await self._wait_for_rate(give_up)
        except BaseException:
            self._running.release()
            raise

    async def _wait_for_rate(self, give_up: float) -> None:
        while self._rate is not None:
            now = anyio.current_time()
            delay = self._rate.take(now)
            if delay <= 0:
                return
            if now + delay > give_up:
                limit = self._rate.limit
                raise BackendBusy(
                    f"{self._name} takes {limit.max_calls} calls per {limit.window:g} s (rate_limit); "
                    f"the next is free in {delay:.1f} s",
                    hint="wait, or make fewer calls: filter or page at the source",
                    details={"retry_after": delay},
                )
            await anyio.sleep(delay)
