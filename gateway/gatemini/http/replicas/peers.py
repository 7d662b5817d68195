"""Messages from replica to replica: each reads a stream of its own, and says every second that it lives."""

from __future__ import annotations

import logging
from collections.abc import Callable

import anyio
import anyio.abc
import msgspec

from gatemini.errors import StateUnavailable
from gatemini.state.store import StateStore

logger = logging.getLogger(__name__)

ALIVE_SECONDS = 4.0
"""A replica that has not said for so long that it lives counts as gone."""
RENEW_SECONDS = 1.0
KEPT_SECONDS = 60.0
"""How long a message waits for a replica that does not read."""


class Letter(msgspec.Struct, array_like=True):
    """One message: what it is, the exchange it belongs to, its sender."""

    kind: str
    exchange: str
    sender: str
    data: bytes = b""


_LETTER = msgspec.msgpack.Decoder(Letter)


class Post:
    """The messages of one replica. `handlers` has what is called with those of each kind."""

    def __init__(self, store: StateStore, replica: str) -> None:
        self.replica = replica
        self.handlers: dict[str, Callable[[Letter], None]] = {}
        self._store = store
        self._left = False

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Until cancelled: read what others send, and say that this replica lives."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._live)
            task_status.started()
            async for data in self._store.read(_stream(self.replica)):
                try:
                    letter = _LETTER.decode(data)
                    if (handler := self.handlers.get(letter.kind)) is not None:
                        handler(letter)
                except msgspec.MsgspecError as error:  # a replica of another version has sent it
                    logger.warning("a message of another replica cannot be read: %s", error)

    async def _live(self) -> None:
        while not self._left:
            try:
                await self._store.put(_alive(self.replica), b"1", ALIVE_SECONDS)
            except StateUnavailable:
                logger.debug("the store does not know that this replica lives")
            await anyio.sleep(RENEW_SECONDS)

    async def leave(self) -> None:
        """Say that this replica is gone, when it ends."""
        self._left = True
        try:
            await self._store.delete(_alive(self.replica))
        except StateUnavailable:
            logger.debug("other replicas find out by themselves that this one is gone")

    async def send(self, to: str, kind: str, exchange: str, data: bytes = b"") -> None:
        """Send a message. Raises StateUnavailable."""
        letter = msgspec.msgpack.encode(Letter(kind, exchange, self.replica, data))
        await self._store.send(_stream(to), letter, KEPT_SECONDS)

    async def alive(self, replica: str) -> bool:
        """Whether a replica lives. Raises StateUnavailable."""
        return replica == self.replica or (await self._store.get(_alive(replica)))[0] is not None


def _stream(replica: str) -> str:
    return f"to:{replica}"


def _alive(replica: str) -> str:
    return f"alive:{replica}"
