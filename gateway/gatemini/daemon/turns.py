"""Decide which session may start its next request, so that many requests of one do not delay the others.

One request starts in each iteration of the event loop, the sessions in turn: else a client that sends hundreds at once has
them all begun before the loop looks at another client. And while other sessions are at work, one has only a few requests
that began just now: else all of them would wait behind its requests in the sandbox and at backends. Requests that have
been open for longer wait for something slow, and do not count.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque

BUSY_SECONDS = 1.0
"""How long a session counts as being at work after it has begun a request."""
YOUNG_SECONDS = 0.1
MOST_YOUNG = 2
"""Requests of one session that began within YOUNG_SECONDS and are open, while others are at work."""


class Turns:
    """The turns of one daemon. A session is any object that no other session has."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._taken = False
        self._busy: dict[object, float] = {}

    def contended(self, session: object) -> bool:
        """Whether other sessions are at work."""
        limit = time.monotonic() - BUSY_SECONDS
        for other in [other for other, at in self._busy.items() if at < limit]:
            del self._busy[other]
        return any(other is not session for other in self._busy)

    async def next(self, session: object) -> None:
        """Return when a request of the session may start; at once where none has started in this iteration."""
        self._busy[session] = time.monotonic()
        loop = asyncio.get_running_loop()
        if self._taken:
            turn = loop.create_future()
            self._waiting.append(turn)
            await turn
            return
        self._taken = True
        loop.call_soon(self._pass_on)

    def _pass_on(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # else its client is gone
                turn.set_result(None)
                asyncio.get_running_loop().call_soon(self._pass_on)
                return
        self._taken = False
