"""The client behind one chain, as far as the chain has to do with it: whom to ask, and whom to tell what.

Above: server/tools.py makes one for each `call_tool_chain`. Below: invoke.py, which talks to it; backends/base.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gatemini.backends.callers import NOBODY, Caller


@dataclass(slots=True)
class CallRecord:
    """One call a chain made: what, with which outcome, how long. `outcome` is None while it is open."""

    id: int
    backend: str
    tool: str
    started: float
    outcome: str | None = None
    ms: float = 0.0
    bytes: int = 0
    sent: bool = False
    """Whether it left the gateway (a composite tool: whether its code began)."""
    answered_by: str | None = None
    """The backend that answered instead, where one did."""

    def told(self) -> str:
        """The finished call as one line of progress."""
        return f"{self.tool}: {self.outcome} ({self.ms:.0f} ms)"


@dataclass(frozen=True, slots=True)
class ChainClient:
    """One client's open `call_tool_chain`."""

    caller: Caller = NOBODY
    on_call_done: Callable[[CallRecord], None] | None = None
    on_call_progress: Callable[[CallRecord, float, float | None, str | None], None] | None = None
    """Progress, total and message of a call that is open."""


NO_CLIENT = ChainClient()
