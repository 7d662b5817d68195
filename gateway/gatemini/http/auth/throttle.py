"""Slow down addresses whose logins fail: each failure makes the next refusal of that address wait longer."""

from __future__ import annotations

import anyio
from cachetools import TTLCache

REMEMBERED_SECONDS = 600.0
MOST_ADDRESSES = 10_000
FREE_FAILURES = 3
"""Failures of an address that are answered at once: a client with an expired token tries a few times."""
FIRST_SECONDS = 0.1
MOST_SECONDS = 5.0
MOST_WAITING = 8
"""Refusals of one address that may wait at once; further ones are answered 429."""


class Throttle:
    """The failed logins by address."""

    def __init__(self) -> None:
        self._failures: TTLCache[str, int] = TTLCache(MOST_ADDRESSES, REMEMBERED_SECONDS)
        self._waiting: dict[str, int] = {}

    def seconds(self, address: str) -> float:
        """Return how long the next refusal of this address waits."""
        over = self._failures.get(address, 0) - FREE_FAILURES
        return 0.0 if over <= 0 else min(FIRST_SECONDS * 2 ** min(over - 1, 10), MOST_SECONDS)

    async def failed(self, address: str) -> bool:
        """Count a failure and wait; False where too many wait already."""
        self._failures[address] = self._failures.get(address, 0) + 1
        seconds = self.seconds(address)
        if not seconds:
            return True
        if self._waiting.get(address, 0) >= MOST_WAITING:
            return False
        self._waiting[address] = self._waiting.get(address, 0) + 1
        try:
            await anyio.sleep(seconds)
        finally:
            self._waiting[address] -= 1
            if not self._waiting[address]:
                del self._waiting[address]
        return True
