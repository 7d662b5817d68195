"""Decide when calls to a backend are refused, and when its memory is too much. Pure: no I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gatemini.config.model.schema import HealthConfig

MEMORY_WARNING = 0.8
"""Share of `max_memory_mb` at which a warning is logged."""

Circuit = Literal["closed", "open", "half-open"]


Verdict = Literal["wait", "restart", "open"]
"""What follows from a failed probe."""


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
