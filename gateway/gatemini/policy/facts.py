"""What a decision about one call may depend on, and how a call ended."""

from __future__ import annotations

from dataclasses import dataclass

from gatemini.model import Json
from gatemini.policy.principal import Behalf, Principal


@dataclass(frozen=True, slots=True)
class Hints:
    """What a tool may do, after trust and overrides. The defaults are those of a tool without annotations."""

    read_only: bool = False
    destructive: bool = True
    open_world: bool = True
    idempotent: bool = False


@dataclass(slots=True)
class CallFacts:
    """One call: the tool by its names in the registry, never as code spells it, and its checked arguments.

    Not changed once it is made but by `renew`, and not frozen: that would take a microsecond of each call.
    `qualified` has the namespace of a backend that has one. `session` and `chain` are their ids, "" for none.
    """

    backend: str
    tool: str
    qualified: str
    arguments: Json
    tags: tuple[str, ...]
    hints: Hints
    who: Principal
    session: str = ""
    chain: str = ""
    at: float = 0.0
    """When it was made, in seconds since the epoch."""
    trace: str = ""
    """The id of the trace it belongs to, for the audit; no decision depends on it."""
    behalf: Behalf | None = None
    """Has the principal now, which may be another one than `who` once the call has waited."""

    def renew(self) -> bool:
        """Set `who` to the principal of `behalf`; return whether that is another one than before."""
        if self.behalf is None or self.behalf.who is self.who:
            return False
        before, self.who = self.who, self.behalf.who
        return before != self.who


@dataclass(slots=True)
class CallEnd:
    """How an admitted call ended: `outcome` is ok, cancelled, refused or "error: …", as in the chain's `_meta`."""

    outcome: str
    ms: float = 0.0
    bytes: int = 0
    sent: bool = True

    @property
    def ok(self) -> bool:
        return self.outcome == "ok"
