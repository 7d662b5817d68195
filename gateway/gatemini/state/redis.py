"""The store of several replicas: Redis or Valkey from 6.2 on, through the extra `redis`."""

from __future__ import annotations

import math
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
from redis.asyncio import BlockingConnectionPool, ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from gatemini.errors import StateUnavailable
from gatemini.state import scripts
from gatemini.state.blobs import INLINE, SWEEP_SECONDS, Blobs
from gatemini.state.redis_bus import FAILED, RECONNECT_SECONDS, Bus
from gatemini.state.sealing import Sealer
from gatemini.state.store import STREAM_MESSAGES

OPERATION_SECONDS = 2.0
"""How long one operation may take, with the wait for a connection."""
CONNECTIONS = 32
"""Connections for operations; more operations at once wait for one."""
READERS = 1000
"""Streams that are read at once; each has a connection."""
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
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=CONNECTIONS,
            timeout=OPERATION_SECONDS,
            socket_timeout=OPERATION_SECONDS,
            **limits,
        )
        waiting = ConnectionPool.from_url(
            url, max_connections=READERS, socket_timeout=BLOCK_SECONDS + OPERATION_SECONDS, **limits
        )
        self.problem: str | None = None
        """Set by the bus. While there is one, operations fail at once instead of after `OPERATION_SECONDS`."""
        self._id = secrets.token_hex(8)
        self._client, self._waiting = Redis.from_pool(pool), Redis.from_pool(waiting)
        self._prefix, self._sealer = prefix, Sealer(keys)
        self._blobs = Blobs(blobs, self._sealer)
        self._bus = Bus(self._waiting, prefix, self._sealer.unseal, self._reached)
        script = self._client.register_script
        self._append, self._add, self._count = (
            script(scripts.APPEND),
            script(scripts.ADD),
            script(scripts.COUNT),
        )
        self._admit, self._lease = script(scripts.ADMIT), script(scripts.LEASE)
        self._release, self._send = script(scripts.RELEASE), script(scripts.SEND)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[RedisStore]:
        """Stay connected for the length of the context, also to a server that can only be reached later."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._bus.run)
            with anyio.move_on_after(OPERATION_SECONDS):
                await self._bus.tried.wait()
            if self._blobs.folder is not None:
                tasks.start_soon(self._sweep_blobs)
            try:
                yield self
            finally:
                tasks.cancel_scope.cancel()
                with anyio.move_on_after(OPERATION_SECONDS, shield=True):
                    await self._client.aclose(close_connection_pool=True)
                    await self._waiting.aclose(close_connection_pool=True)

    async def _sweep_blobs(self) -> None:
        """Delete files without a key, at one replica at a time, until cancelled."""
        while True:
            with suppress(StateUnavailable):
                if await self.lease("lease:blobs", self._id, SWEEP_SECONDS / 2):
                    await self._blobs.sweep(self._existing)
            await anyio.sleep(SWEEP_SECONDS)

    async def _existing(self, names: Sequence[str]) -> list[int]:
        async with self._client.pipeline(transaction=False) as batch:
            for name in names:
                batch.exists(name)
            found: list[int] = await self._run(batch.execute)
            return found

    def _reached(self, problem: str | None) -> None:
        self.problem = None if problem is None else f"the state store cannot be reached: {problem}"

    async def _run(self, operation: Callable[..., Awaitable[Any]], *args: Any, **options: Any) -> Any:
        if self.problem is not None:
            raise StateUnavailable(self.problem)
        try:
            with anyio.fail_after(OPERATION_SECONDS):
                return await operation(*args, **options)
        except FAILED as error:
            reason = str(error) or f"no answer within {OPERATION_SECONDS:g} s"
            raise StateUnavailable(f"the state store cannot be reached: {reason}") from error

    def _unsealed(self, name: str, values: Iterable[bytes]) -> list[bytes]:
        found = (self._sealer.unseal(name, value) for value in values)
        return [value for value in found if value is not None]

    async def get(self, *keys: str) -> list[bytes | None]:
        names = [self._prefix + key for key in keys]
        values = await self._run(self._client.mget, names) if names else []
        kept = [
            None if value is None else self._sealer.unseal(name, value)
            for name, value in zip(names, values, strict=True)
        ]
        return [await self._blobs.whole(name, value) for name, value in zip(names, kept, strict=True)]

    async def put(self, key: str, value: bytes, ttl: float) -> None:
        name = self._prefix + key
        sealed = self._sealer.seal(name, await self._blobs.keep(name, value))
        await self._run(self._client.set, name, sealed, px=_ms(ttl))

    async def put_new(self, key: str, value: bytes, ttl: float) -> bool:
        name = self._prefix + key
        sealed = self._sealer.seal(
            name, INLINE + value
        )  # a file would replace that of the value that is there already
        return bool(await self._run(self._client.set, name, sealed, px=_ms(ttl), nx=True))

    async def take(self, key: str) -> bytes | None:
        name = self._prefix + key
        value = await self._run(self._client.getdel, name)
        found = None if value is None else await self._blobs.whole(name, self._sealer.unseal(name, value))
        await self._blobs.drop([name])
        return found

    async def delete(self, *keys: str) -> None:
        if keys:
            names = [self._prefix + key for key in keys]
            await self._run(self._client.delete, *names)
            await self._blobs.drop(names)

    async def renew(self, ttl: float, *keys: str) -> None:
        async with self._client.pipeline(transaction=False) as batch:
            for key in keys:
                batch.pexpire(self._prefix + key, _ms(ttl))
            if keys:
                await self._run(batch.execute)

    async def append(self, key: str, values: Iterable[bytes], ttl: float) -> int:
        name = self._prefix + key
        sealed = [self._sealer.seal(name, value) for value in values]
        return int(await self._run(self._append, [name], [_ms(ttl), *sealed]))

    async def entries(self, key: str, start: int = 0) -> list[bytes]:
        name = self._prefix + key
        kept = await self._run(self._client.lrange, name, start, -1)
        found = self._unsealed(name, kept)
        if len(found) < len(kept):  # resuming from a journal with a gap would repeat calls
            raise StateUnavailable(f"{key} in the state store is not sealed with state.keys")
        return found

    async def add(self, key: str, members: Iterable[str], ttl: float) -> None:
        name = self._prefix + key
        sealed = [self._sealer.seal_alike(name, member.encode()) for member in members]
        await self._run(self._add, [name], [_ms(ttl), *sealed])

    async def members(self, key: str) -> set[str]:
        name = self._prefix + key
        return {
            member.decode() for member in self._unsealed(name, await self._run(self._client.smembers, name))
        }

    async def count(self, key: str, amount: int, ttl: float) -> int:
        return int(await self._run(self._count, [self._prefix + key], [_ms(ttl), amount]))

    async def admit(self, key: str, limit: int, period: float) -> float:
        return float(await self._run(self._admit, [self._prefix + key], [limit, _ms(period)])) / 1000

    async def lease(self, key: str, owner: str, ttl: float) -> bool:
        return bool(await self._run(self._lease, [self._prefix + key], [_ms(ttl), owner]))

    async def release(self, key: str, owner: str) -> None:
        await self._run(self._release, [self._prefix + key], [owner])

    async def publish(self, channel: str, message: bytes) -> None:
        name = self._prefix + channel
        await self._run(self._client.publish, name, self._sealer.seal(name, message))

    def listen(self, *channels: str) -> AbstractAsyncContextManager[AsyncIterator[tuple[str, bytes]]]:
        return self._bus.listen(*channels)

    async def send(self, stream: str, message: bytes, ttl: float) -> None:
        name = self._prefix + stream
        await self._run(self._send, [name], [_ms(ttl), STREAM_MESSAGES, self._sealer.seal(name, message)])

    async def read(self, stream: str) -> AsyncIterator[bytes]:
        name, last = self._prefix + stream, b"0"
        while True:
            try:
                found: Any = await self._waiting.xread({name: last}, block=int(BLOCK_SECONDS * 1000))
            except FAILED:
                await anyio.sleep(RECONNECT_SECONDS)
                continue
            for last, fields in found[0][1] if found else ():  # noqa: B007 - the next request begins after it
                value = self._sealer.unseal(name, fields[b"m"])
                if value is not None:
                    yield value


def _ms(seconds: float) -> int:
    return max(1, math.ceil(seconds * 1000))
