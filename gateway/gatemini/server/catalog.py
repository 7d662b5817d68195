"""The discovery tools over this gateway's registry and index, by name.

Holds what the pure answers need: usage counts, required keys, and the size that loading every schema would
have. Above: tools.py, surface.py, chains (`gatemini.search_tools`). Below: discovery.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from gatemini.errors import InvalidRequest
from gatemini.model import Json, Tool
from gatemini.registry import Registry
from gatemini.search.index import SearchIndex
from gatemini.search.postings import Floats
from gatemini.server.definitions import tool_definitions
from gatemini.server.discovery import (
    definition_bytes,
    get_required_keys_for_tool,
    list_tools_meta,
    search_text,
    search_tools,
    tool_info,
)
from gatemini.server.fitting import DEFAULT_ROOM, WHOLE
from gatemini.tracker import Tracker

DISCOVERY_TOOLS = ("search_tools", "list_tools_meta", "tool_info", "get_required_keys_for_tool")
INSIDE_CHAINS = DISCOVERY_TOOLS[:3]
"""What a chain may ask through `gatemini.…`."""

Keys = Callable[[str], tuple[Iterable[str], Iterable[str]]]
"""Backend → (names of the keys it needs, those without a value)."""


Encode = Callable[[str], Awaitable[Floats | None]]
"""Query → its vector, computed off the event loop; None where there is no model."""


class Catalog:
    """Answers the four discovery tools."""

    def __init__(
        self,
        registry: Registry,
        index: SearchIndex,
        tracker: Tracker,
        keys: Keys,
        names: Callable[[], list[str]],
        encode: Encode | None = None,
    ) -> None:
        self._registry = registry
        self._index = index
        self._tracker = tracker
        self._keys = keys
        self._names = names
        self._encode = encode
        self._sizes: dict[str, int] = {}
        registry.listen(self._measure)

    async def answer(self, name: str, arguments: Any, room: int = DEFAULT_ROOM) -> Json:
        """The same as `call`, with the query's meaning computed where it delays nobody else."""
        vector = None
        if name == "search_tools" and self._encode is not None:
            vector = await self._encode(search_text(arguments))
        return self.call(name, arguments, room, vector)

    def call(
        self, name: str, arguments: Any, room: int = DEFAULT_ROOM, query_vector: Floats | None = None
    ) -> Json:
        """The answer of a discovery tool, at most `room` bytes; raises GateminiError."""
        match name:
            case "search_tools":
                return search_tools(
                    self._registry,
                    self._index,
                    arguments,
                    usage=self._tracker.usage,
                    query_vector=query_vector,
                    room=room,
                )
            case "list_tools_meta":
                return list_tools_meta(self._registry, arguments, room=room)
            case "tool_info":
                return tool_info(self._registry, arguments, room=room)
            case "get_required_keys_for_tool":
                return get_required_keys_for_tool(self._registry, arguments, keys=self._keys)
        raise InvalidRequest(
            f"there is no discovery tool {name!r}", hint=f"there are: {', '.join(DISCOVERY_TOOLS)}"
        )

    async def call_inside(self, name: str, arguments: Json) -> Json:
        """The same for a chain, never cut; registration and chains are not reachable from inside."""
        if name not in INSIDE_CHAINS:
            raise InvalidRequest(
                f"gatemini.{name} does not exist inside a chain",
                hint=f"gatemini has: {', '.join(INSIDE_CHAINS)}",
            )
        return await self.answer(name, arguments, WHOLE)

    def definitions(self) -> list[Json]:
        """The seven meta-tools with the inventory as it is now."""
        return tool_definitions(self.inventory())

    def inventory(self) -> list[tuple[str, int]]:
        """Every backend there is with its number of tools: from the cache until it is live, else 0."""
        return [(name, len(self._registry.backend_tools(name))) for name in self._names()]

    def catalog_bytes(self) -> int:
        """What a client would have loaded with every tool's full definition."""
        return sum(self._sizes.values())

    def backend_sizes(self) -> list[Json]:
        """The same per backend: `{"name", "tools", "catalog_bytes"}`, as in `gatemini stats`."""
        return [
            {"name": name, "tools": count, "catalog_bytes": self._sizes.get(name, 0)}
            for name, count in self.inventory()
        ]

    def _measure(self, backend: str, tools: Sequence[Tool] | None) -> None:
        if tools is None:
            self._sizes.pop(backend, None)
        else:
            self._sizes[backend] = sum(definition_bytes(tool) for tool in tools)
