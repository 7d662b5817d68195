"""A call sent again by the rules of `retry`: only what certainly was not sent, or may be done twice.

Above: `actor.py`. Below: `endings.py` says which errors allow it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from gatemini.backends.calls.failures import SESSION_ENDED, only_waited, send_again_after
from gatemini.config.backend import RetryConfig
from gatemini.errors import BackendError

_T = TypeVar("_T")


async def sent(
    send: Callable[[], Awaitable[_T]],
    retry: RetryConfig,
    deadline: float,
    *,
    repeatable: bool,
    pause: Callable[[float], Awaitable[None]],
) -> _T:
    """What `send` brings; `pause` waits between two tries, within `deadline`.

    A repeat that came to nothing but waiting is no news: what is told is the failure that it was to mend.
    """
    delay = retry.initial_delay
    renewed = False
    before: BackendError | None = None
    for attempt in range(retry.max_retries + 1):
        try:
            return await send()
        except BackendError as error:
            if before is not None and only_waited(error):
                raise before from error
            before = error
            wait = send_again_after(error, delay, repeatable=repeatable)
            if wait is None or attempt == retry.max_retries or anyio.current_time() + wait >= deadline:
                raise
            if error.details.get(SESSION_ENDED):
                if renewed:
                    raise  # the new session was not known either: that is not what it is about
                renewed = True
            await pause(wait)
        delay = min(delay * retry.multiplier, retry.max_delay)
    raise AssertionError("the loop returns or raises")
