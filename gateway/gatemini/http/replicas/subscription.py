"""A subscription to a channel of the store that continues after outages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from gatemini.errors import StateUnavailable
from gatemini.state.store import StateStore

RETRY_SECONDS = 0.5
"""Between two attempts to reach the store again."""


async def subscribe(store: StateStore, channel: str, handle: Callable[[bytes], Awaitable[None]]) -> None:
    """Handle the messages of a channel, one after another, until cancelled. Those of an outage are lost."""
    while True:
        try:
            async with store.listen(channel) as messages:
                async for _, message in messages:
                    await handle(message)
        except StateUnavailable:
            await anyio.sleep(RETRY_SECONDS)
