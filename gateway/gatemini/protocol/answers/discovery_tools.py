"""The discovery tools by name, over the registry and index of one gateway."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from gatemini.discovery.embedding import Embedding
from gatemini.discovery.search.index import SearchIndex
from gatemini.discovery.search.ranked import Meaning
from gatemini.discovery.types.identifiers import COMPOSITE_BACKEND
from gatemini.errors import InvalidRequest
from gatemini.model import Json, Tool
from gatemini.policy.visibility import Listing
from gatemini.protocol.answers.backend_facts import BackendFacts
from gatemini.protocol.answers.discovery import (
    definition_bytes,
    get_required_keys_for_tool,
    list_tools_meta,
    search_text,
    search_tools,
    tool_info,
)
from gatemini.protocol.answers.fitting import DEFAULT_ROOM, WHOLE
from gatemini.protocol.answers.guides import FOR_TOOLS
from gatemini.protocol.definitions import tool_definitions
from gatemini.protocol.tool_arguments import read_arguments
from gatemini.registry import Registry
from gatemini.tracker import Tracker

DISCOVERY_TOOLS = ("search_tools", "list_tools_meta", "tool_info", "get_required_keys_for_tool")
NONE_DOWN: Mapping[str, str] = MappingProxyType({})
INSIDE_CHAINS = DISCOVERY_TOOLS[:3]
"""The discovery tools that code in a chain reaches as `gatemini.NAME`."""


class Catalog:
    """Answers the four discovery tools."""

    def __init__(
        self,
        registry: Registry,
        index: SearchIndex,
        tracker: Tracker,
        known: BackendFacts,
        configured: Callable[[], Collection[str]],
        embedding: Embedding,
    ) -> None:
        self._registry = registry
        self._index = index
        self._tracker = tracker
        self._known = known
        self._configured = configured
        self._embedding = embedding
        self._sizes: dict[str, int] = {}
        registry.listen(self._measure)

    async def meaning(self, text: str) -> Meaning | None:
        """Return the cosine of `text` with every tool; None where there is no model, or not yet."""
        return await self._embedding.meaning(text)

    async def answer(
        self,
        name: str,
        arguments: Any,
        room: int = DEFAULT_ROOM,
        down: Mapping[str, str] = NONE_DOWN,
        listing: Listing | None = None,
    ) -> Json:
        """Answer a discovery tool in at most `room` bytes.

        `down` has the backends without tools and why; `listing` what the principal finds, without one everything.
        Raises GateminiError.
        """
        registry = self._registry if listing is None else listing.registry
        match name:
            case "search_tools":
                return search_tools(
                    registry,
                    self._index,
                    arguments,
                    usage=self._tracker.usage,
                    meaning=await self.meaning(search_text(arguments)),
                    under_way=self._embedding.under_way,
                    facts=self._known.facts,
                    room=room,
                    shows=None if listing is None else listing.shows,
                )
            case "list_tools_meta":
                return list_tools_meta(registry, arguments, room=room)
            case "tool_info":
                given = read_arguments("tool_info", arguments)[0]
                if given["tool_name"] in FOR_TOOLS and given["detail"] == "full":
                    return {"guide": "\n".join(FOR_TOOLS[given["tool_name"]])}
                return tool_info(registry, arguments, facts=self._known.facts, room=room)
            case "get_required_keys_for_tool":
                return get_required_keys_for_tool(registry, arguments, keys=self._known.keys, down=down)
        raise InvalidRequest(
            f"there is no discovery tool {name!r}", hint=f"there are: {', '.join(DISCOVERY_TOOLS)}"
        )

    async def call_inside(self, name: str, arguments: Json, listing: Listing) -> Json:
        """Answer a discovery tool for code in a chain, uncut; registration and chains are not reachable from there."""
        if name not in INSIDE_CHAINS:
            raise InvalidRequest(
                f"gatemini.{name} does not exist inside a chain",
                hint=f"gatemini has: {', '.join(INSIDE_CHAINS)}",
            )
        return await self.answer(name, arguments, WHOLE, listing=listing)

    def definitions(self) -> list[Json]:
        """Return the seven meta-tools with the present inventory."""
        return tool_definitions(self.inventory())

    def inventory(self, registry: Registry | None = None) -> list[tuple[str, int]]:
        """Return every backend with its number of tools: from the cache until it is live, else 0."""
        shown = self._registry if registry is None else registry
        names = sorted({*self._configured(), *shown.backends()} - {COMPOSITE_BACKEND})
        return [(name, len(shown.backend_tools(name))) for name in names]

    def catalog_bytes(self) -> int:
        """Return the bytes of every tool's full definition, which a client without a gateway would load."""
        return sum(self._sizes.values())

    def backend_sizes(self) -> list[Json]:
        """Return `catalog_bytes` per backend: `{"name", "tools", "catalog_bytes"}`, as in `gatemini stats`."""
        return [
            {"name": name, "tools": count, "catalog_bytes": self._sizes.get(name, 0)}
            for name, count in self.inventory()
        ]

    def _measure(self, backend: str, tools: Sequence[Tool] | None) -> None:
        if tools is None:
            self._sizes.pop(backend, None)
        else:
            self._sizes[backend] = sum(definition_bytes(tool) for tool in tools)
