"""What the gateway calls: run a chain in a sandbox, step by step.

    sandbox = Sandbox(limits, cache_dir=…)
    session = sandbox.session(code, identifiers)
    step = await session.start(Start(…))
    while isinstance(step, Calls):
        step = await session.resume(replies)
    session.close()

Importing this loads neither the engine nor a parser.
"""

from __future__ import annotations

from collections.abc import Collection

from gatemini_sandbox.processes.process_pool import Isolation, Pool
from gatemini_sandbox.session import Session, Supply


class Sandbox(Pool):
    """Makes sessions; its other methods are those of Pool."""

    def session(
        self, code: str, identifiers: Collection[str] = (), *, wall_seconds: float | None = None
    ) -> Session:
        """A new session; nothing happens before its `start`. `identifiers` are the globals that are backends;
        `wall_seconds` replaces the default limit."""
        return Session(
            self, code, identifiers, self.limits.wall_seconds if wall_seconds is None else wall_seconds
        )


__all__ = ["Isolation", "Sandbox", "Session", "Supply"]
