"""The door to backends: decide about every call before it leaves, and record how it ended.

`chain/invoke.py` alone asks it, for the calls of every tier. A decision is a pure function of the facts; the steps are
methods of `Door` in the order in which they apply. A new step goes into its own folder and is called from its method.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from gatemini.errors import PolicyDenied
from gatemini.model import Json, Tool
from gatemini.policy.decision import Decision, stricter
from gatemini.policy.facts import CallEnd, CallFacts, Hints
from gatemini.policy.principal import Principal

ALLOWED = Decision("allow", "default")
"""The decision where no rule is configured."""


@dataclass(frozen=True, slots=True)
class Reach:
    """The ways to the person behind a call: the client's capabilities and `ask`, which sends it a request.

    `pause()` stops the chain's clock for the length of its context.
    """

    can: Json = field(default_factory=dict)
    ask: Callable[[str, Json], Awaitable[Json]] | None = None
    pause: Callable[[], AbstractContextManager[None]] = nullcontext


@dataclass(slots=True)
class Admission:
    """One admitted call; `settle` ends it."""

    door: Door
    facts: CallFacts
    decision: Decision
    seq: int | None = None
    """The number of its intent record."""


class Door:
    """The decisions of one gateway. A changed configuration applies to the next call, also of running chains."""

    def __init__(self) -> None:
        self.revision = ""
        """Hash of the policy in force; stands in every record of the audit."""

    # -- what invoke calls ---------------------------------------------------------------------------

    def facts(self, tool: Tool, arguments: Json, who: Principal, session: str, chain: str) -> CallFacts:
        """Return the facts of a call. A backend's own annotations count only as far as it is trusted."""
        return CallFacts(
            tool.backend, tool.name, tool.qualified, arguments, tool.tags, Hints(), who, session, chain
        )

    async def admit(self, facts: CallFacts, reach: Reach) -> Admission:
        """Admit the call. Raises PolicyDenied, ApprovalDenied or ApprovalPending; then nothing may be sent."""
        decision = self.judge(facts)
        if decision.action == "ask":
            await self._approval(facts, decision, reach)
            again = self.judge(facts)  # the rules and the session may have changed while it waited
            decision = again if again.action == "deny" else decision
        if decision.action == "deny":
            raise self._refused(facts, decision)
        admission = Admission(self, facts, decision)
        self._count(facts)
        await self._intent(admission)
        return admission

    def settle(self, admission: Admission, end: CallEnd) -> None:
        """Note how an admitted call ended: its labels, then its outcome record. Never raises."""
        self._label(admission, end)
        self._outcome(admission, end)

    def visible(self, tool: Tool, who: Principal) -> bool:
        """Whether search, lists, types and completion show the tool: some arguments could be allowed or asked for."""
        return True

    # -- the decision: pure ----------------------------------------------------------------------------

    def judge(self, facts: CallFacts) -> Decision:
        """Return the decision about a call as things are now; nothing is asked, counted or written."""
        for step in (self._session, self._grant, self._pins):
            if (refusal := step(facts)) is not None:
                return refusal
        decision = self._rules(facts)
        return decision if decision.action == "deny" else stricter(decision, self._flow(facts))

    def _session(self, facts: CallFacts) -> Decision | None:
        """Deny a call beyond the session's budgets."""
        return None

    def _grant(self, facts: CallFacts) -> Decision | None:
        """Deny what the client's own grant leaves out."""
        return None

    def _pins(self, facts: CallFacts) -> Decision | None:
        """Deny a tool that is not as it was approved."""
        return None

    def _rules(self, facts: CallFacts) -> Decision:
        """Decide by the first rule that matches, else by the default."""
        return ALLOWED

    def _flow(self, facts: CallFacts) -> Decision | None:
        """Ask about or deny a call that could send what the session has read; None: no objection."""
        return None

    # -- what follows a decision -------------------------------------------------------------------------

    async def _approval(self, facts: CallFacts, decision: Decision, reach: Reach) -> None:
        """Wait for a person's approval. Raises ApprovalDenied or ApprovalPending."""
        raise self._refused(
            facts, Decision("deny", decision.rule, "it must be approved, and nothing can ask")
        )

    def _refused(self, facts: CallFacts, decision: Decision) -> PolicyDenied:
        """Record a refusal and return its error."""
        return PolicyDenied.by(facts.qualified, decision.rule, decision.reason)

    def _count(self, facts: CallFacts) -> None:
        """Count an admitted call towards the session's budgets."""

    async def _intent(self, admission: Admission) -> None:
        """Write the intent record, without which nothing leaves under `on_failure: block`."""

    def _label(self, admission: Admission, end: CallEnd) -> None:
        """Add the labels of what was read to chain and session."""

    def _outcome(self, admission: Admission, end: CallEnd) -> None:
        """Write the outcome record."""

    def end_session(self, session: str) -> None:
        """Forget a session that has ended."""
