"""Send a tool call or a read: wait for the backend, take a place, retry, then try the backends of `fallback_chain`."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from gatemini.backends.actor import Backend
from gatemini.backends.calls.callers import Caller, ProgressFn
from gatemini.backends.calls.failures import not_answered
from gatemini.backends.calls.retry import Retries
from gatemini.backends.mcp_session import McpSession
from gatemini.backends.status import State
from gatemini.errors import (
    BackendError,
    BackendProtocol,
    BackendTimeout,
    BackendUnreachable,
    PolicyError,
    ResultTooLarge,
)
from gatemini.model import CallOutcome, Json, Tool

_T = TypeVar("_T")

FALLBACK_META = "gatemini/fallback"
"""Key in a result's `_meta`: the backend that answered instead, and the error that led to it."""

FindInstance = Callable[[Backend, Caller, float], Awaitable[Backend]]
"""Gives the instance of a backend that serves a caller, before a deadline."""

Admit = Callable[[Tool], Awaitable[None]]
Check = Callable[[str, Tool | None], None]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that any backend with such a tool may answer, within `timeout` seconds: until `deadline`."""

    tool: str
    arguments: Json
    timeout: float
    deadline: float
    on_progress: ProgressFn | None
    caller: Caller
    admit: Admit | None = None
    """Called with the tool of a fallback before it is called; raises PolicyError."""
    checks: tuple[Check, ...] = ()
    """Called right before the call is sent, with the backend's name and the tool as listed now; raise PolicyError."""


async def call_tool(backend: Backend, call: Call, begin_by: float) -> CallOutcome:
    """Make the call at this backend, which must be ready and have a place for it at `begin_by`.

    The call is sent again only if it certainly was not sent, or if the tool is annotated as repeatable.
    """
    repeatable = backend.repeatable(call.tool)
    params: Json = {"name": call.tool, "arguments": call.arguments}
    send = partial(_send, backend, call, params)
    try:
        return await _sent(backend, send, call.deadline, begin_by, repeatable=repeatable)
    except BackendTimeout as slow:
        if time.monotonic() < call.deadline:
            raise  # a limit of its own, which its message names
        own = call.timeout if call.timeout == backend.config.timeout else None
        raise not_answered(backend.config.name, call.tool, own, slow, backend.stderr_tail()) from slow


async def _send(backend: Backend, call: Call, params: Json, session: McpSession, left: float) -> CallOutcome:
    """Send a call once. `params` gets the client's answers to the backend's questions: a retry does not ask again."""
    for check in call.checks:
        check(backend.config.name, backend.tools.get(call.tool))
    return await session.call_tool(params, timeout=left, on_progress=call.on_progress, caller=call.caller)


async def read(backend: Backend, send: Callable[[McpSession, float], Awaitable[_T]], *, timeout: float) -> _T:
    """Read something; a failed attempt is repeated, because reading twice does no harm."""
    deadline = time.monotonic() + timeout
    return await _sent(backend, send, deadline, deadline, repeatable=True)


async def _sent(
    backend: Backend,
    send: Callable[[McpSession, float], Awaitable[_T]],
    deadline: float,
    begin_by: float,
    *,
    repeatable: bool,
) -> _T:
    """The answer to what `send` sends with the seconds that are left, retried by the rules of `retry`."""
    retries: Retries | None = None
    while True:
        try:
            session = await backend.ready(begin_by)
            await backend.limits.take_place(begin_by)
            try:
                answer = await send(session, max(0.001, deadline - time.monotonic()))
            except BackendUnreachable as down:
                backend.unreachable(down)
                raise
            finally:
                backend.limits.leave_place()
            backend.answered()
            return answer
        except BackendError as error:
            retries = retries or Retries(backend.config.retry, deadline, repeatable)
            wait = retries.wait_after(error, time.monotonic())
        await backend.until_changed(wait)


async def fall_back(
    call: Call,
    first: Backend,
    error: BackendError,
    backends: Mapping[str, Backend],
    find_instance: FindInstance,
) -> CallOutcome | None:
    """The answer of the first fallback that can give one; None without any.

    Each fallback may spend an equal part of the remaining time on getting ready, so that one that never starts leaves
    time for the others.
    """
    names = [] if _may_have_run(call.tool, first, error) else candidates(call.tool, first, backends)
    for tried, name in enumerate(names):
        now, backend = time.monotonic(), backends.get(name)
        if now >= call.deadline:
            return None
        if backend is None:
            continue  # removed while others were tried
        ready_by = now + (call.deadline - now) / (len(names) - tried)
        try:
            instance = await find_instance(backend, call.caller, ready_by)
            await instance.ready(ready_by)
            if call.tool not in instance.tools:
                continue
            if call.admit is not None:
                await call.admit(instance.tools[call.tool])
            rest = replace(call, timeout=call.deadline - time.monotonic())
            outcome = await call_tool(instance, rest, ready_by)
        except PolicyError as refused:
            error.hint = "; ".join(filter(None, (error.hint, f"its fallback was refused: {refused.message}")))
            continue
        except BackendError as another:
            logger.info("fallback %s of %s failed too: %s", name, first.config.name, another.message)
            if another.sent and not backend.repeatable(call.tool):
                raise
            continue
        return _answered_by(outcome, name, error)
    return None


def candidates(tool: str, first: Backend, backends: Mapping[str, Backend]) -> list[str]:
    """The fallbacks that have the tool, or may have it because they have not listed yet; healthy ones first."""
    if not first.config.fallback_chain:
        return []
    known = [(n, backends[n]) for n in first.config.fallback_chain if n in backends]
    fit = [(n, b) for n, b in known if tool in b.tools or not (b.tools or b.facts)]
    return [n for n, b in sorted(fit, key=lambda one: one[1].state is not State.HEALTHY)]


def _may_have_run(tool: str, first: Backend, error: BackendError) -> bool:
    """Whether the call was answered, or may have had an effect that must not happen twice."""
    if isinstance(error, BackendProtocol | ResultTooLarge):
        return True
    return error.sent and not first.repeatable(tool)


def _answered_by(outcome: CallOutcome, name: str, error: BackendError) -> CallOutcome:
    """The outcome with the fallback and its cause in `_meta` and notes."""
    meta = outcome.result.get("_meta")
    meta = meta if isinstance(meta, dict) else {}
    meta = {**meta, FALLBACK_META: {"backend": name, "after": error.message}}
    return replace(
        outcome,
        result={**outcome.result, "_meta": meta},
        notes=(*outcome.notes, f"answered by {name} instead: {error.message}"),
        answered_by=name,
    )
