"""The tools that one principal may find: those of which some call could be allowed or asked about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from cachetools import LRUCache

from gatemini.model import GET_PROMPT, READ_RESOURCE, Offer, Tool, member
from gatemini.policy.principal import Principal
from gatemini.registry import Registry

KEPT = 64
"""Listings kept: one for each principal that is served at the same time."""
SECONDS = 60
"""How long a listing holds; the hours of rules are whole minutes."""

Shows = Callable[[Tool], bool]


@dataclass(frozen=True, slots=True)
class Listing:
    """A registry without the hidden tools. `shows` says of any tool, resource or prompt whether it is found.

    Where nothing is hidden, `registry` is the whole one and `shows` is None.
    """

    registry: Registry
    shows: Shows | None = None


class Listings:
    """Listings by principal, made anew when tools or rules have changed. `visible` decides about one tool."""

    def __init__(self, visible: Callable[[Tool, Principal], bool]) -> None:
        self._visible = visible
        self._made: LRUCache[tuple[Principal, Registry, int, int], Listing] = LRUCache(KEPT)

    def clear(self) -> None:
        """Forget all, because rules or pins have changed."""
        self._made.clear()

    def of(self, registry: Registry, who: Principal, at: float) -> Listing:
        """Return the listing for a principal at a time."""
        # Which of the principals with the same limits it is makes no difference.
        key = replace(who, id=""), registry, registry.version, int(at // SECONDS)
        listing = self._made.get(key)
        if listing is None:
            listing = self._made[key] = self._make(registry, who)
        return listing

    def _make(self, registry: Registry, who: Principal) -> Listing:
        hidden = frozenset(
            (tool.backend, tool.name) for tool in registry.all_tools() if not self._visible(tool, who)
        )
        kinds: dict[tuple[str, str], bool] = {}

        def shows(tool: Tool) -> bool:
            if not isinstance(tool, Offer):
                return (tool.backend, tool.name) not in hidden
            name = READ_RESOURCE if tool.kind == "resource" else GET_PROMPT
            if (shown := kinds.get((tool.backend, name))) is None:
                reading = member(tool.backend, name, tool.namespace, tool.tags)
                shown = kinds[tool.backend, name] = self._visible(reading, who)
            return shown

        return Listing(registry.only(shows) if hidden else registry, shows)
