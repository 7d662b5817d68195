"""The time of one chain: a wall clock that stands still while a question to the user is open (spec 2.6).

Above: run.py, script.py, invoke.py. Below: anyio.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio

STILL_SECONDS = 0.05
"""Least time that seems left while the clock stands still, so that whoever waits for it looks again, not at once."""


class ChainTime:
    """`seconds` from now on, all waiting included but that for the user; `clock` counts seconds."""

    def __init__(
        self,
        seconds: float,
        on_still: Callable[[bool], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.seconds = seconds
        self.on_still = on_still
        """Told when the clock stops (True) and when it goes on (False)."""
        self._clock = clock
        self._ends = clock() + seconds
        self._questions = 0
        self._stopped = 0.0
        self._scopes: list[tuple[anyio.CancelScope, float]] = []

    def left(self) -> float:
        """Seconds until it is over; zero or less when it is."""
        if self._questions:
            return max(STILL_SECONDS, self._ends - self._stopped)
        return self._ends - self._clock()

    @contextmanager
    def bound(self, grace: float = 0.0) -> Iterator[anyio.CancelScope]:
        """Cancels what is inside when the time and the grace are over, however often the clock stood still."""
        scope = anyio.CancelScope(deadline=self._scope_deadline(grace))
        self._scopes.append((scope, grace))
        try:
            with scope:
                yield scope
        finally:
            self._scopes.remove((scope, grace))

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """While a question to the user is open."""
        self._questions += 1
        if self._questions == 1:
            self._stop()
        try:
            yield
        finally:
            self._questions -= 1
            if self._questions == 0:
                self._go_on()

    def _stop(self) -> None:
        self._stopped = self._clock()
        for scope, _ in self._scopes:
            scope.deadline = float("inf")
        if self.on_still is not None:
            self.on_still(True)

    def _go_on(self) -> None:
        self._ends += self._clock() - self._stopped
        for scope, grace in self._scopes:
            scope.deadline = self._scope_deadline(grace)
        if self.on_still is not None:
            self.on_still(False)

    def _scope_deadline(self, grace: float) -> float:
        if self._questions:
            return float("inf")
        return anyio.current_time() + self._ends + grace - self._clock()
