"""Messages between replicas: each reads an inbox of its own in the store, and renews a key there while it is alive."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable

import anyio
import anyio.abc
import msgspec

from gatemini.errors import StateUnavailable
from gatemini.state.memory import MemoryStore
from gatemini.state.store import StateStore

logger = logging.getLogger(__name__)

ALIVE_SECONDS = 4.0
"""A replica whose key was not renewed for so long counts as gone."""
RENEW_SECONDS = 1.0
KEPT_SECONDS = 60.0
"""How long a message waits for a replica that does not read."""


class PeerMessage(msgspec.Struct, array_like=True):
    """One message: its kind, the id of the exchange it belongs to, the replica that sends it."""

    kind: str
    exchange: str
    sender: str
    data: bytes = b""


_MESSAGE = msgspec.msgpack.Decoder(PeerMessage)


def new_replica() -> str:
    """Return a name for this process among the replicas."""
    return secrets.token_hex(4)


class Peers:
    """The connection of one replica to the others. `handlers`: kind of message → function that takes it."""

    def __init__(self, store: StateStore, replica: str) -> None:
        self.replica = replica
        self.handlers: dict[str, Callable[[PeerMessage], None]] = {}
        self.store = store
        self._left = False

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Read the inbox and renew the key of this replica, until cancelled; on a store without other replicas do nothing."""
        task_status.started()
        if not self.store.shared:
            return
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._renew_key)
                await self._read_inbox()
        finally:
            with anyio.move_on_after(RENEW_SECONDS, shield=True):
                await self.leave()

    async def _read_inbox(self) -> None:
        async for data in self.store.read(_inbox(self.replica)):
            try:
                message = _MESSAGE.decode(data)
                if (handler := self.handlers.get(message.kind)) is not None:
                    handler(message)
            except msgspec.MsgspecError as error:  # a replica of another version has sent it
                logger.warning("a message of another replica cannot be read: %s", error)

    async def _renew_key(self) -> None:
        while not self._left:
            try:
                await self.store.put(_alive(self.replica), b"1", ALIVE_SECONDS)
            except StateUnavailable:
                logger.debug("the key that shows that this replica is alive cannot be renewed")
            await anyio.sleep(RENEW_SECONDS)

    async def leave(self) -> None:
        """Delete the key of this replica when it ends."""
        self._left = True
        try:
            await self.store.delete(_alive(self.replica))
        except StateUnavailable:
            logger.debug("the key of this replica cannot be deleted and expires by itself")

    async def send(self, to: str, kind: str, exchange: str, data: bytes = b"") -> None:
        """Add a message to the inbox of another replica. Raises StateUnavailable."""
        message = msgspec.msgpack.encode(PeerMessage(kind, exchange, self.replica, data))
        await self.store.send(_inbox(to), message, KEPT_SECONDS)

    async def alive(self, replica: str) -> bool:
        """Whether a replica is alive. Raises StateUnavailable."""
        return replica == self.replica or (await self.store.get(_alive(replica)))[0] is not None


def alone() -> Peers:
    """Return the connection of a process without other replicas."""
    return Peers(MemoryStore(), new_replica())


def _inbox(replica: str) -> str:
    return f"to:{replica}"


def _alive(replica: str) -> str:
    return f"alive:{replica}"
