"""Limits that are counted in the state store: budgets of clients, and with several replicas rates and budgets of sessions.

Each replica counts in memory, too: those counts apply while the store cannot be reached under `state.on_failure: degrade`.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable

from gatemini.errors import CallUnchecked, StateUnavailable
from gatemini.policy.decision import Decision
from gatemini.policy.facts import CallFacts
from gatemini.policy.limits.budgets import MINUTE, Budgets, calls_spent, minute_spent, writes_spent
from gatemini.policy.limits.rates import too_fast
from gatemini.policy.principal import PeriodBudget
from gatemini.state.memory import MemoryStore
from gatemini.state.store import StateStore

SESSION_SECONDS = 3600.0
"""The least time for which the counts of a session are kept after its last call."""
RENEW_SECONDS = 900.0
"""Between two renewals of their time to live."""
WRITE = 1 << 32
"""One call that may change something: a counter has calls in its lower half and these in its upper half."""
HINT = "try again later: the operator of this gateway must bring its state store back"


class SharedLimits:
    """The limits of one gateway. With `refuse`, calls that need the store are refused while it cannot be reached."""

    def __init__(self, store: StateStore, *, refuse: bool = True, idle: float = 0.0) -> None:
        """`idle`: seconds without a request after which a session ends."""
        self.store, self.refuse = store, refuse
        self._lasting = max(SESSION_SECONDS, idle) + RENEW_SECONDS
        self.shared = store.shared
        self.record: Callable[[CallFacts, Decision], None] = lambda facts, decision: None
        """Called for each call that is refused because the store cannot be reached."""
        self._alone = MemoryStore()
        """Budgets of clients while the store cannot be reached."""

    async def look(self, facts: CallFacts, budgets: Budgets) -> None:
        """Load the counts of the session over all replicas, for rules that depend on them. Raises CallUnchecked."""
        counts = budgets.of(facts.session)
        try:
            total = await self.store.count(_of_session(facts), 0, self._lasting)
            counts.calls, counts.writes = total % WRITE, total // WRITE
        except StateUnavailable as error:
            self.refused(facts, "its rule depends on the calls of the session", error)

    def refused(self, facts: CallFacts, needs: str, error: StateUnavailable | None = None) -> None:
        """Raise CallUnchecked for a call that needs the store while it cannot be reached, unless limits degrade."""
        if self.refuse:
            problem = error.message if error is not None else self.store.problem
            self.record(facts, Decision("deny", "state.on_failure", f"{needs}, and {problem}"))
            raise CallUnchecked(
                f"{facts.qualified} cannot be checked: {needs}, and {problem}", hint=HINT
            ) from error

    def degraded(self) -> str | None:
        """Return the warning that limits count for this replica alone, with the reason; None while they do not."""
        if self.refuse or self.store.problem is None:
            return None
        return f"limits and approvals are those of this replica alone: {self.store.problem}"

    async def take(self, facts: CallFacts, budgets: Budgets) -> Decision | None:
        """Count a call; return the denial of one that is one too many. Raises CallUnchecked."""
        try:
            if not self.shared:
                return await self._client(self.store, facts)
            if (refusal := await self._rates(facts, budgets) or await self._session(facts, budgets)) is None:
                refusal = await self._client(self.store, facts)
                if refusal is not None:
                    await self._uncount(facts, budgets)
            return refusal
        except StateUnavailable as error:
            self.refused(facts, "its limits are those of all replicas together", error)
            return await self._client(self._alone, facts)

    async def _rates(self, facts: CallFacts, budgets: Budgets) -> Decision | None:
        """Apply the limits of calls per minute, which a process without other replicas counts in memory."""
        grant, config = facts.who.grant, budgets.config
        if grant is not None and grant.calls_per_minute is not None:
            wait = await self.store.admit(f"rate:{_of_client(facts)}", grant.calls_per_minute, MINUTE)
            if wait > 0:
                return too_fast(grant.calls_per_minute, wait)
        if config.calls_per_minute is not None:
            wait = await self.store.admit(f"rate:session:{facts.session}", config.calls_per_minute, MINUTE)
            if wait > 0:
                return minute_spent(config.calls_per_minute, wait)
        return None

    async def _session(self, facts: CallFacts, budgets: Budgets) -> Decision | None:
        """Count a call of the session, where a limit or a rule depends on its calls."""
        if not budgets.totals:
            return None
        counts, key, amount = budgets.of(facts.session), _of_session(facts), _amount(facts)
        calls, writes = budgets.config.calls_per_session, budgets.config.writes_per_session
        total = await self.store.count(key, amount, self._lasting)
        refusal: Decision | None = None
        if calls is not None and total % WRITE > calls:
            refusal = calls_spent(calls)
        elif writes is not None and amount > 1 and total // WRITE > writes:
            refusal = writes_spent(writes)
        if refusal is not None:
            await self._uncount(facts, budgets)
            return refusal
        if time.monotonic() - counts.renewed > RENEW_SECONDS:
            await self.store.renew(self._lasting, key)
            counts.renewed = time.monotonic()
        before = total - amount  # the caller counts this call itself
        counts.calls, counts.writes = before % WRITE, before // WRITE
        return None

    async def _uncount(self, facts: CallFacts, budgets: Budgets) -> None:
        """Take a refused call out of the count of its session."""
        if budgets.totals:
            counts = budgets.of(facts.session)
            total = await self.store.count(_of_session(facts), -_amount(facts), self._lasting)
            counts.calls, counts.writes = total % WRITE, total // WRITE

    async def _client(self, store: StateStore, facts: CallFacts) -> Decision | None:
        """Count a call in the client's own budgets, unless one is spent; those of one period have one count."""
        budgets = facts.who.grant.budgets if facts.who.grant is not None else ()
        amount = _amount(facts)
        counted: dict[str, float] = {}
        for period in sorted({budget.period for budget in budgets}):
            key = f"spent:{_of_client(facts)}:{period:g}"
            total = await store.count(key, amount, period)
            counted[key] = period
            for budget in budgets:
                if budget.period == period and (reason := _over(budget, total, amount)):
                    for key, period in counted.items():
                        await store.count(key, -amount, period)
                    return Decision("deny", "http.clients.budget", reason)
        return None


def _over(budget: PeriodBudget, total: int, amount: int) -> str:
    """Return why a call is one too many, "" where it is not."""
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
    """Return the principal's part of a key: a hash, so that keys name nobody."""
    return hashlib.sha256(facts.who.id.encode("utf-8", "surrogatepass")).hexdigest()[:32]
