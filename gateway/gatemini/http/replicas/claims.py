"""Claims of requests: a repeated request joins the first at the replica that claimed it, or resumes from its journal."""

from __future__ import annotations

import hashlib
import logging

import anyio
import msgspec

from gatemini.errors import StateUnavailable
from gatemini.http.retries import JOIN_SECONDS, Key
from gatemini.state.store import StateStore

logger = logging.getLogger(__name__)

GATHER_SECONDS = 0.05
"""How long the claims of answered requests are gathered; an equal request is answered from the journal meanwhile."""


class Claim(msgspec.Struct, array_like=True):
    """The replica that serves a request, and the id of the chain that it runs for it."""

    replica: str
    chain: str


class Claims:
    """The claims of one replica in the store."""

    def __init__(self, store: StateStore, replica: str) -> None:
        self._store = store
        self._replica = replica
        self._released: list[str] = []

    async def take(self, key: Key, chain: str) -> Claim | None:
        """Claim a request for this replica; return the claim of another one if there is one. Raises StateUnavailable."""
        claim = msgspec.msgpack.encode(Claim(self._replica, chain))
        if await self._store.put_new(_name(key), claim, JOIN_SECONDS):
            return None
        [data] = await self._store.get(_name(key))
        found = None if data is None else msgspec.msgpack.decode(data, type=Claim)
        if found is not None and found.replica != self._replica:
            return found
        await self._replace(key, chain)  # this replica's own claim, of a request that has ended
        return None

    async def take_over(self, key: Key, claim: Claim, chain: str) -> bool:
        """Replace the claim of a replica that does not serve the request any more; False where another one does that.

        Raises StateUnavailable.
        """
        if not await self._store.put_new(f"{_name(key)}:{claim.replica}:{claim.chain}", b"", JOIN_SECONDS):
            return False
        await self._replace(key, chain)
        return True

    async def _replace(self, key: Key, chain: str) -> None:
        if _name(key) in self._released:
            self._released.remove(_name(key))  # the claim to delete is the earlier one
        claim = msgspec.msgpack.encode(Claim(self._replica, chain))
        await self._store.put(_name(key), claim, JOIN_SECONDS)

    async def release(self, key: Key) -> None:
        """Delete the claim of an answered request: an equal one is a new request. Several are deleted together."""
        self._released.append(_name(key))
        if len(self._released) > 1:
            return
        await anyio.sleep(GATHER_SECONDS)
        released, self._released = self._released, []
        try:
            await self._store.delete(*released)
        except StateUnavailable:
            logger.debug("claims of answered requests cannot be deleted and expire by themselves")


def _name(key: Key) -> str:
    principal, session, ident, body = key
    text = "\0".join((*principal, session, type(ident).__name__, str(ident)))
    return f"request:{hashlib.sha256(text.encode('utf-8', 'surrogatepass') + body).hexdigest()}"
