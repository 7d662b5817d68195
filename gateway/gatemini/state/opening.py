"""Open the store that a configuration names; the Redis client is imported only where `state.url` names a server."""

from __future__ import annotations

import importlib
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from gatemini.config.model.http.state import StateConfig
from gatemini.errors import ConfigError
from gatemini.state.memory import MemoryStore
from gatemini.state.store import StateStore


@asynccontextmanager
async def open_state(config: StateConfig, keys: Sequence[str]) -> AsyncIterator[StateStore]:
    """Open the store for the length of the context; `keys` are the resolved `state.keys`."""
    if not config.shared:
        yield MemoryStore()
        return
    try:
        module = importlib.import_module("gatemini.state.redis")
    except ImportError as error:
        raise ConfigError(
            f"state.url names a Redis server, for which {error.name} is missing",
            hint='Install it with `pip install "gatemini[redis]"`.',
        ) from error
    if config.blobs is not None and not os.access(config.blobs, os.W_OK):
        raise ConfigError(
            f"state.blobs: {config.blobs} is no folder that can be written to",
            hint="Make it, or mount it, for all replicas.",
        )
    async with module.RedisStore(config.url, config.prefix, keys, config.blobs).opened() as store:
        yield store
