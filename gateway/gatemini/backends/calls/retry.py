"""Send a call again by the rules of `retry`: only if it certainly was not sent, or may run twice."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from gatemini.backends.calls.failures import RENEWED, SESSION_ENDED
from gatemini.config.model.backend import RetryConfig
from gatemini.errors import (
    BackendBusy,
    BackendCrashed,
    BackendError,
    BackendStarting,
    BackendUnhealthy,
    BackendUnreachable,
)

_T = TypeVar("_T")


async def with_retries(
    send: Callable[[], Awaitable[_T]],
    retry: RetryConfig,
    deadline: float,
    *,
    repeatable: bool,
    pause: Callable[[float], Awaitable[None]],
) -> _T:
    """Call `send` until it succeeds or may not be repeated; `pause` waits between two tries, within `deadline`.

    If a retry only waited (for a start, a free place), the failure before it is raised: that is the cause.
    """
    delay = retry.initial_delay
    renewed = False
    before: BackendError | None = None
    for attempt in range(retry.max_retries + 1):
        try:
            return await send()
        except BackendError as error:
            if before is not None and _only_waited(error):
                raise before from error
            before = error
            wait = _send_again_after(error, delay, repeatable=repeatable)
            if wait is None or attempt == retry.max_retries or anyio.current_time() + wait >= deadline:
                raise
            if error.details.get(SESSION_ENDED):
                if renewed or error.details.get(RENEWED):
                    raise  # the server does not know the new session either, so that is not the cause
                renewed = True
            await pause(wait)
        delay = min(delay * retry.multiplier, retry.max_delay)
    raise AssertionError("the loop returns or raises")


def _send_again_after(error: BackendError, delay: float, *, repeatable: bool) -> float | None:
    """Seconds to wait before sending a call again; None: it may have run, or sending cannot help."""
    if error.sent and not repeatable:
        return None
    if isinstance(error, BackendBusy) and "retry_after" in error.details and error.details.get("remote"):
        return float(error.details["retry_after"])
    return delay if isinstance(error, BackendCrashed | BackendUnreachable) else None


def _only_waited(error: BackendError) -> bool:
    """Whether a call failed inside the gateway, before anything was tried at the backend."""
    waited = isinstance(error, BackendStarting | BackendBusy | BackendUnhealthy)
    return waited and not error.sent and not error.details.get("remote")
