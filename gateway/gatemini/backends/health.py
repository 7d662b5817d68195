"""Decide when a backend is started again, when starts are given up, when calls are refused. Pure: no I/O, no clock."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

from gatemini.config.model.schema import HealthConfig

MEMORY_WARNING = 0.8
"""Share of `max_memory_mb` at which a warning is logged."""

Circuit = Literal["closed", "open", "half-open"]


Verdict = Literal["wait", "restart", "open"]
"""What follows from a failed probe."""


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


@dataclass(slots=True)
class Breaker:
    """The circuit breaker of a backend: while open, calls are refused until a probe succeeds."""

    settings: HealthConfig
    circuit: Circuit = "closed"
    misses: int = 0
    _open_until: float = 0.0

    def success(self) -> None:
        self.circuit = "closed"
        self.misses = 0

    def failure(self, now: float, *, may_restart: bool) -> Verdict:
        self.misses += 1
        if self.circuit == "half-open":
            return self._open(now)
        if self.misses < self.settings.failure_threshold:
            return "wait"
        return "restart" if may_restart else self._open(now)

    def next_probe(self, now: float) -> float:
        """Seconds until the next probe is due."""
        if self.circuit == "open":
            return max(0.0, self._open_until - now)
        return self.settings.interval

    def probing(self) -> None:
        """Note that a probe is sent; with an open circuit it is the deciding one."""
        if self.circuit == "open":
            self.circuit = "half-open"

    def _open(self, now: float) -> Verdict:
        self.circuit = "open"
        self._open_until = now + self.settings.interval * self.settings.recovery_multiplier
        return "open"


@dataclass(slots=True)
class MemoryWatch:
    """Decides on a warning or a restart from the resident bytes of a backend's processes."""

    settings: HealthConfig
    limit_mb: int | None
    rss: int | None = None
    peak: int | None = None
    _warned: bool = False
    _last_restart: float | None = None

    def sample(self, rss: int, now: float) -> Literal["ok", "warn", "restart"]:
        self.rss = rss
        self.peak = max(rss, self.peak or 0)
        if self.limit_mb is None:
            return "ok"
        share = rss / (self.limit_mb << 20)
        if share > 1:
            cooling = (
                self._last_restart is not None
                and now - self._last_restart < self.settings.memory_restart_cooldown
            )
            if not cooling:
                self._last_restart = now
                self._warned = False
                return "restart"
        if share < MEMORY_WARNING:
            self._warned = False
        elif not self._warned:
            self._warned = True
            return "warn"
        return "ok"
