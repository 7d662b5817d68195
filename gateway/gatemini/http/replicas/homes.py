"""The replica that has the processes of a session: where a backend is `dedicated`, all chains of a session run at one replica."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from gatemini.state.store import StateStore

RETAKE_SECONDS = 0.02
"""Until another replica has become the home in place of one that is gone."""
REPLACED_SECONDS = 60.0


class Homes:
    """The homes of sessions, as one replica finds them. `alive` returns whether a replica is; `idle` is in seconds."""

    def __init__(
        self, store: StateStore, replica: str, alive: Callable[[str], Awaitable[bool]], idle: float
    ) -> None:
        self._store, self._replica = store, replica
        self._alive, self._ttl = alive, idle

    async def of(self, session: str) -> str:
        """Return the replica that the chains of a session run at: this one, if it has none or that is gone.

        Raises StateUnavailable.
        """
        key = f"home:{session}"
        while not await self._store.put_new(key, self._replica.encode(), self._ttl):
            [found] = await self._store.get(key)
            if found is None:  # it has expired since
                continue
            home = found.decode()
            if home == self._replica or await self._alive(home):
                await self._store.renew(self._ttl, key)
                return home
            if await self._store.put_new(f"{key}:{home}", b"", REPLACED_SECONDS):
                await self._store.put(key, self._replica.encode(), self._ttl)
            else:
                await anyio.sleep(RETAKE_SECONDS)
        return self._replica
