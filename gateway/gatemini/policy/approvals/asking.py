"""Wait for a person's approval: channels in order, several calls of one chain together.

A call waits with the chain's clock paused. A task of its own asks about the calls of one chain, so that a call that is
cancelled or decided elsewhere holds up no other.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import anyio.abc
import anyio.to_thread
from anyio.abc import TaskStatus

from gatemini.config.model.approvals import CHANNELS, ApprovalsConfig, Channel
from gatemini.errors import StateUnavailable
from gatemini.model import Json
from gatemini.policy.approvals import client
from gatemini.policy.approvals.grants import Approval, GrantStore, NotDecided, State
from gatemini.policy.approvals.refusal_texts import not_granted, nothing_asks, too_deep
from gatemini.policy.approvals.shared_grants import SharedGrants
from gatemini.policy.approvals.subject import Request, Subject
from gatemini.policy.approvals.webhook import Webhook, WebhookFailed
from gatemini.policy.audit.record import json_text
from gatemini.policy.decision import Decision
from gatemini.policy.facts import CallFacts
from gatemini.policy.reach import CannotAsk, Reach
from gatemini.state.store import StateStore

logger = logging.getLogger(__name__)

WAIT_SECONDS = 299.0
"""How long a call waits for its approval: a little less than a chain may be parked, which would end without an answer."""

MOST_CHAINS = 16
"""Chains of one gateway that may wait at once."""

GATHER_SECONDS = 0.05
"""How long the question about one call waits for other calls that the chain issues at the same time."""

WATCHED_SECONDS = 5.0
"""A console that has looked so recently still watches."""

Redact = Callable[[Any], Any]
"""Takes the secrets of the configuration out of a value."""

Event = Callable[..., None]
"""Receives a kind and fields for the audit."""


@dataclass(slots=True)
class _Waiter:
    approval: Approval
    reach: Reach
    settled: anyio.Event = field(default_factory=anyio.Event)
    """Set once it is decided, or no channel is left to ask."""


@dataclass(slots=True)
class _Round:
    """The calls of one chain that wait, and those that no channel was asked about yet."""

    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    waiting: list[_Waiter] = field(default_factory=list)
    unasked: list[_Waiter] = field(default_factory=list)


class Approvals:
    """The approvals of one gateway. `run` owns the tasks that ask."""

    def __init__(self, redact: Redact = lambda value: value, state: StateStore | None = None) -> None:
        self.store = GrantStore()
        self.event: Event = _no_event
        self.needed = anyio.Event()
        """Set once something can ask."""
        self.console = False
        """Whether a command of the terminal can reach this gateway."""
        self.webhook: Webhook | None = None
        self.shared = SharedGrants(state) if state is not None and state.shared else None
        self.allowed: tuple[Channel, ...] = CHANNELS
        """Channels that may be used at all, whatever a rule allows."""
        self._redact = redact
        self._tasks: anyio.abc.TaskGroup | None = None
        self._rounds: dict[str, _Round] = {}
        self._watched = float("-inf")

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Own the tasks that ask until cancelled."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            if self.shared is not None:
                tasks.start_soon(self._follow, self.shared)
            try:
                task_status.started()
                await anyio.sleep_forever()
            finally:
                self._tasks = None

    def configure(self, config: ApprovalsConfig, webhook_key: str, *, may_ask: bool) -> None:
        """Put a configuration in force; `webhook_key` is the resolved key."""
        self.allowed = config.via
        hook = config.webhook
        self.webhook = Webhook(hook.url, webhook_key, self._redact) if hook is not None else None
        if may_ask:
            self.needed.set()

    # -- calls -----------------------------------------------------------------------------------------

    async def approve(
        self,
        facts: CallFacts,
        decision: Decision,
        revision: str,
        reach: Reach,
        reads: tuple[str, ...] = (),
        *,
        alone: bool = False,
    ) -> bool:
        """Return True once a grant admits the call, False if the policy has changed meanwhile: then it is judged anew.

        `alone`: without the grants of other replicas, which the state store has. Raises ApprovalDenied, ApprovalPending
        or StateUnavailable.
        """
        with _within_depth(facts, decision):
            subject = Subject.of(facts, revision, decision.grounds)
        if await self._is_granted(subject, facts, None if alone else self.shared):
            return True
        via = tuple(channel for channel in decision.ask.via if self._has(channel))
        if not self._can_ask(via, reach) and "console" not in via:
            about = {"session": facts.session, "chain": facts.chain, "rule": decision.rule}
            self.event("approval", step="impossible", tool=facts.qualified, **about)
            raise nothing_asks(facts.qualified, decision, self.allowed)
        with _within_depth(facts, decision):
            json_text(
                facts.arguments
            )  # no deeper than the audit log writes them, whatever this interpreter can do
            request = Request.of(facts, decision, reads, self._redact)
        approval = self.store.open(subject, request, replace(decision.ask, via=via))
        self._record("asked", approval)
        waiter = _Waiter(approval, reach)
        approval.tell = waiter.settled.set
        try:
            if self._can_ask(via, reach) and self._has_place(facts.chain):
                with reach.pause():
                    await self._wait(facts.chain or approval.id, waiter)
        finally:
            self.store.leave(approval, keep="console" in via)
        return self._conclude(facts, approval)

    async def _is_granted(self, subject: Subject, facts: CallFacts, shared: SharedGrants | None) -> bool:
        """Use a grant that admits the call, if there is one. Raises StateUnavailable."""
        grant = self.store.use(subject) if shared is None else self.store.remembered(subject)
        if grant is None and shared is not None:
            # One that could not be shared, or that was shared without an answer of the store.
            for each in self.store.unclaimed(subject):
                if await shared.claim(each.id) and self.store.take(each):
                    grant = each
                    break
        if grant is not None:
            self._record("used", grant)
            return True
        if shared is None or (ident := await shared.use(subject)) is None:
            return False
        about = {"session": facts.session, "chain": facts.chain, "rule": subject.grounds}
        self.event("approval", step="used", approval=ident, tool=facts.qualified, **about)
        return True

    def _conclude(self, facts: CallFacts, approval: Approval) -> bool:
        """Use the grant, or raise what became of the approval; False where it was about another policy."""
        if approval.void and approval.state is not State.DENIED:
            self._record("void", approval)
            return False
        if self.store.take(approval):
            self._record("used", approval)
            return True
        raise not_granted(facts.qualified, approval)

    async def _wait(self, chain: str, waiter: _Waiter) -> None:
        if self._tasks is None:
            return
        current = self._rounds.get(chain)
        if current is None:
            current = self._rounds[chain] = _Round()
            self._tasks.start_soon(self._ask_all, chain, current)
        current.waiting.append(waiter)
        current.unasked.append(waiter)
        try:
            with anyio.move_on_after(WAIT_SECONDS):
                await waiter.settled.wait()
        finally:
            waiter.settled.set()  # a question about it holds up no other
            current.waiting.remove(waiter)
            if waiter in current.unasked:
                current.unasked.remove(waiter)
            if not current.waiting:
                current.scope.cancel()
                if self._rounds.get(chain) is current:  # the chain's next call begins a round of its own
                    del self._rounds[chain]

    def _has_place(self, chain: str) -> bool:
        return chain in self._rounds or len(self._rounds) < MOST_CHAINS

    # -- channels --------------------------------------------------------------------------------------

    def _has(self, channel: Channel) -> bool:
        """Return whether this gateway has that channel, for whatever client."""
        if channel not in self.allowed:
            return False
        return {"client": True, "console": self.console, "webhook": self.webhook is not None}[channel]

    def _can_ask(self, via: Sequence[Channel], reach: Reach) -> bool:
        return any(self._works(channel, reach) for channel in via)

    def _works(self, channel: Channel, reach: Reach) -> bool:
        if channel == "client":
            return reach.ask is not None and client.takes_questions(reach.can)
        if channel == "webhook":
            return self.webhook is not None
        return self.is_watched

    async def _ask_all(self, chain: str, current: _Round) -> None:
        """Ask about the calls of one chain until none of them waits."""
        try:
            with current.scope:
                await anyio.sleep(GATHER_SECONDS)
                while current.unasked:
                    batch, current.unasked = current.unasked, []
                    await self._ask(batch)
        except Exception:  # the other chains' questions go on
            logger.exception("asking for approvals failed")
        finally:
            if self._rounds.get(chain) is current:
                del self._rounds[chain]
            for waiter in current.waiting:
                waiter.settled.set()

    async def _ask(self, batch: list[_Waiter]) -> None:
        """Ask the channels in order until all calls of the batch are decided, or no channel is left."""
        for channel in dict.fromkeys(channel for waiter in batch for channel in waiter.approval.ask.via):
            open_ones = [
                waiter
                for waiter in batch
                if not waiter.settled.is_set()
                and channel in waiter.approval.ask.via
                and self._works(channel, waiter.reach)
            ]
            if not open_ones:
                continue
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._by_channel, channel, open_ones, tasks.cancel_scope)
                for waiter in open_ones:
                    await waiter.settled.wait()
                tasks.cancel_scope.cancel()
        for waiter in batch:
            waiter.settled.set()

    async def _by_channel(self, channel: Channel, batch: list[_Waiter], scope: anyio.CancelScope) -> None:
        """Ask one channel; `scope` is cancelled where it cannot decide, so that the next one is asked."""
        approvals = [waiter.approval for waiter in batch]
        try:
            if channel == "client":
                await self._by_client(approvals, batch[0].reach)
            elif channel == "webhook":
                await self._by_webhook(approvals)
            else:
                await anyio.sleep_forever()  # the console looks by itself
        except (CannotAsk, WebhookFailed) as failed:
            logger.warning("%s could not be asked for an approval: %s", channel, failed)
            self.event("approval", step="failed", channel=channel, reason=str(failed))
        scope.cancel()

    async def _by_client(self, approvals: list[Approval], reach: Reach) -> None:
        answer = await _elicit(reach, client.request(approvals))
        if client.wants_whole(answer):
            whole = functools.partial(client.request, approvals, whole=True)
            answer = await _elicit(reach, await anyio.to_thread.run_sync(whole))
        for approval, granted in zip(approvals, client.decisions(approvals, answer), strict=True):
            with suppress(NotDecided):  # a console was quicker, or the session has ended
                await self.decided(approval.id, approval.subject.digest, "client", granted=granted)

    async def _by_webhook(self, approvals: list[Approval]) -> None:
        if self.webhook is None:
            raise WebhookFailed("no webhook is configured")
        asked = {approval.id for approval in approvals}
        for verdict in await self.webhook.ask(approvals):
            try:
                if verdict.id not in asked:
                    raise NotDecided(f"{verdict.id} was not asked about")
                granted = verdict.granted
                await self.decided(verdict.id, verdict.digest, "webhook", granted=granted, by=verdict.by)
            except NotDecided as refused:
                logger.warning("a decision of the webhook has no effect: %s", refused)

    # -- decisions -------------------------------------------------------------------------------------

    def decide(self, ident: str, digest: str, channel: Channel, *, granted: bool, by: str = "") -> Approval:
        """Grant or deny an open approval. Raises NotDecided, and then nothing has changed."""
        try:
            approval = self.store.decide(ident, digest, channel, granted=granted)
        except NotDecided as refused:
            self.event("approval", step="refused", approval=ident, channel=channel, reason=str(refused))
            raise
        self._record("granted" if granted else "denied", approval, by=by)
        return approval

    async def decided(
        self, ident: str, digest: str, channel: Channel, *, granted: bool, by: str = ""
    ) -> Approval:
        """Decide an open approval, and share a grant that no call waits for with all replicas. Raises NotDecided."""
        approval = self.decide(ident, digest, channel, granted=granted, by=by)
        if granted and self.shared is not None and not approval.void:
            await self.shared.keep(approval, self.store)
        return approval

    def watched(self) -> None:
        """Note that a console looks at the open approvals now."""
        self._watched = time.monotonic()

    @property
    def is_watched(self) -> bool:
        return time.monotonic() - self._watched < WATCHED_SECONDS

    def opened(self) -> list[Approval]:
        return self.store.opened()

    def knows(self, ident: str) -> bool:
        """Whether an approval of this id was asked for here, and is not used or expired."""
        return self.store.knows(ident)

    def keep_revision(self, revision: str) -> None:
        """Drop what was asked or granted under another policy."""
        if self.store.keep_revision(revision) and self.shared is not None:
            self.shared.put_in_force(revision)
            if self._tasks is not None:
                self._tasks.start_soon(self._follow, self.shared)

    async def _follow(self, shared: SharedGrants) -> None:
        with suppress(StateUnavailable):  # else before the next use of a shared grant
            await shared.follow()

    def end_session(self, session: str) -> None:
        self.store.end_session(session)

    def _record(self, step: str, approval: Approval, **more: Any) -> None:
        self.event(
            "approval",
            step=step,
            approval=approval.id,
            tool=approval.request.qualified,
            session=approval.subject.session,
            chain=approval.request.chain,
            channel=approval.channel,
            rule=approval.request.rule,
            revision=approval.subject.revision,
            **{key: value for key, value in more.items() if value},
        )


@contextmanager
def _within_depth(facts: CallFacts, decision: Decision) -> Iterator[None]:
    """Deny a call whose arguments nest too deeply to be written as text."""
    try:
        yield
    except RecursionError:
        raise too_deep(facts.qualified, decision) from None


async def _elicit(reach: Reach, params: Json) -> Json:
    if reach.ask is None:
        raise CannotAsk("it is not connected")
    return await reach.ask(client.ELICIT, params)


def _no_event(_kind: str, **_fields: object) -> None:
    """Nothing records it."""
