"""The uses of tools by all replicas, which rank search results everywhere: one value in the state store."""

from __future__ import annotations

import logging
import secrets
import time
from contextlib import suppress
from typing import Any

import orjson

from gatemini.errors import StateUnavailable
from gatemini.state.store import StateStore
from gatemini.tracker import Tracker

logger = logging.getLogger(__name__)

EXCHANGE_SECONDS = 60.0
KEY, LEASE = "usage:all", "lease:usage"
KEPT_SECONDS = 90 * 86_400.0
"""How long the counts are kept without a use."""
LEASE_SECONDS = 10.0
MOST_TOOLS = 10_000
"""Tools that are kept, the most used first."""


class SharedUsage:
    """Exchanges the counts of one replica with those of all."""

    def __init__(self, store: StateStore, tracker: Tracker) -> None:
        self._store, self._tracker = store, tracker
        self._given: dict[str, int] = {}
        """Uses of this process that the store has."""
        self._id = secrets.token_hex(8)
        self._due = 0.0

    async def exchange_if_due(self) -> None:
        """Exchange them once a minute; a store of this process alone has nothing to exchange."""
        if self._store.shared and time.monotonic() >= self._due:
            self._due = time.monotonic() + EXCHANGE_SECONDS
            with suppress(StateUnavailable):
                await self.exchange()

    async def close(self) -> None:
        """Give what is new at the end."""
        if self._store.shared:
            with suppress(StateUnavailable):
                await self.exchange()

    async def exchange(self) -> None:
        """Add what is new here to the counts of all, and use those. Raises StateUnavailable."""
        own = self._tracker.own_usage()
        new = {tool: more for tool, uses in own.items() if (more := uses - self._given.get(tool, 0)) > 0}
        if new and not await self._store.lease(LEASE, self._id, LEASE_SECONDS):
            return  # another replica adds its own at this moment: the next exchange has these
        try:
            [kept] = await self._store.get(KEY)
            totals = _counts(orjson.loads(kept)) if kept is not None else {}
            if new:
                for tool, more in new.items():
                    totals[tool] = totals.get(tool, 0) + more
                totals = dict(sorted(totals.items(), key=lambda item: -item[1])[:MOST_TOOLS])
                await self._store.put(KEY, orjson.dumps(totals), KEPT_SECONDS)
                self._given = own
        finally:
            if new:
                await self._store.release(LEASE, self._id)
        self._tracker.set_usage(totals)


def _counts(found: Any) -> dict[str, int]:
    return (
        {tool: uses for tool, uses in found.items() if type(uses) is int} if isinstance(found, dict) else {}
    )
