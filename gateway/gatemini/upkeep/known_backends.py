"""Keep the registry and the cache in step with what backends list, by the configuration and the pins of each."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace

import anyio
import anyio.to_thread

from gatemini.backends.manager import Manager
from gatemini.backends.status import BackendStatus, Era
from gatemini.cache import Cache, config_hash
from gatemini.config.load import Loaded
from gatemini.config.model.schema import BackendConfig
from gatemini.errors import ConfigError
from gatemini.model import Offer, Tool
from gatemini.policy.pins.observed import Said
from gatemini.policy.pins.opening import mode_of
from gatemini.policy.pins.pins import Pins
from gatemini.registry import Registry

SAVE_DELAY_SECONDS = 0.5
"""Backends that start at the same time are written into the lock file together."""

logger = logging.getLogger(__name__)


class KnownBackends:
    """The tools and eras of configured backends; registered ones are in the registry only."""

    def __init__(self, cache: Cache, registry: Registry, manager: Manager, pins: Pins) -> None:
        self._cache = cache
        self._registry = registry
        self._manager = manager
        self._pins = pins
        self._hashes: dict[str, str] = {}
        self._written: dict[str, BackendConfig] = {}

    def configured(self, config: BackendConfig, loaded: Loaded) -> None:
        """Note a backend's configuration, which decides whether cached tools are still its tools."""
        written = self._written[config.name] = loaded.written.get(config.name, config)
        self._hashes[config.name] = config_hash(written)

    def restore(self, name: str) -> Era | None:
        """Put a backend's cached tools into the registry; the era of its last handshake."""
        cached = self._cache.tools(name, self._hashes[name])
        if cached:
            self._put(name, self._written[name], None, cached)
        era = self._cache.era(name, self._hashes[name])
        return "modern" if era == "modern" else "legacy" if era == "legacy" else None

    def forget(self, names: Iterable[str]) -> None:
        """Drop backends that were removed from the configuration; what they list while they stop is not cached."""
        self._cache.forget(names)
        for name in names:
            self._hashes.pop(name, None)
            self._written.pop(name, None)

    def listed(self, name: str, tools: list[Tool] | None) -> bool:
        """Take a new listing, None of a removed backend; whether it has tools that the cache did not have."""
        if tools is None:
            self._registry.remove(name)
            self._pins.removed(name)
            return False
        config = self._written.get(name) or self._manager.config(name)
        self._put(name, config, self._manager.status(name), tools)
        return name not in self._hashes or self._cache.put_tools(name, self._hashes[name], tools)

    def _put(self, name: str, config: BackendConfig, status: BackendStatus | None, tools: list[Tool]) -> None:
        """Compare the tools with their pins, and put them into the registry."""
        said = None if status is None else Said(status.server_info, status.instructions)
        self._pins.listed(config, said, tools, registered=name not in self._hashes)
        self._registry.replace(name, tools, live=status is not None)

    def offered(self, name: str, offers: list[Offer]) -> list[Offer]:
        """Take what a backend offers beside tools; return what is shown of it."""
        return self._pins.offered(name, offers)

    def statuses(self) -> list[BackendStatus]:
        """Return the status of each backend, without the prompts that are withheld."""
        return [
            replace(status, offers=tuple(self._pins.shown_offers(status.name, status.offers)))
            for status in self._manager.statuses()
        ]

    async def read_pins(self, loaded: Loaded) -> None:
        """Read the lock file, at the start and when it may have changed, and compare all backends with it."""
        policy = loaded.config.policy
        self._pins.mode = mode_of(loaded)
        programs = loaded.config.backends.values() if policy is not None and policy.pin_executables else ()
        await anyio.to_thread.run_sync(self._pins.read, list(programs))
        self._pins.judge_all()
        self._manager.check_tool = self._pins.check if self._pins.mode == "enforce" else None

    async def keep_pins(self) -> None:
        """Write the first pins of backends into the lock file, until cancelled and once more then."""
        try:
            while True:
                await self._pins.unsaved.wait()
                await anyio.sleep(SAVE_DELAY_SECONDS)
                await self._save_pins()
        finally:
            if self._pins.unsaved.is_set():
                with anyio.CancelScope(shield=True):
                    await self._save_pins()

    async def _save_pins(self) -> None:
        try:
            await anyio.to_thread.run_sync(self._pins.save)
        except (OSError, ConfigError) as error:
            self._pins.problem = f"the pins of servers cannot be kept: {error}"
            self._pins.unsaved = anyio.Event()
            logger.warning("%s", self._pins.problem)

    def shook_hands(self, name: str, era: Era) -> None:
        """Keep the era of a handshake."""
        if name in self._hashes:
            self._cache.put_era(name, self._hashes[name], era)
