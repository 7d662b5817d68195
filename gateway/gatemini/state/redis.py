"""The store of several replicas: Redis or Valkey from 6.2 on, through the extra `redis`."""

from __future__ import annotations

import math
import secrets
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ResponseError

from gatemini.errors import StateUnavailable
from gatemini.state import scripts
from gatemini.state.blobs import INLINE, SWEEP_SECONDS, Blobs
from gatemini.state.redis_bus import RECONNECT_SECONDS, Bus
from gatemini.state.redis_commands import FAILED, OPERATION_SECONDS, Commands
from gatemini.state.scripts import Script
from gatemini.state.sealing import Sealer
from gatemini.state.store import STREAM_MESSAGES

PATIENCE_SECONDS = 1.0
"""How long after the loss of the server operations still wait for it, as while it restarts; later ones fail at once."""
READERS = 1000
"""Streams that are read at once; each has a connection."""
TRIMMED_MESSAGES = 100
"""After so many messages the reader of a stream removes them from the server, all at once."""
BLOCK_SECONDS = 5.0
"""How long one request for new messages of a stream waits on the server."""


class RedisStore:
    """A StateStore on a server. Values, list entries, members and messages are sealed; counters and lease owners are not."""

    shared = True

    def __init__(self, url: str, prefix: str, keys: Sequence[str], blobs: Path | None = None) -> None:
        url = url.removeprefix("redis+")
        limits: dict[str, Any] = {
            "socket_connect_timeout": OPERATION_SECONDS,
            "retry": Retry(NoBackoff(), 0),
            "client_name": "gatemini",
            "protocol": 2,
        }
        waiting = ConnectionPool.from_url(
            url, max_connections=READERS, socket_timeout=BLOCK_SECONDS + OPERATION_SECONDS, **limits
        )
        self.problem: str | None = None
        """Why the server cannot be reached. While there is one, operations fail at once, not after `OPERATION_SECONDS`."""
        self._lost_since: float | None = -math.inf
        """Since when the server cannot be reached; None while it can be."""
        self._id = secrets.token_hex(8)
        self._waiting = Redis.from_pool(waiting)
        self._commands = Commands(
            ConnectionPool.from_url(url, socket_timeout=None, **limits), waiting.disconnect
        )
        self._prefix, self._sealer = prefix, Sealer(keys)
        self._blobs = Blobs(blobs, self._sealer)
        self._bus = Bus(self._waiting, prefix, self._sealer.unseal, self._reached)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[RedisStore]:
        """Stay connected for the length of the context, also to a server that can only be reached later."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._bus.run)
            tasks.start_soon(self._commands.run)
            with anyio.move_on_after(OPERATION_SECONDS):
                await self._bus.tried.wait()
            if self._blobs.folder is not None:
                tasks.start_soon(self._sweep_blobs)
            try:
                yield self
            finally:
                tasks.cancel_scope.cancel()
                with anyio.move_on_after(OPERATION_SECONDS, shield=True):
                    await self._waiting.aclose(close_connection_pool=True)

    async def _sweep_blobs(self) -> None:
        """Delete files without a key, at one replica at a time, until cancelled."""
        while True:
            with suppress(StateUnavailable):
                if await self.lease("lease:blobs", self._id, SWEEP_SECONDS / 2):
                    await self._blobs.sweep(self._kept)
            await anyio.sleep(SWEEP_SECONDS)

    def _reached(self, problem: str | None) -> None:
        if problem is None:
            self.problem = self._lost_since = None
            return
        now = anyio.current_time()
        if self._lost_since is None:
            self._lost_since = now
        if now - self._lost_since >= PATIENCE_SECONDS:
            self.problem = f"the state store cannot be reached: {problem}"
            self._commands.fail(StateUnavailable(self.problem))

    async def _do(self, command: str | Script, *arguments: Any, again: bool = True) -> Any:
        """Execute one command, or a script on the key that is the first argument."""
        if self.problem is not None:
            raise StateUnavailable(self.problem)
        try:
            if isinstance(command, Script):
                return await self._commands.script(command, *arguments, again=again)
            return await self._commands.call(command, *arguments, again=again)
        except ResponseError as error:  # as where its memory is full
            raise StateUnavailable(f"the state store has refused a command: {error}") from error
        except FAILED as error:
            raise StateUnavailable(f"the state store cannot be reached: {error}") from error

    def _unsealed(self, name: str, values: Iterable[bytes]) -> list[bytes]:
        found = (self._sealer.unseal(name, value) for value in values)
        return [value for value in found if value is not None]

    async def _kept(self, names: Sequence[str]) -> list[bytes | None]:
        """Return what the server has under each name: a value, or the marker of its file."""
        values = await self._do("MGET", *names) if names else []
        return [
            None if value is None else self._sealer.unseal(name, value)
            for name, value in zip(names, values, strict=True)
        ]

    async def get(self, *keys: str) -> list[bytes | None]:
        names = [self._prefix + key for key in keys]
        kept = await self._kept(names)
        return [await self._blobs.whole(name, value) for name, value in zip(names, kept, strict=True)]

    async def put(self, key: str, value: bytes, ttl: float) -> None:
        name = self._prefix + key
        sealed = self._sealer.seal(name, await self._blobs.keep(name, value))
        await self._do("SET", name, sealed, "PX", _ms(ttl))

    async def put_new(self, key: str, value: bytes, ttl: float) -> bool:
        name = self._prefix + key
        sealed = self._sealer.seal(name, INLINE + value)
        return bool(await self._do(scripts.PUT_NEW, name, _ms(ttl), sealed))

    async def take(self, key: str) -> bytes | None:
        name = self._prefix + key
        value = await self._do("GETDEL", name, again=False)
        kept = None if value is None else self._sealer.unseal(name, value)
        found = await self._blobs.whole(name, kept)
        await self._blobs.drop(name, kept)
        return found

    async def delete(self, *keys: str) -> None:
        names = [self._prefix + key for key in keys]
        if self._blobs.folder is None:
            if names:
                await self._do("DEL", *names)
            return
        for name in names:
            value = await self._do(scripts.REMOVE, name)
            await self._blobs.drop(name, None if value is None else self._sealer.unseal(name, value))

    async def renew(self, ttl: float, *keys: str) -> None:
        for key in keys:
            await self._do("PEXPIRE", self._prefix + key, _ms(ttl))

    async def append(self, key: str, values: Iterable[bytes], ttl: float, most: int = 0) -> int:
        name = self._prefix + key
        sealed = [self._sealer.seal(name, value) for value in values]
        return int(await self._do(scripts.APPEND, name, _ms(ttl), most, *sealed))

    async def cut(self, key: str, length: int) -> None:
        await self._do(scripts.CUT, self._prefix + key, length)

    async def entries(self, key: str, start: int = 0) -> list[bytes]:
        name = self._prefix + key
        kept = await self._do("LRANGE", name, start, -1)
        found = self._unsealed(name, kept)
        if len(found) < len(kept):  # resuming from a journal with a gap would repeat calls
            raise StateUnavailable(f"{key} in the state store is not sealed with state.keys")
        return found

    async def add(self, key: str, members: Iterable[str], ttl: float) -> None:
        name = self._prefix + key
        sealed = [self._sealer.seal_alike(name, member.encode()) for member in members]
        await self._do(scripts.ADD, name, _ms(ttl), *sealed)

    async def members(self, key: str) -> set[str]:
        name = self._prefix + key
        return {member.decode() for member in self._unsealed(name, await self._do("SMEMBERS", name))}

    async def count(self, key: str, amount: int, ttl: float) -> int:
        return int(await self._do(scripts.COUNT, self._prefix + key, _ms(ttl), amount, again=not amount))

    async def admit(self, key: str, limit: int, period: float) -> float:
        return float(await self._do(scripts.ADMIT, self._prefix + key, limit, _ms(period))) / 1000

    async def lease(self, key: str, owner: str, ttl: float) -> bool:
        return bool(await self._do(scripts.LEASE, self._prefix + key, _ms(ttl), owner))

    async def leased_by(self, key: str) -> str | None:
        owner = await self._do("GET", self._prefix + key)
        return None if owner is None else bytes(owner).decode()

    async def release(self, key: str, owner: str) -> None:
        await self._do(scripts.RELEASE, self._prefix + key, owner)

    async def publish(self, channel: str, message: bytes) -> None:
        name = self._prefix + channel
        await self._do("PUBLISH", name, self._sealer.seal(name, message))

    def listen(self, *channels: str) -> AbstractAsyncContextManager[AsyncIterator[tuple[str, bytes]]]:
        return self._bus.listen(*channels)

    async def send(self, stream: str, message: bytes, ttl: float) -> None:
        name = self._prefix + stream
        sealed = self._sealer.seal(name, message)
        await self._do(scripts.SEND, name, _ms(ttl), STREAM_MESSAGES, sealed, again=False)

    async def read(self, stream: str) -> AsyncIterator[bytes]:
        name, last, read = self._prefix + stream, b"0", 0
        while True:
            try:
                found: Any = await self._waiting.xread({name: last}, block=int(BLOCK_SECONDS * 1000))
            except FAILED:
                await anyio.sleep(RECONNECT_SECONDS)
                continue
            for last, fields in found[0][1] if found else ():  # noqa: B007 - the next request begins after it
                value = self._sealer.unseal(name, fields[b"m"])
                read += 1
                if value is not None:
                    yield value
            if read >= TRIMMED_MESSAGES:
                with suppress(StateUnavailable):
                    await self._do("XTRIM", name, "MINID", last)
                    read = 0


def _ms(seconds: float) -> int:
    return max(1, math.ceil(seconds * 1000))
