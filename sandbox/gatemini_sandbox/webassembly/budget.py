"""Bound what guests use: a budget of time each, and one ledger of memory for all."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from gatemini_sandbox import limits


@dataclass(slots=True)
class Budget:
    """What a machine may still use; read by the epoch callback on the guest's own thread."""

    cpu_seconds: float
    wall_until: float
    """On time.monotonic()."""
    ledger: Ledger
    cancelled: bool = False
    used_cpu: float = 0.0
    cpu_at_entry: float = 0.0

    def verdict(self) -> str | None:
        """The limit that is over, if one is; called while the guest runs."""
        if self.cancelled:
            return "cancelled"
        if self.used_cpu + time.thread_time() - self.cpu_at_entry > self.cpu_seconds:
            return limits.CPU
        if time.monotonic() > self.wall_until:
            return limits.WALL
        return None


@dataclass(slots=True)
class Ledger:
    """Linear memory of all guests together, in bytes by machine; the largest ends when it is too much."""

    most: int
    sizes: dict[int, int] = field(default_factory=dict)

    def over(self, machine: int, size: int) -> bool:
        self.sizes[machine] = size
        held = list(self.sizes.values())
        return sum(held) > self.most and size >= max(held)

    def forget(self, machine: int) -> None:
        self.sizes.pop(machine, None)
