"""The limits of one guest, each with a default, and the codes their errors carry.

docs/security.md says what each does not cover.
"""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20

CPU = "limit.cpu"
WALL = "limit.time"
MEMORY = "limit.memory"
TOTAL_MEMORY = "limit.total_memory"
STACK = "limit.stack"
CODE = "limit.code"
RESULT = "limit.result"
DEPTH = "limit.depth"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one chain may use; bytes are UTF-8, seconds are wall time unless named otherwise."""

    wall_seconds: float = 30.0
    """From the start of the chain, waiting included; looked at whenever the guest runs."""
    cpu_seconds: float = 10.0
    """Thread CPU time of the guest, looked at on every epoch tick."""
    memory_mb: int = 256
    """Linear memory of the guest; growing beyond it fails inside the guest."""
    depth: int = 1000
    """Nesting of values that cross the boundary, in either direction."""
    code_bytes: int = 256 * 1024
    calls: int = 1000
    """Calls of tools and reads of resources in one chain."""
    argument_bytes: int = 4 * MIB
    result_bytes: int = 32 * MIB
    """One reply taken into the guest."""
    value_bytes: int = 32 * MIB
    console_bytes: int = 64 * 1024
    console_line: int = 2000
    guests: int = 8
    """Guests that run at the same time: the number of worker threads or processes."""
    total_memory_mb: int = 1024
    """Linear memory of all guests together; looked at on every epoch tick."""
    other_messages: int = 10_000
    """Calls of `results` and `gatemini` in one chain."""

    @property
    def total_memory_text(self) -> str:
        """The error of a guest that ends because all together are too large."""
        return (
            f"all running chains together use more than {self.total_memory_mb} MiB, this one the most of it "
            f"({TOTAL_MEMORY})"
        )
