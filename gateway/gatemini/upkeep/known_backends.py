"""Keep the registry and the cache in step with what backends list, by the configuration of each."""

from __future__ import annotations

from collections.abc import Iterable

from gatemini.backends.status import Era
from gatemini.cache import Cache, config_hash
from gatemini.config.load import Loaded
from gatemini.config.model.schema import BackendConfig
from gatemini.model import Tool
from gatemini.registry import Registry
from gatemini.upkeep.pinning import Pinning


class KnownBackends:
    """The tools and eras of configured backends; registered ones are in the registry only."""

    def __init__(self, cache: Cache, registry: Registry, pinning: Pinning | None = None) -> None:
        self._cache = cache
        self._registry = registry
        self._pinning = pinning
        self._hashes: dict[str, str] = {}

    def configured(self, config: BackendConfig, loaded: Loaded) -> None:
        """Note a backend's configuration, which decides whether cached tools are still its tools."""
        written = loaded.written.get(config.name, config)
        self._hashes[config.name] = config_hash(written)
        if self._pinning is not None:
            self._pinning.configured(written)

    def restore(self, name: str) -> Era | None:
        """Put a backend's cached tools into the registry; the era of its last handshake."""
        cached = self._cache.tools(name, self._hashes[name])
        if cached:
            if self._pinning is not None:
                self._pinning.listed(name, cached, live=False)
            self._registry.replace(name, cached, live=False)
        era = self._cache.era(name, self._hashes[name])
        return "modern" if era == "modern" else "legacy" if era == "legacy" else None

    def forget(self, names: Iterable[str]) -> None:
        """Drop backends that were removed from the configuration; what they list while they stop is not cached."""
        self._cache.forget(names)
        for name in names:
            self._hashes.pop(name, None)

    def listed(self, name: str, tools: list[Tool] | None) -> bool:
        """Take a new listing, None of a removed backend; whether it has tools that the cache did not have."""
        if tools is None:
            self._registry.remove(name)
            if self._pinning is not None:
                self._pinning.removed(name)
            return False
        if self._pinning is not None:
            self._pinning.listed(name, tools, live=True)
        self._registry.replace(name, tools)
        return name not in self._hashes or self._cache.put_tools(name, self._hashes[name], tools)

    def shook_hands(self, name: str, era: Era) -> None:
        """Keep the era of a handshake."""
        if name in self._hashes:
            self._cache.put_era(name, self._hashes[name], era)
