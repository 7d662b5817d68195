"""Publish/subscribe of the Redis store, over one connection that is opened again when it breaks.

Its pings detect that the server is gone, or is back, also while there are no other operations.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.exceptions import ConnectionError as Disconnected

from gatemini.errors import StateUnavailable
from gatemini.state.redis_commands import FAILED
from gatemini.state.store import WAITING_MESSAGES

PING_SECONDS = 1.0
"""The server is pinged when there was no message for so long."""
MOST_PINGS = 4
"""Pings in a row without an answer after which the server counts as gone. One may be late because this process is busy."""
DROP_SECONDS = 10.0
"""How often channels without listeners are unsubscribed from."""
RECONNECT_SECONDS = 0.2
ALIVE = "alive"
"""A channel without messages, so that the connection always has a subscription."""
SUBSCRIBE_SECONDS = 2.0

Listener = MemoryObjectSendStream[tuple[str, bytes]]


@dataclass(slots=True)
class _Channel:
    listeners: set[Listener] = field(default_factory=set)
    subscribed: anyio.Event = field(default_factory=anyio.Event)


class Bus:
    """The channels and their listeners. `reached` is called with why the server cannot be reached, or None when it can."""

    def __init__(
        self,
        client: Redis,
        prefix: str,
        unseal: Callable[[str, bytes], bytes | None],
        reached: Callable[[str | None], None],
    ) -> None:
        self._client, self._prefix, self._unseal, self._reached = client, prefix, unseal, reached
        self._channels: dict[str, _Channel] = {}
        self._connection: PubSub | None = None
        self.tried = anyio.Event()
        """Set once the first attempt to connect has ended."""

    @asynccontextmanager
    async def listen(self, *channels: str) -> AsyncIterator[AsyncIterator[tuple[str, bytes]]]:
        """Receive what is published to the channels from now on. Raises StateUnavailable."""
        send, receive = anyio.create_memory_object_stream[tuple[str, bytes]](WAITING_MESSAGES)
        found = [self._channels.setdefault(channel, _Channel()) for channel in channels]
        for channel in found:
            channel.listeners.add(send)
        try:
            with send, receive:
                await self._subscribe(channels)
                yield receive
        finally:
            for channel in found:
                channel.listeners.discard(send)

    async def _subscribe(self, channels: tuple[str, ...]) -> None:
        new = [self._prefix + name for name in channels if not self._channels[name].subscribed.is_set()]
        try:
            with anyio.fail_after(SUBSCRIBE_SECONDS):
                if new and self._connection is not None:
                    with suppress(*FAILED):  # `run` subscribes to all channels after it has connected again
                        await self._connection.subscribe(*new)
                for name in channels:
                    await self._channels[name].subscribed.wait()
        except TimeoutError:
            raise StateUnavailable("the state store cannot be reached: no subscription") from None

    async def run(self) -> None:
        """Keep the connection open and distribute what arrives, until cancelled."""
        while True:
            try:
                async with self._client.pubsub() as connection:
                    await connection.subscribe(self._prefix + ALIVE)
                    self._connection = connection  # from here on `listen` subscribes by itself
                    if self._channels:
                        await connection.subscribe(*(self._prefix + name for name in self._channels))
                    await self._receive(connection)
            except FAILED as error:
                self._reached(str(error) or type(error).__name__)
                self.tried.set()
            finally:
                self._connection = None
                for channel in self._channels.values():
                    if channel.subscribed.is_set():
                        channel.subscribed = anyio.Event()
            await anyio.sleep(RECONNECT_SECONDS)

    async def _receive(self, connection: PubSub) -> None:
        pings, drop_at = 0, anyio.current_time() + DROP_SECONDS
        while True:
            if anyio.current_time() >= drop_at:
                drop_at = anyio.current_time() + DROP_SECONDS
                await self._drop_unused(connection)
            message = await connection.get_message(timeout=PING_SECONDS)
            if message is not None:
                pings = 0
                self._reached(None)
                self.tried.set()
                self._distribute(message)
            elif pings == MOST_PINGS:
                raise Disconnected(f"no answer to {pings} pings")
            else:
                pings += 1
                await connection.ping()

    async def _drop_unused(self, connection: PubSub) -> None:
        """Unsubscribe from channels without listeners."""
        unused = [name for name, channel in self._channels.items() if not channel.listeners]
        for name in unused:
            del self._channels[name]
        if unused:
            await connection.unsubscribe(*(self._prefix + name for name in unused))

    def _distribute(self, message: dict[str, Any]) -> None:
        name = (message["channel"] or b"").decode()
        channel = self._channels.get(name.removeprefix(self._prefix))
        if channel is None:
            return
        if message["type"] == "subscribe":
            channel.subscribed.set()
        elif message["type"] == "message" and (value := self._unseal(name, message["data"])) is not None:
            for listener in channel.listeners:
                with suppress(anyio.WouldBlock):
                    listener.send_nowait((name.removeprefix(self._prefix), value))
