"""How often all replicas together have used each tool, which ranks search results: one value in the state store."""

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
"""How long the counts are kept after the last use of any tool."""
LEASE_SECONDS = 10.0
MOST_TOOLS = 10_000
"""Tools whose counts are kept: the most used ones."""


class SharedUsage:
    """The counts of one replica and their sum over all replicas."""

    def __init__(self, store: StateStore, tracker: Tracker) -> None:
        self._store, self._tracker = store, tracker
        self._stored: dict[str, int] = {}
        """Uses by this process that the store has counted."""
        self._id = secrets.token_hex(8)
        self._due = 0.0

    async def exchange_if_due(self) -> None:
        """Exchange counts once a minute, where replicas share the store."""
        if self._store.shared and time.monotonic() >= self._due:
            self._due = time.monotonic() + EXCHANGE_SECONDS
            with suppress(StateUnavailable):
                await self.exchange()

    async def close(self) -> None:
        """Exchange counts a last time, where replicas share the store."""
        if self._store.shared:
            with suppress(StateUnavailable):
                await self.exchange()

    async def exchange(self) -> None:
        """Add this process's new uses to the counts in the store, and rank by those. Raises StateUnavailable."""
        own = self._tracker.own_usage()
        new = {tool: more for tool, uses in own.items() if (more := uses - self._stored.get(tool, 0)) > 0}
        if new and not await self._store.lease(LEASE, self._id, LEASE_SECONDS):
            return  # another replica adds its own at this moment: the next exchange adds these
        try:
            [kept] = await self._store.get(KEY)
            totals = _counts(orjson.loads(kept)) if kept is not None else {}
            if new:
                for tool, more in new.items():
                    totals[tool] = totals.get(tool, 0) + more
                totals = dict(sorted(totals.items(), key=lambda item: -item[1])[:MOST_TOOLS])
                await self._store.put(KEY, orjson.dumps(totals), KEPT_SECONDS)
                self._stored = own
        finally:
            if new:
                await self._store.release(LEASE, self._id)
        self._tracker.set_usage(totals)


def _counts(found: Any) -> dict[str, int]:
    return (
        {tool: uses for tool, uses in found.items() if type(uses) is int} if isinstance(found, dict) else {}
    )
