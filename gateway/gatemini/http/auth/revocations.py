"""Revoked tokens of all replicas: each publishes those of its own file, which the files of others may not have yet."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress

import anyio
import orjson

from gatemini.errors import StateUnavailable
from gatemini.state.store import StateStore

KEY = "revoked:tokens"
CHANNEL = "tokens"
KEPT_SECONDS = 90 * 86_400.0
RENEW_SECONDS = 3600.0
"""How often a replica publishes all revoked tokens of its file again."""
RETRY_SECONDS = 0.5


class Revocations:
    """The ids of tokens that any replica has as revoked. `run` receives those of the others."""

    def __init__(self, store: StateStore) -> None:
        self._store = store
        self.ids: set[str] = set()
        self.changed = anyio.Event()
        """Set when another replica has published a new one, and then replaced."""
        self._shared: frozenset[str] = frozenset()
        self._at = float("-inf")

    async def run(self) -> None:
        """Receive revoked tokens of other replicas until cancelled, also those of an outage of the store."""
        while True:
            with suppress(StateUnavailable):
                async with self._store.listen(CHANNEL) as messages:
                    self._add(await self._store.members(KEY))
                    async for _, message in messages:
                        self._add(orjson.loads(message))
            await anyio.sleep(RETRY_SECONDS)

    def _add(self, ids: Iterable[str]) -> None:
        before = len(self.ids)
        self.ids.update(ids)
        if len(self.ids) > before:
            self.changed.set()
            self.changed = anyio.Event()

    async def share(self, revoked: frozenset[str]) -> None:
        """Publish new ids of this replica's file; those that cannot be published are with the next call."""
        now = time.monotonic()
        renew = now - self._at > RENEW_SECONDS
        new = revoked if renew else revoked - self._shared
        if not new:
            return
        with suppress(StateUnavailable):
            await self._store.add(KEY, new, KEPT_SECONDS)
            await self._store.publish(CHANNEL, orjson.dumps(sorted(new)))
            self._shared, self._at = revoked, now if renew else self._at
