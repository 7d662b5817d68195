"""The deadline of one chain: a wall clock that is paused while a question to the user is open."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio

STILL_SECONDS = 0.05
"""Least time left while the clock is paused, so that waiters look again later and not at once."""


class ChainTime:
    """A deadline `seconds` from now, including all waits but those for the user; `clock` counts seconds."""

    def __init__(
        self,
        seconds: float,
        on_still: Callable[[bool], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.seconds = seconds
        self.on_still = on_still
        """Called with True when the clock is paused and with False when it continues."""
        self._clock = clock
        self._ends = clock() + seconds
        self._questions = 0
        self._stopped = 0.0
        self._scopes: list[tuple[anyio.CancelScope, float]] = []

    def left(self) -> float:
        """Return the seconds left; zero or less once the deadline has passed."""
        if self._questions:
            return max(STILL_SECONDS, self._ends - self._stopped)
        return self._ends - self._clock()

    @contextmanager
    def bound(self, grace: float = 0.0) -> Iterator[anyio.CancelScope]:
        """Cancel the block when time and grace are over, however often the clock was paused."""
        scope = anyio.CancelScope(deadline=self._scope_deadline(grace))
        self._scopes.append((scope, grace))
        try:
            with scope:
                yield scope
        finally:
            self._scopes.remove((scope, grace))

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Pause the clock while a question to the user is open."""
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
