"""Revoked tokens of all replicas: each tells the others what its own token file says, which theirs may not say yet."""

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
"""How often a replica adds all that it knows anew."""
AGAIN_SECONDS = 0.5


class Revocations:
    """The ids of revoked tokens. `run` learns those of other replicas."""

    def __init__(self, store: StateStore) -> None:
        self._store = store
        self.ids: set[str] = set()
        self.news = anyio.Event()
        """Set when another replica has told of one."""
        self._shared: frozenset[str] = frozenset()
        self._at = float("-inf")

    async def run(self) -> None:
        """Until cancelled: learn what other replicas know, also after an outage of the store."""
        while True:
            with suppress(StateUnavailable):
                async with self._store.listen(CHANNEL) as messages:
                    self._learn(await self._store.members(KEY))
                    async for _, message in messages:
                        self._learn(orjson.loads(message))
            await anyio.sleep(AGAIN_SECONDS)

    def _learn(self, ids: Iterable[str]) -> None:
        before = len(self.ids)
        self.ids.update(ids)
        if len(self.ids) > before:
            self.news.set()
            self.news = anyio.Event()

    async def share(self, revoked: frozenset[str]) -> None:
        """Tell the others what this replica's file says; what they do not get now they get the next time."""
        now = time.monotonic()
        again = now - self._at > RENEW_SECONDS
        new = revoked if again else revoked - self._shared
        if not new:
            return
        with suppress(StateUnavailable):
            await self._store.add(KEY, new, KEPT_SECONDS)
            await self._store.publish(CHANNEL, orjson.dumps(sorted(new)))
            self._shared, self._at = revoked, now if again else self._at
