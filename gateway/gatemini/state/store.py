"""The store that replicas share: bytes under keys that expire. A store on a server encrypts what it keeps.

A key is `kind:owner:name`, where the kind says what the bytes are (`session`, `result`, `journal`, `grant`, …).
All methods raise StateUnavailable when the store cannot be reached. A context of `listen` that was entered, and `read`, do
not: they continue when the store is back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

WAITING_MESSAGES = 1000
"""Messages that may wait for one listener; further ones are lost."""
STREAM_MESSAGES = 10_000
"""About how many of its latest messages a stream keeps."""


class StateStore(Protocol):
    """One store. Times are seconds."""

    shared: bool
    """Whether other processes can read what is put."""
    problem: str | None
    """Why the store cannot be reached, as a sentence; None while it can be."""

    async def get(self, *keys: str) -> list[bytes | None]:
        """Return the values of keys, in one exchange."""
        ...

    async def put(self, key: str, value: bytes, ttl: float) -> None:
        """Set a value."""
        ...

    async def put_new(self, key: str, value: bytes, ttl: float) -> bool:
        """Set a value unless there is one: True for exactly one of several callers."""
        ...

    async def take(self, key: str) -> bytes | None:
        """Return and delete a value: exactly one of several callers gets it."""
        ...

    async def delete(self, *keys: str) -> None:
        """Delete values, lists, sets and counters."""
        ...

    async def renew(self, ttl: float, *keys: str) -> None:
        """Give keys that exist a new time to live."""
        ...

    async def append(self, key: str, values: Iterable[bytes], ttl: float, most: int = 0) -> int:
        """Add values to the end of a list; return its length. `most`: how many it keeps, the last ones; 0 for all.

        They may be there twice where the answer to a first attempt was lost.
        """
        ...

    async def cut(self, key: str, length: int) -> None:
        """Delete a list, if it has this length: nothing was added to it meanwhile."""
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
        """Acquire a lease, or renew the owner's; False while another owner has it."""
        ...

    async def leased_by(self, key: str) -> str | None:
        """Return the owner of a lease; None while nobody has it."""
        ...

    async def release(self, key: str, owner: str) -> None:
        """Release a lease, if this owner has it."""
        ...

    async def publish(self, channel: str, message: bytes) -> None:
        """Send a message to all current listeners of a channel."""
        ...

    def listen(self, *channels: str) -> AbstractAsyncContextManager[AsyncIterator[tuple[str, bytes]]]:
        """Receive (channel, message) from the moment the context is entered."""
        ...

    async def send(self, stream: str, message: bytes, ttl: float) -> None:
        """Add a message to a stream, which keeps it until its reader has had it."""
        ...

    def read(self, stream: str) -> AsyncIterator[bytes]:
        """Yield the messages of a stream, from its first on, and wait for more. A stream has one reader."""
        ...
