"""Parked chains as other replicas know them: the owner of each, and what a replica needs to go on when the owner is gone.

The request state and the ids of requests to a client name the replica that waits for the answer, so that whichever gets it
can send it there. That is only a direction: the state is sealed with the keys that all replicas have.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import msgspec
from mcp.server.request_state import RequestStateCodec

from gatemini.model import Json
from gatemini.state.store import StateStore


class Parked(msgspec.Struct, array_like=True):
    """A parked chain: the session it belongs to, its id, and the requests that its client was sent, by their key.

    `revision` is that of the policy under which they were asked.
    """

    session: str
    chain: str
    questions: dict[str, Any]
    revision: str


class DirectedCodec:
    """Seals a request state with another codec, and writes the replica that waits for it in front."""

    def __init__(self, replica: str, codec: RequestStateCodec) -> None:
        self._replica = replica
        self._codec = codec

    def seal(self, payload: bytes) -> str:
        return f"{self._replica}.{self._codec.seal(payload)}"

    def unseal(self, token: str) -> bytes:
        return self._codec.unseal(token.partition(".")[2])


class SharedParking:
    """The parked chains of one replica, in the store."""

    def __init__(self, store: StateStore, replica: str, ttl: float) -> None:
        self._store = store
        self._replica = replica
        self._ttl = ttl

    def new_token(self) -> str:
        return f"{self._replica}.{secrets.token_urlsafe(16)}"

    def request_id(self) -> str:
        """Return an id for a request to a client, by which its answer finds the way back."""
        return f"{self._replica}-{secrets.token_hex(4)}"

    async def keep(
        self, token: str, session: str, chain: str, questions: Mapping[str, Json], revision: str
    ) -> None:
        """Let others go on with a chain if this replica is gone when its client answers."""
        parked = msgspec.msgpack.encode(Parked(session, chain, dict(questions), revision))
        await self._store.put(_key(token), parked, self._ttl)

    async def forget(self, token: str) -> None:
        """Forget a chain that its own replica goes on with."""
        await self._store.delete(_key(token))

    async def take(self, token: str, session: str) -> Parked | None:
        """Take over a chain of this session that another replica has parked, once."""
        if token.partition(".")[0] == self._replica:
            return None
        [data] = await self._store.get(_key(token))
        if data is None or msgspec.msgpack.decode(data, type=Parked).session != session:
            return None
        data = await self._store.take(_key(token))
        return None if data is None else msgspec.msgpack.decode(data, type=Parked)


def waiting_replica(request_state: object, ident: object) -> str | None:
    """Return the replica that waits for a message with this request state, or for the answer with this id."""
    if isinstance(request_state, str):
        name = request_state.partition(".")[0]
    elif isinstance(ident, str):
        name = ident.partition("-")[0]
    else:
        return None
    return name if len(name) == 8 and name.isalnum() else None


def _key(token: str) -> str:
    return f"parked:{token}"
