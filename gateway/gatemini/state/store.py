"""What replicas share, as bytes under keys. Each key has a time to live; a store with keys seals what it keeps.

A key is `kind:owner:name`, where the kind says what the bytes are (`session`, `result`, `journal`, `approval`, …).
All methods raise StateUnavailable when the store cannot be reached. Once entered, `listen` and `read` outlast that: they go
on when the store is back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

WAITING_MESSAGES = 1000
"""Messages that wait for one listener; further ones are lost."""
STREAM_MESSAGES = 10_000
"""The latest messages that a stream keeps, about."""


class StateStore(Protocol):
    """One store. Times are seconds."""

    shared: bool
    """Whether other processes see what is put here."""
    problem: str | None
    """That the store cannot be reached, and why; None while it can be."""

    async def get(self, *keys: str) -> list[bytes | None]:
        """Return the values of keys, in one exchange."""
        ...

    async def put(self, key: str, value: bytes, ttl: float) -> None:
        """Set a value."""
        ...

    async def put_new(self, key: str, value: bytes, ttl: float) -> bool:
        """Set a value where there is none; False where there is one: of many callers one gets True."""
        ...

    async def take(self, key: str) -> bytes | None:
        """Return and delete a value: of many callers one gets it."""
        ...

    async def delete(self, *keys: str) -> None:
        """Delete values, lists, sets and counters."""
        ...

    async def renew(self, ttl: float, *keys: str) -> None:
        """Give keys that exist a new time to live."""
        ...

    async def append(self, key: str, values: Iterable[bytes], ttl: float) -> int:
        """Add values to the end of a list; return its length."""
        ...

    async def entries(self, key: str, start: int = 0) -> list[bytes]:
        """Return a list from an index on."""
        ...

    async def add(self, key: str, members: Iterable[str], ttl: float) -> None:
        """Add members to a set."""
        ...

    async def members(self, key: str) -> set[str]:
        """Return a set."""
        ...

    async def count(self, key: str, amount: int, ttl: float) -> int:
        """Add to a counter; return its value. The time to live runs from the first count."""
        ...

    async def admit(self, key: str, limit: int, period: float) -> float:
        """Take one of `limit` uses a period, with bursts up to the limit. Return 0, or the seconds until there is one."""
        ...

    async def lease(self, key: str, owner: str, ttl: float) -> bool:
        """Take a lease, or renew one's own; False while another owner has it."""
        ...

    async def release(self, key: str, owner: str) -> None:
        """Give up one's own lease."""
        ...

    async def publish(self, channel: str, message: bytes) -> None:
        """Send a message to all that listen now."""
        ...

    def listen(self, *channels: str) -> AbstractAsyncContextManager[AsyncIterator[tuple[str, bytes]]]:
        """Receive (channel, message) from the moment the context is entered."""
        ...

    async def send(self, stream: str, message: bytes, ttl: float) -> None:
        """Add a message to a stream, which keeps it for readers that come later."""
        ...

    def read(self, stream: str) -> AsyncIterator[bytes]:
        """Yield the messages of a stream, from its first on, and wait for more."""
        ...
