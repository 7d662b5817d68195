"""Open the store that a configuration names; what speaks to Redis is imported only for a URL that says so."""

from __future__ import annotations

import importlib
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
    async with module.RedisStore(config.url, config.prefix, keys).opened() as store:
        yield store
