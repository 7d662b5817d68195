"""Replies on their way to a guest, and the calls that get none because their approval is still open."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

import anyio
import anyio.lowlevel

from gatemini.chain.deadline import ChainTime
from gatemini.chain.replay.outcome import Outcome
from gatemini.errors import ApprovalPending
from gatemini.model import Json
from gatemini_sandbox.messages import ErrorInfo, Reply

CALLS_NAMED = 5
"""Calls that an error names of those whose approval is open."""


@dataclass(slots=True)
class Exchange:
    """Replies that wait for the guest."""

    ready: list[Reply] = field(default_factory=list)
    running: set[asyncio.Task[None]] = field(default_factory=set)
    """Calls in tasks of their own."""
    held: list[Outcome] = field(default_factory=list)
    """Calls that get no reply in this run."""
    _news: anyio.Event = field(default_factory=anyio.Event)

    def put(self, reply: Reply) -> None:
        self.ready.append(reply)
        self._news.set()

    def hold(self, outcome: Outcome) -> None:
        """Keep a call without a reply: the chain goes on as far as it can without one."""
        self.held.append(outcome)
        self._news.set()

    def closed(self) -> None:
        """Note that the call of the current task has ended."""
        self.running.discard(asyncio.current_task())
        if self.held:
            self._news.set()

    def take(self) -> list[Reply]:
        batch, self.ready = self.ready, []
        return batch

    def stuck(self, wake_ms: float | None) -> bool:
        """Return whether only calls without a reply are left: no other call, no reply and no timer of the code's."""
        return bool(self.held) and not self.ready and not self.running and wake_ms is None

    async def next_batch(self, wake_ms: float | None, chain_time: ChainTime) -> bool:
        """Wait until a reply is there, the guest's next timer is due, or the guest is stuck. Return False when the
        chain's time is over first.
        """
        due = None if wake_ms is None else time.monotonic() + wake_ms / 1000
        while not self.ready and not self.stuck(wake_ms):
            left = chain_time.left()
            if left <= 0:
                return False
            until_due = left if due is None else due - time.monotonic()
            if until_due <= 0:
                return True
            self._news = anyio.Event()
            with anyio.move_on_after(min(left, until_due)):
                await self._news.wait()
        if self.running:
            await anyio.lowlevel.checkpoint()  # what finished in the same tick travels in the same batch
        return chain_time.left() > 0


def approvals_open(held: list[Outcome]) -> ErrorInfo:
    """Return the error of a chain that ends because approvals of its calls are open."""
    calls = [outcome.value for outcome in held]
    idents = list(dict.fromkeys(ident for call in calls for ident in approvals_of(call)))
    first: Json = calls[0]
    message = str(first["message"])
    if len(calls) > 1:
        named = "; ".join(str(call["message"]) for call in calls[:CALLS_NAMED])
        more = len(calls) - CALLS_NAMED
        message = f"{len(calls)} calls wait for approvals: {named}" + (
            f" and {more} more" if more > 0 else ""
        )
    command = f"gatemini approve {' '.join(idents)}" if len(idents) <= CALLS_NAMED else "gatemini approve"
    return ErrorInfo(
        ApprovalPending.__name__,
        message,
        tool=first.get("tool"),
        backend=first.get("backend"),
        code=ApprovalPending.code,
        structured={"approvals": idents},
        hint=f"ask the user to run `{command}`, then resume the chain",
    )


def approvals_of(fields: Json) -> list[str]:
    """Return the ids of the approvals that an error of the code names."""
    structured = fields.get("structured")
    return [str(i) for i in structured.get("approvals", ())] if isinstance(structured, dict) else []
