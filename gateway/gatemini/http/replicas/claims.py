"""Which replica serves a request, for one that a balancer sends again: the second joins it, or goes on from its journal."""

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
"""How long the end of a request may go unnoticed: meanwhile an equal one is answered from its journal."""


class Claim(msgspec.Struct, array_like=True):
    """The replica that serves a request, and the id of the chain that it runs for it."""

    replica: str
    chain: str


class Claims:
    """The requests that one replica serves, as others can find them."""

    def __init__(self, store: StateStore, replica: str) -> None:
        self._store = store
        self._replica = replica
        self._released: list[str] = []

    async def take(self, key: Key, chain: str) -> Claim | None:
        """Claim a request for this replica; return the claim of another one instead. Raises StateUnavailable."""
        mine = msgspec.msgpack.encode(Claim(self._replica, chain))
        if await self._store.put_new(_name(key), mine, JOIN_SECONDS):
            return None
        [data] = await self._store.get(_name(key))
        claim = None if data is None else msgspec.msgpack.decode(data, type=Claim)
        if claim is not None and claim.replica != self._replica:
            return claim
        await self.take_over(key, chain)  # one of its own that has ended
        return None

    async def take_over(self, key: Key, chain: str) -> None:
        """Claim a request whose replica does not serve it any more."""
        mine = msgspec.msgpack.encode(Claim(self._replica, chain))
        await self._store.put(_name(key), mine, JOIN_SECONDS)

    async def release(self, key: Key) -> None:
        """A request was answered: an equal one is a new one. Several are forgotten together."""
        self._released.append(_name(key))
        if len(self._released) > 1:
            return
        await anyio.sleep(GATHER_SECONDS)
        released, self._released = self._released, []
        try:
            await self._store.delete(*released)
        except StateUnavailable:
            logger.debug("claims of requests end by themselves")


def _name(key: Key) -> str:
    principal, session, ident, body = key
    text = "\0".join((*principal, session, type(ident).__name__, str(ident)))
    return f"request:{hashlib.sha256(text.encode('utf-8', 'surrogatepass') + body).hexdigest()}"
