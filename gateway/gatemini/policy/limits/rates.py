"""Calls per minute of each principal, with bursts up to the limit, as this process counts them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from cachetools import TTLCache

from gatemini.policy.decision import Decision
from gatemini.policy.facts import CallFacts
from gatemini.policy.limits.budgets import MINUTE

MOST_PRINCIPALS = 100_000


@dataclass(slots=True)
class _Level:
    """How many calls a principal could make at once at the time `at`; it grows by the limit each minute, up to it."""

    calls: float
    at: float


class CallRates:
    """The levels of all principals."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # A principal without a call for a minute has its whole limit again, like one that has no level.
        self._levels: TTLCache[str, _Level] = TTLCache(MOST_PRINCIPALS, 2 * MINUTE, timer=clock)

    def refusal(self, facts: CallFacts) -> Decision | None:
        """Return the denial of a call that would be one too many in this minute."""
        limit = _limit(facts)
        if limit is None:
            return None
        calls = self._now(facts.who.id, limit)
        if calls >= 1:
            return None
        return too_fast(limit, (1 - calls) * MINUTE / limit)

    def count(self, facts: CallFacts) -> None:
        """Count an admitted call."""
        limit = _limit(facts)
        if limit is not None:
            calls = self._now(facts.who.id, limit)
            self._levels[facts.who.id] = _Level(calls - 1, self._clock())

    def _now(self, principal: str, limit: int) -> float:
        level = self._levels.get(principal)
        if level is None:
            return float(limit)
        return min(limit, level.calls + (self._clock() - level.at) * limit / MINUTE)


def too_fast(limit: int, wait: float) -> Decision:
    """Return the denial of a call beyond a client's rate; the next may be made in `wait` seconds."""
    reason = f"the client may make {limit} calls a minute; the next may be made in {wait:.1f} s"
    return Decision("deny", "http.clients.calls_per_minute", reason)


def _limit(facts: CallFacts) -> int | None:
    return facts.who.grant.calls_per_minute if facts.who.grant is not None else None
