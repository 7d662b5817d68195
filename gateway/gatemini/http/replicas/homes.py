"""The home of a session: the replica that has its `dedicated` backends' processes, and so runs all of its chains."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from gatemini.state.store import StateStore

RETAKE_SECONDS = 0.02
"""Between two looks at whether another replica has taken the place of a home that is gone."""
REPLACED_SECONDS = 60.0
"""How long the right to take the place of a home that is gone belongs to one replica."""


class Homes:
    """Finds the homes of sessions for one replica."""

    def __init__(
        self, store: StateStore, replica: str, alive: Callable[[str], Awaitable[bool]], idle: float
    ) -> None:
        """`alive` returns whether a replica still runs. `idle`: seconds without a call after which a session has no home."""
        self._store, self._replica = store, replica
        self._alive, self._ttl = alive, idle

    async def of(self, session: str) -> str:
        """Return the home of a session; this replica becomes it where there is none or the last one is gone.

        Raises StateUnavailable.
        """
        key = f"home:{session}"
        while True:
            [found] = await self._store.get(key)  # first: most calls are those of a session that has a home
            if found is None:
                if await self._store.put_new(key, self._replica.encode(), self._ttl):
                    return self._replica
            elif (home := found.decode()) == self._replica or await self._alive(home):
                await self._store.renew(self._ttl, key)
                return home
            elif await self._store.put_new(f"{key}:{home}", b"", REPLACED_SECONDS):
                await self._store.put(key, self._replica.encode(), self._ttl)
            else:
                await anyio.sleep(RETAKE_SECONDS)
