"""A lease that one process keeps, and its own knowledge of how long it has it, whatever the store says later.

The owner counts from the moment before its request, on its own clock, and stops `MARGIN_SECONDS` before the store lets
another process have the lease. So a process that was paused, or cut off from the store, knows that its time is over before it does
anything else.
"""

from __future__ import annotations

import logging
import math
import time
from contextlib import suppress

import anyio

from gatemini.errors import StateUnavailable
from gatemini.state.store import StateStore

logger = logging.getLogger(__name__)

LEASE_SECONDS = 10.0
"""How long the store keeps a lease that is not renewed."""
MARGIN_SECONDS = 3.0
"""How long before that its owner stops: time for ending what it has."""
RENEW_SECONDS = 2.0
RELEASE_SECONDS = 2.0
_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
"""A clock that runs while the machine sleeps: `time.monotonic` does so on Windows, not on Linux and macOS."""


def _now() -> float:
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)


class Lease:
    """A lease on one key, for one owner."""

    def __init__(self, store: StateStore, key: str, owner: str) -> None:
        self._store, self._key, self.owner = store, key, owner
        self._until = -math.inf

    @property
    def seconds_left(self) -> float:
        """How long the owner may still act; not above 0 once it may not."""
        return self._until - _now()

    @property
    def held(self) -> bool:
        return self.seconds_left > 0

    async def take(self) -> bool:
        """Acquire or renew the lease; False while another owner has it. Raises StateUnavailable."""
        began = _now()
        if not await self._store.lease(self._key, self.owner, LEASE_SECONDS):
            self._until = -math.inf
            return False
        self._until = began + LEASE_SECONDS - MARGIN_SECONDS
        return True

    async def keep(self) -> None:
        """Renew the lease; return once it is lost."""
        while self.held:
            await anyio.sleep(min(RENEW_SECONDS, max(0.0, self.seconds_left)))
            if self.held:  # else another owner may have had it, so that it must not be acquired again
                with suppress(StateUnavailable), anyio.move_on_after(self.seconds_left):
                    await self.take()

    async def release(self) -> None:
        """Let another owner have the lease now."""
        self._until = -math.inf
        with anyio.move_on_after(RELEASE_SECONDS, shield=True):
            try:
                await self._store.release(self._key, self.owner)
            except StateUnavailable:
                logger.debug("the lease %s cannot be released and ends by itself", self._key)
