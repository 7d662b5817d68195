"""The door to backends: decide about every call before it leaves, and record how it ended.

`chain/invoke.py` alone calls it, for the calls of every tier. A decision is a pure function of the facts: `Door.judge`
has its steps in the order in which they apply, each of which is in a folder or file of its own.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from gatemini.config.model.policy import PolicyConfig
from gatemini.discovery.types.identifiers import COMPOSITE_BACKEND, spoken
from gatemini.errors import PolicyDenied, StateUnavailable
from gatemini.model import Json, Offer, Tool
from gatemini.policy.approvals.asking import Approvals
from gatemini.policy.audit.log import AuditLog
from gatemini.policy.client_grant import refusal_by
from gatemini.policy.decision import Decision, stricter
from gatemini.policy.facts import CallEnd, CallFacts, Hints
from gatemini.policy.flow.guard import FlowGuard
from gatemini.policy.flow.labels import Held
from gatemini.policy.limits.budgets import Budgets, Counts
from gatemini.policy.limits.rates import CallRates
from gatemini.policy.limits.shared import SharedLimits
from gatemini.policy.pins.pins import RULE as PIN
from gatemini.policy.pins.pins import Pins
from gatemini.policy.principal import Behalf, Principal
from gatemini.policy.reach import Reach
from gatemini.policy.rules.hints import HARMLESS, UNKNOWN
from gatemini.policy.rules.rules import NOTHING_KNOWN, Rules
from gatemini.policy.visibility import Listing, Listings, reading_of
from gatemini.registry import Registry
from gatemini.state.memory import MemoryStore

REGISTERING = "register_manual"
"""The tool as which records and refusals name the registration of a backend."""


@dataclass(slots=True)
class Admission:
    """One admitted call; `settle` ends it."""

    door: Door
    facts: CallFacts
    seq: int | None = None
    """The number of its intent record."""
    revision: str = ""
    """The policy under which it was admitted."""
    grounds: str = ""
    """The rule that admitted it, with the labels that an approval was about."""


class Door:
    """The decisions of one gateway. A changed configuration applies to the next call, also of running chains."""

    def __init__(
        self,
        policy: PolicyConfig,
        approvals: Approvals | None = None,
        *,
        audit: AuditLog | None = None,
        pins: Pins | None = None,
        limits: SharedLimits | None = None,
    ) -> None:
        self.audit = audit
        self.pins = pins
        self.limits = limits or SharedLimits(MemoryStore())
        self.limits.record = self._record_refusal
        self.budgets = Budgets()
        self.rates = CallRates()
        self.owners: Mapping[str, str] = {}
        """Registered backend → the session that alone may see it."""
        self.always = False
        """Whether it stays where nothing of a policy is configured: clients have grants and registrations of their own."""
        self.approvals = approvals or Approvals()
        if audit is not None:
            self.approvals.event = audit.event
        self.flow = FlowGuard()
        self._listings = Listings(self.visible, lambda: self.rules.tells_ids)
        self.set_policy(policy)
        if pins is not None:
            pins.changed = self.changed

    def set_policy(self, policy: PolicyConfig) -> None:
        """Put other rules in force; what sessions have called so far still counts."""
        self.rules = Rules(policy)
        self.budgets.config = budgets = policy.budgets
        limited = budgets.calls_per_session is not None or budgets.writes_per_session is not None
        self.budgets.totals = limited or self.rules.of_session
        self.flow.set_config(policy)
        self.approvals.keep_revision(self.revision)
        self.changed()

    def changed(self) -> None:
        """Decide anew which tools are shown, because rules or pins have changed."""
        self._listings.clear()

    @property
    def revision(self) -> str:
        """Hash of the policy in force, which every record of a call in the audit log has."""
        return self.rules.revision

    # -- what invoke calls ---------------------------------------------------------------------------

    def facts(
        self,
        tool: Tool,
        arguments: Json,
        who: Principal,
        session: str,
        chain: str,
        trace: str = "",
        behalf: Behalf | None = None,
    ) -> CallFacts:
        """Return the facts of a call. A backend's own annotations are used only as far as it is trusted."""
        return CallFacts(
            tool.backend,
            tool.name,
            tool.qualified,
            arguments,
            () if tool.backend in self.owners else tool.tags,  # an agent writes those of what it registers
            self._hints(tool),
            who,
            session,
            chain,
            time.time(),
            trace,
            behalf,
        )

    def _hints(self, tool: Tool) -> Hints:
        """Return what a tool may do. An agent that registers a backend chooses its name, which is trusted by no glob."""
        return self.rules.hints.of(tool, trusted=tool.backend not in self.owners)

    async def admit(self, facts: CallFacts, reach: Reach) -> Admission:
        """Admit the call. Raises PolicyDenied, ApprovalDenied, ApprovalPending, AuditFailed or CallUnchecked.

        Then nothing may be sent.
        """
        if self.limits.shared and self.rules.of_session:
            await self.limits.look(facts, self.budgets)
        decision, revision = self.judge(facts), self.revision
        while decision.action == "ask":
            granted = await self._approval(facts, decision, reach)
            facts.renew()
            again = self.judge(facts)  # the rules and the session may have changed while it waited
            before, revision = revision, self.revision
            same = granted and again.grounds == decision.grounds and before == revision
            if again.action == "allow" or same:
                break
            decision = again
        if decision.action == "deny":
            raise self._refused(facts, decision)
        if self.flow.config.flow == "warn":
            decision = self.flow.warned(facts, decision)
        await self._limit(facts)
        # The policy may have changed meanwhile: then the call is judged again before it is sent.
        admission = Admission(self, facts, revision=revision, grounds=decision.grounds)
        self._count(facts)
        if self.audit is not None:
            labels = self.flow.held(facts.session).names() if self.flow.on else ()
            # Under `on_failure: block` this raises AuditFailed where the record cannot be written.
            admission.seq = await self.audit.intent(facts, decision, revision=revision, labels=labels)
        return admission

    def holds(self, admission: Admission | None) -> bool:
        """Whether a call was admitted under the policy in force; else it must be admitted again before it leaves."""
        return admission is not None and admission.door is self and admission.revision == self.revision

    def check(self, facts: CallFacts, admission: Admission | None, listed: Tool | None) -> None:
        """Raise PolicyDenied right before a call is sent, if it may not leave any more.

        While it waited for its server, the policy may have changed, and so may the hints of its tool, which came from
        the cache or another instance when it was admitted. `listed` is the tool as the server lists it now.
        """
        other = facts.renew()
        refusal = self._grant(facts) or self._pins(facts)
        hints = facts.hints if listed is None else self._hints(listed)
        renewed = other or admission is None or admission.revision != self.revision
        if refusal is None and (renewed or (hints is not facts.hints and hints != facts.hints)):
            facts = replace(facts, hints=hints)
            refusal = self._decided_otherwise(
                facts, "" if renewed or admission is None else admission.grounds
            )
        if refusal is not None:
            raise self._refused(facts, refusal)
        if admission is not None:
            admission.facts = facts

    def _decided_otherwise(self, facts: CallFacts, grounds: str) -> Decision | None:
        """Return the denial of a call that was admitted, if it is decided otherwise now; it is counted already.

        `grounds`: those on which it may have been approved; "" under a policy that has changed since.
        """
        counts = self.budgets.of(facts.session)
        before = Counts(max(0, counts.calls - 1), max(0, counts.writes - (not facts.hints.read_only)))
        decision = self.rules.decide(facts, before)
        if decision.action != "deny":
            decision = stricter(decision, self.flow.objection(facts))
        if decision.action == "ask" and decision.grounds != grounds:
            reason = (
                "it must be approved now, for the policy or the tool changed while it waited: send it again"
            )
            return replace(decision, action="deny", reason=reason)
        return decision if decision.action == "deny" else None

    def settle(self, admission: Admission, end: CallEnd) -> None:
        """Note how an admitted call ended: its labels, then its outcome record. Never raises."""
        labels = self.flow.settle(admission.facts)
        if self.audit is not None:
            self.audit.outcome(admission.seq or 0, admission.facts, end, labels=labels)

    def read_before_registration(self, who: Principal, session: str) -> tuple[str, ...]:
        """Return what the session has read, in sentences, if the data-flow guard wants the registration of a backend approved.

        The address or arguments of a backend can carry out what was read. Raises PolicyDenied where the guard denies it.
        """
        facts = CallFacts("", REGISTERING, REGISTERING, {}, (), UNKNOWN, who, session, at=time.time())
        objection = self.flow.objection(facts)
        if objection is None:
            return ()
        if objection.action == "deny":
            raise self._refused(facts, objection)
        if objection.action == "allow":
            self.flow.warned(facts, objection)
            return ()
        return self.flow.held(session).sentences()

    def foresee(self, facts: CallFacts) -> None:
        """Raise PolicyDenied for a call of a dry run that would be denied; nothing is asked or counted."""
        if (decision := self.judge(facts)).action == "deny":
            raise self._refused(facts, decision)

    def visible(self, tool: Tool, who: Principal) -> bool:
        """Whether search, lists, types and completion show a tool: some arguments could be allowed or asked for.

        A resource is shown if its address could be read, a prompt if it could be got with some arguments.
        """
        return self.possible(tool, who).action != "deny"

    def listing(self, registry: Registry, who: Principal) -> Listing:
        """Return the tools that a principal finds."""
        return self._listings.of(registry, who, time.time())

    def shown_offers(self, backend: str, offers: list[Offer], who: Principal) -> list[Offer]:
        """Return the resources and prompts of a backend that a principal may see listed."""
        approved = offers if self.pins is None else self.pins.shown_offers(backend, offers)
        return [offer for offer in approved if self.visible(offer, who)]

    def refuse_unlisted(self, tool: Tool, who: Principal) -> None:
        """Raise PolicyDenied for a tool that has not been listed yet, if it is denied whatever its hints will be."""
        facts = replace(self.facts(tool, {}, who, "", ""), hints=HARMLESS)
        refusal = self._grant(facts) or self.rules.possible(facts)
        if refusal.action == "deny":
            raise self._refused(facts, refusal)

    def refuse_hidden(
        self, tool: Tool, arguments: Json, who: Principal, session: str, chain: str, trace: str = ""
    ) -> None:
        """Raise PolicyDenied if no arguments could be allowed: an error about them would describe a hidden tool."""
        decision = self.possible(tool, who)
        if decision.action == "deny":
            raise self._refused(self.facts(tool, arguments, who, session, chain, trace), decision)

    def possible(self, tool: Tool, who: Principal) -> Decision:
        """Return the least strict decision that a call of the tool could get from this principal now."""
        arguments: Json = {}
        known = NOTHING_KNOWN
        if isinstance(tool, Offer):
            tool, arguments, known = reading_of(tool)
        facts = self.facts(tool, arguments, who, "", "")
        refusal = self._grant(facts) or self._pins(facts)
        return refusal or self.rules.possible(facts, known)

    # -- the decision: pure ----------------------------------------------------------------------------

    def judge(self, facts: CallFacts) -> Decision:
        """Return the decision about a call as things are now; nothing is asked, counted or written."""
        refusal = self._session(facts) or self._grant(facts) or self._pins(facts)
        if refusal is not None:
            return refusal
        decision = self._rules(facts)
        return decision if decision.action == "deny" else stricter(decision, self.flow.objection(facts))

    def _session(self, facts: CallFacts) -> Decision | None:
        """Deny a call beyond the session's budgets. A composite tool counts by the calls that it makes."""
        if facts.backend == COMPOSITE_BACKEND:
            return None
        return self.budgets.refusal(facts) or self.rates.refusal(facts)

    def _grant(self, facts: CallFacts) -> Decision | None:
        """Deny what the client's own grant leaves out, what another session has registered, and all without a login."""
        if facts.behalf is not None and facts.behalf.suspended:
            return Decision("deny", "the client's login", "it has ended while the chain was parked")
        owner = self.owners.get(facts.backend)
        if owner is not None and owner != (facts.session or facts.who.session):
            return Decision("deny", "registration", "another session has registered this backend")
        return None if facts.who.grant is None else refusal_by(facts.who.grant, facts)

    def _pins(self, facts: CallFacts) -> Decision | None:
        """Deny a tool that is not as it was approved."""
        if self.pins is None:
            return None
        reason = self.pins.refusal(facts.backend, facts.tool, facts.arguments)
        return None if reason is None else Decision("deny", PIN, reason)

    def _rules(self, facts: CallFacts) -> Decision:
        """Decide by the first rule that matches, else by the default."""
        return self.rules.decide(facts, self.budgets.of(facts.session))

    # -- what follows a decision -------------------------------------------------------------------------

    async def _approval(self, facts: CallFacts, decision: Decision, reach: Reach) -> bool:
        """Wait for a person's approval; False where the policy has changed meanwhile. Raises ApprovalDenied or ApprovalPending."""
        if self.audit is not None:
            self.audit.decision(facts, decision, revision=self.revision)
        reads = self.flow.held(facts.session).sentences() if self.flow.on else ()
        try:
            return await self.approvals.approve(facts, decision, self.revision, reach, reads)
        except StateUnavailable as error:
            self.limits.refused(facts, "it needs an approval, which is used once by all replicas", error)
            return await self.approvals.approve(facts, decision, self.revision, reach, reads, alone=True)

    async def _limit(self, facts: CallFacts) -> None:
        """Apply the limits that are counted in the state store. Raises PolicyDenied or CallUnchecked."""
        grant, limits = facts.who.grant, self.limits
        if not limits.shared and (grant is None or not grant.budgets):
            return
        if facts.backend == COMPOSITE_BACKEND:  # it is limited by the calls that it makes
            return
        if self.audit is not None and limits.store.problem is not None and not facts.hints.read_only:
            limits.refused(facts, "it may change something, which the audit log of this gateway records")
        refusal = await limits.take(facts, self.budgets)
        if refusal is None and limits.shared and self.rules.of_session:
            decision = self.judge(facts)  # another replica may have counted a call since
            refusal = decision if decision.action == "deny" else None
        if refusal is not None:
            raise self._refused(facts, refusal)

    def _refused(self, facts: CallFacts, decision: Decision) -> PolicyDenied:
        """Record a refusal and return its error."""
        self._record_refusal(facts, decision)
        return PolicyDenied.by(spoken(facts.qualified), decision.rule, decision.reason)

    def _record_refusal(self, facts: CallFacts, decision: Decision) -> None:
        if self.audit is not None:
            self.audit.decision(facts, decision, revision=self.revision)

    def _count(self, facts: CallFacts) -> None:
        """Count an admitted call towards the session's budgets."""
        if facts.backend != COMPOSITE_BACKEND:
            self.budgets.count(facts)
            self.rates.count(facts)

    def begin_session(self, session: str) -> Held | None:
        """Begin a session; return the labels that it will gather, None where none are gathered."""
        return self.flow.begin(session) if self.flow.on else None

    def end_session(self, session: str) -> None:
        """Forget a session that has ended."""
        self.budgets.end_session(session)
        self.approvals.end_session(session)
        self.flow.end_session(session)


def may_ask(policy: PolicyConfig) -> bool:
    """Return whether some call may need an approval."""
    return "ask" in (policy.default, policy.flow, *(rule.action for rule in policy.rules))


def door_of(
    policy: PolicyConfig | None,
    before: Door | None,
    approvals: Approvals | None = None,
    webhook_key: str = "",
    audit: AuditLog | None = None,
    pins: Pins | None = None,
    limits: SharedLimits | None = None,
    owners: Mapping[str, str] | None = None,
) -> Door | None:
    """Return the door for a configuration: the one before with its new rules, or None where nothing is to be decided."""
    if policy is None and audit is None and not (before is not None and before.always):
        if before is not None:
            before.approvals.keep_revision("")
        return None
    policy = policy or PolicyConfig()
    if before is None:
        door = Door(policy, approvals, audit=audit, pins=pins, limits=limits)
        door.owners = door.owners if owners is None else owners
    else:
        door = before
        door.set_policy(policy)
    door.approvals.configure(policy.approvals, webhook_key, may_ask=may_ask(policy))
    return door
