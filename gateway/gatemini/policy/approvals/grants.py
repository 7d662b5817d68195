"""Open approvals and given grants: pure but for the clock.

An approval is opened for one call, decided once, and used once. A grant that is remembered also admits later calls that
are equal in every field of their subject, until it expires or its session ends.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from gatemini.config.model.approvals import Channel
from gatemini.policy.approvals.subject import Request, Subject
from gatemini.policy.decision import Ask

KEPT_SECONDS = 3600.0
"""How long an approval may be granted, and its grant be used: as long as the journal of an interrupted chain is kept."""

MOST_OF_SESSION, MOST_CHARS = 100, 16 << 20
"""Approvals of one session, and characters of their arguments; the oldest that no call waits for are dropped first."""


class State(StrEnum):
    OPEN = "open"
    GRANTED = "granted"
    DENIED = "denied"
    USED = "used"
    EXPIRED = "expired"


class NotDecided(Exception):
    """A decision that has no effect; the message says why."""


def _nothing() -> None:
    """No call waits."""


@dataclass(slots=True, eq=False)
class Approval:
    """One call that needs a person's agreement."""

    id: str
    subject: Subject
    request: Request
    ask: Ask
    since: float
    state: State = State.OPEN
    channel: Channel | None = None
    """By which it was decided."""
    waiting: bool = True
    """Whether a call waits for it now. Without one, it may still be granted for the chain's next run."""
    tell: Callable[[], None] = field(default=_nothing, repr=False)
    """Called once it is no longer open."""
    void: bool = False
    """Whether the policy has changed since it was asked for: then granting it admits nothing."""


class GrantStore:
    """All approvals of one gateway. `clock` counts seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: OrderedDict[str, Approval] = OrderedDict()
        self._remembered: dict[Subject, tuple[float, Approval]] = {}
        """Until when equal calls are admitted, and by which grant."""
        self._revision: str | None = None

    def use(self, subject: Subject) -> Approval | None:
        """Return the grant that admits this call: a remembered one, or one that is used up by this."""
        if (remembered := self.remembered(subject)) is not None:
            return remembered
        return next((each for each in self.unclaimed(subject) if self.take(each)), None)

    def remembered(self, subject: Subject) -> Approval | None:
        """Return the grant that is remembered for equal calls."""
        self.sweep()
        found = self._remembered.get(subject)
        return None if found is None else found[1]

    def unclaimed(self, subject: Subject) -> list[Approval]:
        """Return the grants for this call that no call waits for."""
        return [each for each in self._of(subject, State.GRANTED) if not each.waiting]

    def open(self, subject: Subject, request: Request, ask: Ask) -> Approval:
        """Return the approval for a call that waits from now on: one left open by an earlier run, or a new one."""
        self.sweep()
        for approval in self._of(subject, State.OPEN):
            if not approval.waiting:
                approval.waiting, approval.request, approval.ask = True, request, ask
                return approval
        approval = Approval(f"apr_{secrets.token_hex(8)}", subject, request, ask, self._clock())
        self._known[approval.id] = approval
        self._make_room(subject.session)
        return approval

    def decide(self, ident: str, digest: str, channel: Channel, *, granted: bool) -> Approval:
        """Grant or deny an approval, once. `digest` is that of the arguments which the person was shown.

        Raises NotDecided, and then nothing has changed.
        """
        self.sweep()
        approval = self._known.get(ident)
        if approval is None:
            raise NotDecided(f"there is no open approval {ident}: it was used, has expired, or never was")
        if approval.state is not State.OPEN:
            raise NotDecided(f"{ident} is {approval.state} already")
        if approval.subject.digest != digest:
            raise NotDecided(f"{ident} is for other arguments than those that were shown")
        if channel not in approval.ask.via:
            allowed = ", ".join(approval.ask.via)
            raise NotDecided(f"{ident} cannot be decided by {channel}: its rule takes {allowed}")
        approval.channel = channel
        if granted:
            self._remember(approval)
            self._settle(approval, State.GRANTED)
        else:
            self._settle(approval, State.DENIED)
            del self._known[ident]
        return approval

    def take(self, approval: Approval) -> bool:
        """Use a granted approval up; False where it is not granted, or was used."""
        if approval.state is not State.GRANTED:
            return False
        approval.state = State.USED
        self._known.pop(approval.id, None)
        return True

    def forget(self, subject: Subject) -> None:
        """Forget the grant that is remembered for equal calls."""
        self._remembered.pop(subject, None)

    def leave(self, approval: Approval, *, keep: bool) -> None:
        """Note that no call waits for it any more. With `keep` it may be granted later, for the chain's next run."""
        approval.waiting = False
        if approval.state is State.OPEN and (approval.void or not keep):
            self._expire(approval)
        elif approval.void:
            self.take(approval)

    def knows(self, ident: str) -> bool:
        """Whether there is an approval of this id that is not used, denied or expired."""
        self.sweep()
        return ident in self._known

    def opened(self) -> list[Approval]:
        """Return the approvals that may be decided now, the oldest first."""
        self.sweep()
        return [approval for approval in self._known.values() if approval.state is State.OPEN]

    def end_session(self, session: str) -> None:
        """Drop what a session that has ended was waiting for and what was granted to it."""
        for approval in [each for each in self._known.values() if each.subject.session == session]:
            self._expire(approval)
        for subject in [each for each in self._remembered if each.session == session]:
            del self._remembered[subject]

    def keep_revision(self, revision: str) -> bool:
        """Drop what was asked or granted before, if the policy is another one now; return whether it is.

        A policy that comes back later brings back no grant. Calls that wait are asked about anew once decided.
        """
        if revision == self._revision:
            return False
        first, self._revision = self._revision is None, revision
        if not first:
            for approval in list(self._known.values()):
                approval.void = True
                if not approval.waiting:
                    self._expire(approval)
            self._remembered.clear()
        return True

    def sweep(self) -> None:
        """Drop what has expired."""
        now = self._clock()
        while self._known:
            oldest = next(iter(self._known.values()))
            if oldest.since > now - KEPT_SECONDS:
                break
            self._expire(oldest)
        for subject in [each for each, (until, _) in self._remembered.items() if until <= now]:
            del self._remembered[subject]

    def _of(self, subject: Subject, state: State) -> Iterator[Approval]:
        return (a for a in list(self._known.values()) if a.state is state and a.subject == subject)

    def _remember(self, approval: Approval) -> None:
        """Keep the grant for equal calls, and admit those that wait already."""
        remember = approval.ask.remember
        if remember == "call" or approval.void:
            return
        until = float("inf") if remember == "session" else self._clock() + remember
        self._remembered[approval.subject] = (until, approval)
        for other in self._of(approval.subject, State.OPEN):
            if other is not approval:
                other.channel = approval.channel
                self._settle(other, State.GRANTED)

    def _expire(self, approval: Approval) -> None:
        self._known.pop(approval.id, None)
        self._settle(approval, State.EXPIRED)

    def _settle(self, approval: Approval, state: State) -> None:
        approval.state = state
        tell, approval.tell = approval.tell, _nothing
        tell()

    def _make_room(self, session: str) -> None:
        own = [each for each in self._known.values() if each.subject.session == session]
        count, size = len(own), sum(each.request.size for each in own)
        for approval in own:
            if count <= MOST_OF_SESSION and size <= MOST_CHARS:
                return
            if not approval.waiting:
                self._expire(approval)
                count, size = count - 1, size - approval.request.size
