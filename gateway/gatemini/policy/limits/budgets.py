"""Count the calls of sessions, and deny those beyond the budgets."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field

from gatemini.config.model.policy import BudgetConfig
from gatemini.policy.decision import Decision
from gatemini.policy.facts import CallFacts

MINUTE = 60.0


@dataclass(slots=True)
class Counts:
    """How often one session has called so far."""

    calls: int = 0
    writes: int = 0
    recent: deque[float] = field(default_factory=deque)
    """When the calls of the last minute were made, by the monotonic clock; kept where a budget needs it."""
    renewed: float = float("-inf")
    """When the time to live of the count in the store was renewed last."""


class Budgets:
    """The counts of all sessions. A change of the configuration keeps them."""

    def __init__(self) -> None:
        self.config = BudgetConfig()
        self.totals = False
        """Whether a limit or a rule depends on the number of calls of a session."""
        self._sessions: dict[str, Counts] = {}

    def of(self, session: str) -> Counts:
        return self._sessions.get(session) or self._sessions.setdefault(session, Counts())

    def end_session(self, session: str) -> None:
        self._sessions.pop(session, None)

    def count(self, facts: CallFacts) -> None:
        """Count an admitted call."""
        counts = self.of(facts.session)
        counts.calls += 1
        counts.writes += not facts.hints.read_only
        if self.config.calls_per_minute is not None:
            counts.recent.append(time.monotonic())

    def refusal(self, facts: CallFacts) -> Decision | None:
        """Return the denial of a call that would be one too many."""
        config = self.config
        counts = self.of(facts.session)
        if config.calls_per_session is not None and counts.calls >= config.calls_per_session:
            return calls_spent(config.calls_per_session)
        writes = config.writes_per_session
        if writes is not None and counts.writes >= writes and not facts.hints.read_only:
            return writes_spent(writes)
        if config.calls_per_minute is not None:
            now = time.monotonic()
            while counts.recent and counts.recent[0] <= now - MINUTE:
                counts.recent.popleft()
            if len(counts.recent) >= config.calls_per_minute:
                wait = counts.recent[0] + MINUTE - now
                return minute_spent(config.calls_per_minute, wait)
        return None


def calls_spent(limit: int) -> Decision:
    """Return the denial of a call beyond `calls_per_session`."""
    return _spent("calls_per_session", f"the session has made its {limit} calls")


def writes_spent(limit: int) -> Decision:
    """Return the denial of a call beyond `writes_per_session`."""
    return _spent("writes_per_session", f"the session has made its {limit} calls that may change something")


def minute_spent(limit: int, wait: float) -> Decision:
    """Return the denial of a call beyond `calls_per_minute`; the next may be made in `wait` seconds."""
    reason = f"{limit} calls were made within a minute; the next may be made in {wait:.0f} s"
    return _spent("calls_per_minute", reason)


def _spent(budget: str, reason: str) -> Decision:
    return Decision("deny", f"policy.budgets.{budget}", reason)
