"""The tools that one principal may find: those of which some call could be allowed or asked about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from cachetools import LRUCache

from gatemini.model import GET_PROMPT, READ_RESOURCE, Json, Offer, Tool, member
from gatemini.policy.principal import Principal
from gatemini.policy.rules.rules import NOTHING_KNOWN, Known
from gatemini.registry import Registry

KEPT = 64
"""Listings kept: one for each principal that is served at the same time."""
SECONDS = 60
"""How long a listing holds; the hours of rules are whole minutes."""

Shows = Callable[[Tool], bool]


@dataclass(frozen=True, slots=True)
class Listing:
    """A registry without the hidden tools. `shows` says of any tool, resource or prompt whether it is found.

    Where nothing is hidden, `registry` is the whole one and `shows` is None. `hidden` has the names of the hidden tools.
    """

    registry: Registry
    shows: Shows | None = None
    hidden: frozenset[str] = frozenset()


def reading_of(offer: Offer) -> tuple[Tool, Json, Known]:
    """Return the call that reads a resource or prompt, its arguments, and which of them are known.

    The arguments of a prompt are not known, nor any part of the address that is made from a template.
    """
    name = READ_RESOURCE if offer.kind == "resource" else GET_PROMPT
    tool = member(offer.backend, name, offer.namespace, offer.tags)
    if offer.kind == "prompt":
        return tool, {"name": offer.name}, Known(frozenset({"name"}))
    if "{" in offer.uri:
        return tool, {}, NOTHING_KNOWN
    return tool, {"uri": offer.uri}, Known(frozenset({"uri"}), complete=True)


class Listings:
    """Listings by principal, made anew when tools or rules have changed. `visible` decides about one tool.

    `tells_ids`: whether its decision may depend on the id of a principal.
    """

    def __init__(self, visible: Callable[[Tool, Principal], bool], tells_ids: Callable[[], bool]) -> None:
        self._visible = visible
        self._tells_ids = tells_ids
        self._made: LRUCache[tuple[Principal, Registry, int, int], Listing] = LRUCache(KEPT)

    def clear(self) -> None:
        """Forget all, because rules or pins have changed."""
        self._made.clear()

    def of(self, registry: Registry, who: Principal, at: float) -> Listing:
        """Return the listing for a principal at a time."""
        like = who if self._tells_ids() else replace(who, id="")
        key = like, registry, registry.version, int(at // SECONDS)
        listing = self._made.get(key)
        if listing is None:
            listing = self._made[key] = self._make(registry, who)
        return listing

    def _make(self, registry: Registry, who: Principal) -> Listing:
        unseen = [tool for tool in registry.all_tools() if not self._visible(tool, who)]
        hidden = frozenset((tool.backend, tool.name) for tool in unseen)
        offers: dict[tuple[str, str, str], bool] = {}

        def shows(tool: Tool) -> bool:
            if not isinstance(tool, Offer):
                return (tool.backend, tool.name) not in hidden
            key = tool.backend, tool.kind, tool.uri or tool.name
            if (shown := offers.get(key)) is None:
                shown = offers[key] = self._visible(tool, who)
            return shown

        names = frozenset(tool.qualified for tool in unseen)
        return Listing(registry.only(shows) if hidden else registry, shows, names)
