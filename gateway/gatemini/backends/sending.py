"""Send a tool call or a read to one backend: wait until it is ready, take a place, retry, name what failed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from gatemini.backends.actor import Backend
from gatemini.backends.callers import NOBODY, Caller, ProgressFn
from gatemini.backends.calls.failures import not_answered
from gatemini.backends.calls.retry import with_retries
from gatemini.backends.session import McpSession
from gatemini.errors import BackendTimeout, BackendUnreachable
from gatemini.model import CallOutcome, Json

_T = TypeVar("_T")


async def call_tool(
    backend: Backend,
    name: str,
    arguments: Json,
    *,
    timeout: float,
    share: float = 1.0,
    on_progress: ProgressFn | None = None,
    caller: Caller = NOBODY,
) -> CallOutcome:
    """Call a tool within `timeout` seconds; starting and waiting may take a `share` of the remaining time.

    The call is sent again only if it certainly was not sent, or if the tool is annotated as repeatable.
    """
    deadline = anyio.current_time() + timeout
    params: Json = {"name": name, "arguments": arguments}

    async def call(session: McpSession, left: float) -> CallOutcome:
        return await session.call_tool(params, timeout=left, on_progress=on_progress, caller=caller)

    try:
        return await _sent(backend, call, deadline, share, repeatable=backend.repeatable(name))
    except BackendTimeout as slow:
        if anyio.current_time() < deadline:
            raise  # a limit of its own, which its message names
        own = backend.config.timeout if timeout >= backend.config.timeout else None
        raise not_answered(backend.config.name, name, own, slow, backend.stderr_tail()) from slow


async def read_resource(backend: Backend, uri: str, *, timeout: float, caller: Caller = NOBODY) -> Json:
    """Read a resource; a failed attempt is repeated, because reading twice does no harm."""

    async def read(session: McpSession, left: float) -> Json:
        return await session.read_resource(uri, timeout=left, caller=caller)

    return await _sent(backend, read, anyio.current_time() + timeout, 1.0, repeatable=True)


async def _sent(
    backend: Backend,
    send: Callable[[McpSession, float], Awaitable[_T]],
    deadline: float,
    share: float,
    *,
    repeatable: bool,
) -> _T:
    """The answer to what `send` sends with the seconds that are left, retried by the rules of `retry`."""

    async def attempt() -> _T:
        now = anyio.current_time()
        begin_by = now + (deadline - now) * share
        session = await backend.ready(begin_by)
        async with backend.limits.place(begin_by):
            try:
                answer = await send(session, max(0.001, deadline - anyio.current_time()))
            except BackendUnreachable as down:
                backend.unreachable(down)
                raise
            backend.answered()
            return answer

    return await with_retries(
        attempt, backend.config.retry, deadline, repeatable=repeatable, pause=backend.until_changed
    )
