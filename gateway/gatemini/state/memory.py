"""The store of one process, the default: values in dictionaries, which no other process can read."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectSendStream

from gatemini.state.bucket import admitted
from gatemini.state.store import STREAM_MESSAGES, WAITING_MESSAGES

SWEEP_SECONDS = 60.0
"""Between two removals of expired keys."""


@dataclass(slots=True)
class _Kept:
    value: Any
    until: float


class MemoryStore:
    """A StateStore of this process."""

    shared = False
    problem: str | None = None
    """Never set: a store in memory can always be reached."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: dict[str, _Kept] = {}
        self._sweep_at = 0.0
        self._sent = 0
        self._more: dict[str, anyio.Event] = {}
        """Set by the next message of a stream."""
        self._listeners: defaultdict[str, set[MemoryObjectSendStream[tuple[str, bytes]]]] = defaultdict(set)

    def _find(self, key: str) -> _Kept | None:
        kept = self._kept.get(key)
        if kept is not None and kept.until <= self._clock():
            del self._kept[key]
            return None
        return kept

    def _set(self, key: str, value: Any, ttl: float) -> None:
        now = self._clock()
        if now >= self._sweep_at:
            self._sweep_at = now + SWEEP_SECONDS
            self._kept = {name: kept for name, kept in self._kept.items() if kept.until > now}
        self._kept[key] = _Kept(value, now + ttl)

    async def get(self, *keys: str) -> list[bytes | None]:
        found = [self._find(key) for key in keys]
        return [None if kept is None else kept.value for kept in found]

    async def put(self, key: str, value: bytes, ttl: float) -> None:
        self._set(key, value, ttl)

    async def put_new(self, key: str, value: bytes, ttl: float) -> bool:
        if self._find(key) is not None:
            return False
        self._set(key, value, ttl)
        return True

    async def take(self, key: str) -> bytes | None:
        kept = self._find(key)
        if kept is None:
            return None
        del self._kept[key]
        return bytes(kept.value)

    async def delete(self, *keys: str) -> None:
        for key in keys:
            self._kept.pop(key, None)

    async def renew(self, ttl: float, *keys: str) -> None:
        for key in keys:
            if (kept := self._find(key)) is not None:
                kept.until = self._clock() + ttl

    async def append(self, key: str, values: Iterable[bytes], ttl: float, most: int = 0) -> int:
        kept = self._find(key)
        listed = [*(kept.value if kept is not None else ()), *values][-most:]
        if listed:
            self._set(key, listed, ttl)
        return len(listed)

    async def cut(self, key: str, length: int) -> None:
        kept = self._find(key)
        if kept is not None and len(kept.value) == length:
            del self._kept[key]

    async def entries(self, key: str, start: int = 0) -> list[bytes]:
        kept = self._find(key)
        return kept.value[start:] if kept is not None else []

    async def add(self, key: str, members: Iterable[str], ttl: float) -> None:
        kept = self._find(key)
        together = {*(kept.value if kept is not None else ()), *members}
        if together:
            self._set(key, together, ttl)

    async def members(self, key: str) -> set[str]:
        kept = self._find(key)
        return set(kept.value) if kept is not None else set()

    async def count(self, key: str, amount: int, ttl: float) -> int:
        kept = self._find(key)
        if kept is None:
            self._set(key, amount, ttl)
            return amount
        kept.value += amount
        return int(kept.value)

    async def admit(self, key: str, limit: int, period: float) -> float:
        kept = self._find(key)
        until, wait = admitted(kept.value if kept is not None else None, self._clock(), limit, period)
        self._set(key, until, period)
        return wait

    async def lease(self, key: str, owner: str, ttl: float) -> bool:
        kept = self._find(key)
        if kept is not None and kept.value != owner:
            return False
        self._set(key, owner, ttl)
        return True

    async def leased_by(self, key: str) -> str | None:
        kept = self._find(key)
        return None if kept is None else str(kept.value)

    async def release(self, key: str, owner: str) -> None:
        kept = self._find(key)
        if kept is not None and kept.value == owner:
            del self._kept[key]

    async def publish(self, channel: str, message: bytes) -> None:
        for listener in self._listeners.get(channel, ()):
            with suppress(anyio.WouldBlock):
                listener.send_nowait((channel, message))

    @asynccontextmanager
    async def listen(self, *channels: str) -> AsyncIterator[AsyncIterator[tuple[str, bytes]]]:
        send, receive = anyio.create_memory_object_stream[tuple[str, bytes]](WAITING_MESSAGES)
        for channel in channels:
            self._listeners[channel].add(send)
        try:
            with send, receive:
                yield receive
        finally:
            for channel in channels:
                self._listeners[channel].discard(send)
                if not self._listeners[channel]:
                    del self._listeners[channel]

    async def send(self, stream: str, message: bytes, ttl: float) -> None:
        kept = self._find(stream)
        self._sent += 1
        sent = [*(kept.value if kept is not None else ()), (self._sent, message)]
        self._set(stream, sent[-STREAM_MESSAGES:], ttl)
        if (more := self._more.pop(stream, None)) is not None:
            more.set()

    async def read(self, stream: str) -> AsyncIterator[bytes]:
        last = 0
        while True:
            kept = self._find(stream)
            for number, message in kept.value if kept is not None else ():
                if number > last:
                    last = number
                    yield message
            kept = self._find(stream)
            if kept is None or kept.value[-1][0] <= last:
                await self._more.setdefault(stream, anyio.Event()).wait()
