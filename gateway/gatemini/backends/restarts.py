"""Decide when a backend that ended is started again, and when starts are given up. Pure: no I/O, no clock."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from gatemini.backends.status import State
from gatemini.config.model.schema import HealthConfig
from gatemini.errors import (
    BackendBusy,
    BackendCrashed,
    BackendError,
    BackendProtocol,
    BackendTimeout,
    BackendUnreachable,
    LoginRequired,
)


@dataclass(slots=True)
class Restarts:
    """When a backend that ended may be started again, automatically or for a call."""

    settings: HealthConfig
    failures: int = 0
    """Failed starts in a row."""
    total: int = 0
    _recent: deque[float] = field(default_factory=deque)
    _not_before: float = 0.0

    def healthy(self) -> None:
        self.failures = 0
        self._not_before = 0.0

    def start_failed(self, now: float) -> None:
        self.failures += 1
        self._not_before = now + self.backoff()

    def backoff(self) -> float:
        """1 s, doubled with every failure in a row, up to the maximum."""
        doublings = min(max(self.failures - 1, 0), 32)
        return min(self.settings.backoff_initial * 2.0**doublings, self.settings.backoff_max)

    def blocked(self, now: float) -> float:
        """Seconds until a call may start it again."""
        return max(0.0, self._not_before - now)

    def automatic(self, now: float) -> float | None:
        """Seconds until it is started again automatically; None if only a call starts it."""
        while self._recent and now - self._recent[0] >= self.settings.restart_window:
            self._recent.popleft()
        if len(self._recent) >= self.settings.max_restarts or self.failures >= self.settings.max_restarts:
            return None
        return self.backoff()

    def restarted(self, now: float, *, by_itself: bool) -> None:
        """Count a restart; those for a call do not count against `max_restarts`."""
        self.total += 1
        if by_itself:
            self._recent.append(now)


def state_after(error: BackendError | None) -> State:
    """Return the state of a backend whose connection has ended with this."""
    return State.LOGIN_REQUIRED if isinstance(error, LoginRequired) else State.STOPPED


def worth_starting_again(error: BackendError | None, *, connected: bool) -> bool:
    """Return False after a clean exit, and where a new start cannot help (no such command …)."""
    if isinstance(error, BackendCrashed):
        return error.details.get("exit_code") != 0 or not connected
    if isinstance(error, BackendProtocol):
        return int(error.details.get("http_status", 0)) >= 500
    return isinstance(error, BackendTimeout | BackendUnreachable | BackendBusy)
