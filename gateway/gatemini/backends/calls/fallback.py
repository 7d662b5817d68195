"""The backends of `fallback_chain`: who may answer a call that its own backend could not, and which one did.

Above: `manager.py`, which knows all backends. Below: `actor.py`, the error tree.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

import anyio

from gatemini.backends.actor import Backend
from gatemini.backends.callers import Caller, ProgressFn
from gatemini.backends.status import State
from gatemini.errors import BackendError, BackendProtocol, ResultTooLarge
from gatemini.model import CallOutcome, Json

FALLBACK_META = "gatemini/fallback"
"""Key in a result's `_meta`: which backend answered instead, and the error that led to it."""

SHORTEST_CALL_SECONDS = 0.001
"""What a call is given whose time ran out while its backend got ready."""

Seat = Callable[[Backend, Caller, float], Awaitable[Backend]]
"""The instance of a backend that serves a caller, had before a deadline."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that any backend with such a tool may answer, until `deadline`."""

    tool: str
    arguments: Json
    deadline: float
    on_progress: ProgressFn | None
    caller: Caller


async def fall_back(
    call: Call, first: Backend, error: BackendError, backends: Mapping[str, Backend], seat_of: Seat
) -> CallOutcome | None:
    """What the first fallback that can answer says; None: nobody could.

    Getting ready and waiting for a place may take each an equal part of the time that is left: one that never starts
    leaves the others theirs.
    """
    names = [] if _may_have_run(call.tool, first, error) else able(call.tool, first, backends)
    for place, name in enumerate(names):
        now, backend = anyio.current_time(), backends.get(name)
        if now >= call.deadline:
            return None
        if backend is None:
            continue  # removed while others were tried
        try:
            share = now + (call.deadline - now) / (len(names) - place)
            seat = await seat_of(backend, call.caller, share)
            await seat.ready(share)
            if call.tool not in seat.tools:
                continue
            outcome = await _answer(call, seat, 1 / (len(names) - place))
        except BackendError as another:
            logger.info("fallback %s of %s failed too: %s", name, first.config.name, another.message)
            if another.sent and not backend.repeatable(call.tool):
                raise
            continue
        return _answered_by(outcome, name, error)
    return None


async def _answer(call: Call, seat: Backend, share: float) -> CallOutcome:
    left = max(SHORTEST_CALL_SECONDS, call.deadline - anyio.current_time())
    return await seat.call_tool(
        call.tool,
        call.arguments,
        timeout=left,
        share=share,
        on_progress=call.on_progress,
        caller=call.caller,
    )


def _may_have_run(tool: str, first: Backend, error: BackendError) -> bool:
    """Whether the call was answered, or may have had an effect that another would have too."""
    if isinstance(error, BackendProtocol | ResultTooLarge):
        return True
    return error.sent and not first.repeatable(tool)


def able(tool: str, first: Backend, backends: Mapping[str, Backend]) -> list[str]:
    """Who may answer instead, those that run before those to be waited for; one that has not listed yet may have the tool."""
    known = [(n, backends[n]) for n in first.config.fallback_chain if n in backends]
    fit = [(n, b) for n, b in known if tool in b.tools or not (b.tools or b.facts)]
    return [n for n, b in sorted(fit, key=lambda one: one[1].state is not State.HEALTHY)]


def _answered_by(outcome: CallOutcome, name: str, error: BackendError) -> CallOutcome:
    """The outcome, saying in `_meta` and notes that a fallback gave it and why."""
    meta = outcome.result.get("_meta")
    said = {
        **(meta if isinstance(meta, dict) else {}),
        FALLBACK_META: {"backend": name, "after": error.message},
    }
    note = f"answered by {name} instead: {error.message}"
    return replace(
        outcome,
        result={**outcome.result, "_meta": said},
        notes=(*outcome.notes, note),
        answered_by=name,
    )
