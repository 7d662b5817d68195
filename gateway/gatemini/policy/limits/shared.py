"""Limits that are counted in the state store: budgets of clients, and over several replicas rates and budgets of sessions.

This process counts them as well: under `state.on_failure: degrade` its own counts apply while the store cannot be reached.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable

from gatemini.config.model.values.durations import MAX_SECONDS
from gatemini.errors import CallUnchecked, StateUnavailable
from gatemini.policy.decision import Decision
from gatemini.policy.facts import CallFacts
from gatemini.policy.limits.budgets import MINUTE, Budgets, calls_spent, minute_spent, writes_spent
from gatemini.policy.limits.rates import too_fast
from gatemini.policy.principal import PeriodBudget
from gatemini.state.memory import MemoryStore
from gatemini.state.store import StateStore

SESSION_SECONDS = MAX_SECONDS
"""How long the counts of a session are kept after its last call: no session may be idle for longer."""
RENEW_SECONDS = 3600.0
"""How often their time to live is renewed."""
WRITE = 1 << 32
"""What a call that may change something adds: such calls are counted in the upper half of the counter of all calls."""
HINT = "try again later: the operator of this gateway must bring its state store back"


class SharedLimits:
    """The limits of one gateway. With `refuse`, calls that need the store are refused while it cannot be reached."""

    def __init__(self, store: StateStore, *, refuse: bool = True) -> None:
        self.store, self.refuse = store, refuse
        self.shared = store.shared
        self.record: Callable[[CallFacts, Decision], None] = lambda facts, decision: None
        """Called with each call that is refused because the store cannot be reached."""
        self._alone = MemoryStore()
        """Budgets of clients while the store cannot be reached."""

    async def look(self, facts: CallFacts, budgets: Budgets) -> None:
        """Learn what the session has called on all replicas, for rules that depend on it. Raises CallUnchecked."""
        counts = budgets.of(facts.session)
        try:
            total = await self.store.count(_of_session(facts), 0, SESSION_SECONDS)
            counts.calls, counts.writes = total % WRITE, total // WRITE
        except StateUnavailable as error:
            self.refused(facts, "its rule depends on the calls of the session", error)

    def refused(self, facts: CallFacts, needs: str, error: StateUnavailable | None = None) -> None:
        """Raise CallUnchecked for a call that needs the store while it cannot be reached; without `refuse` do nothing."""
        if self.refuse:
            problem = error.message if error is not None else self.store.problem
            self.record(facts, Decision("deny", "state.on_failure", f"{needs}, and {problem}"))
            raise CallUnchecked(
                f"{facts.qualified} cannot be checked: {needs}, and {problem}", hint=HINT
            ) from error

    def degraded(self) -> str | None:
        """Return that limits are those of this replica alone, and why; None while the store can be reached."""
        if self.refuse or self.store.problem is None:
            return None
        return f"limits and approvals are those of this replica alone: {self.store.problem}"

    async def take(self, facts: CallFacts, budgets: Budgets) -> Decision | None:
        """Count a call; return the denial of one that is one too many. Raises CallUnchecked."""
        try:
            refusal = await self._rates(facts, budgets) if self.shared else None
            return refusal or await self._client(self.store, facts)
        except StateUnavailable as error:
            self.refused(facts, "its limits are those of all replicas together", error)
            return await self._client(self._alone, facts)

    async def _rates(self, facts: CallFacts, budgets: Budgets) -> Decision | None:
        """Apply the limits that a single process would count by itself."""
        grant, config = facts.who.grant, budgets.config
        if grant is not None and grant.calls_per_minute is not None:
            wait = await self.store.admit(f"rate:{_of_client(facts)}", grant.calls_per_minute, MINUTE)
            if wait > 0:
                return too_fast(grant.calls_per_minute, wait)
        if config.calls_per_minute is not None:
            wait = await self.store.admit(f"rate:session:{facts.session}", config.calls_per_minute, MINUTE)
            if wait > 0:
                return minute_spent(config.calls_per_minute, wait)
        return await self._session(facts, budgets) if budgets.totals else None

    async def _session(self, facts: CallFacts, budgets: Budgets) -> Decision | None:
        counts, key, amount = budgets.of(facts.session), _of_session(facts), _amount(facts)
        calls, writes = budgets.config.calls_per_session, budgets.config.writes_per_session
        total = await self.store.count(key, amount, SESSION_SECONDS)
        refusal: Decision | None = None
        if calls is not None and total % WRITE > calls:
            refusal = calls_spent(calls)
        elif writes is not None and amount > 1 and total // WRITE > writes:
            refusal = writes_spent(writes)
        if refusal is not None:
            total = await self.store.count(key, -amount, SESSION_SECONDS)
            counts.calls, counts.writes = total % WRITE, total // WRITE
            return refusal
        if time.monotonic() - counts.renewed > RENEW_SECONDS:
            counts.renewed = time.monotonic()
            await self.store.renew(SESSION_SECONDS, key)
        before = total - amount  # the caller counts this call itself
        counts.calls, counts.writes = before % WRITE, before // WRITE
        return None

    async def _client(self, store: StateStore, facts: CallFacts) -> Decision | None:
        """Apply the client's own budgets; budgets with the same period share a counter."""
        budgets = facts.who.grant.budgets if facts.who.grant is not None else ()
        amount = _amount(facts)
        for period in {budget.period for budget in budgets}:
            key = f"spent:{_of_client(facts)}:{period:g}"
            total = await store.count(key, amount, period)
            for budget in budgets:
                if budget.period == period and (reason := _over(budget, total, amount)):
                    await store.count(key, -amount, period)
                    return Decision("deny", "http.clients.budget", reason)
        return None


def _over(budget: PeriodBudget, total: int, amount: int) -> str:
    """Return why a call is one too many; empty if it is not."""
    within = f"within {budget.period:g} s of the first"
    if budget.calls is not None and total % WRITE > budget.calls:
        return f"the client has made its {budget.calls} calls {within}"
    if budget.writes is not None and amount > 1 and total // WRITE > budget.writes:
        return f"the client has made its {budget.writes} calls that may change something {within}"
    return ""


def _amount(facts: CallFacts) -> int:
    return 1 if facts.hints.read_only else 1 + WRITE


def _of_session(facts: CallFacts) -> str:
    return f"budget:{facts.session}"


def _of_client(facts: CallFacts) -> str:
    """Return a principal's part of a key: a hash, so that the store holds no names."""
    return hashlib.sha256(facts.who.id.encode("utf-8", "surrogatepass")).hexdigest()[:32]
