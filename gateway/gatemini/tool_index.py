"""Index of the names of tools: which tools a qualified name, a bare name or another spelling may mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gatemini.discovery.types.identifiers import (
    LONGEST_NAME,
    LONGEST_SHOWN,
    backend_identifier,
    identifier,
    is_plain_name,
    member_expression,
    short_name,
)
from gatemini.model import Tool
from gatemini.text.escape import visible


class ToolIndex:
    """The tools of all backends by each of their names. Updated in place: a rebuild of thousands would block calls."""

    def __init__(self) -> None:
        self.backends: dict[str, dict[str, Tool]] = {}
        """Tools by backend and name."""
        self.spaces: dict[str, dict[str, list[Tool]]] = {}
        """Tools by namespace (or backend without one) and name; several where namespaces collide."""
        self.qualified: dict[str, list[Tool]] = {}
        self.bare: dict[str, list[Tool]] = {}
        self.spelled: dict[str, list[Tool]] = {}
        """Tools by spellings that only a chain or an escaped listing uses."""

    def replace(self, backend: str, now: Mapping[str, Tool] | None) -> dict[str, Tool]:
        """Set the tools of a backend, None to forget it; unchanged tools keep their objects. Returns those before."""
        before = self.backends.pop(backend, {})
        after: dict[str, Tool] = {}
        if now is not None:
            after = {name: before[name] if before.get(name) == tool else tool for name, tool in now.items()}
            self.backends[backend] = after
        for tool in before.values():
            if after.get(tool.name) is not tool:
                for index, key in self._places(tool):
                    _take(index, key, tool)
        for tool in after.values():
            if before.get(tool.name) is not tool:
                for index, key in self._places(tool):
                    index.setdefault(key, []).append(tool)
        for space in {backend, *(space_of(t) for t in (*before.values(), *after.values()))}:
            if not self.spaces.get(space):
                # A chain may name a backend without tools too.
                if self.backends.get(space) == {}:
                    self.spaces[space] = {}
                else:
                    self.spaces.pop(space, None)
        return before

    def exact(self, qualified: str) -> Tool | None:
        """The tool of a qualified name."""
        claims = self.qualified.get(qualified)
        return owner(claims) if claims else None

    def by_backend(self, name: str) -> Tool | None:
        """The tool of `backend.tool`, where the backend has a namespace, or shares its qualified name."""
        at = name.find(".")
        while at > 0:
            tool = self.backends.get(name[:at], {}).get(name[at + 1 :])
            if tool is not None:
                return tool
            at = name.find(".", at + 1)
        return None

    def _places(self, tool: Tool) -> list[tuple[dict[str, list[Tool]], str]]:
        """Every index of the tool, with its key there."""
        space = self.spaces.setdefault(space_of(tool), {})
        places = [(self.qualified, tool.qualified), (self.bare, tool.name), (space, tool.name)]
        shown = short_name(tool.name)
        if shown != tool.name:
            places.append((self.bare, shown))
        return places + [(self.spelled, spelling) for spelling in _spellings(tool)]


def space_of(tool: Tool) -> str:
    """The name in front of the tool: the namespace, else the backend."""
    return tool.namespace or tool.backend


def owner(claims: Iterable[Tool]) -> Tool:
    """The tool that a shared name means when namespaces collide: that of the backend of this name, else the first."""
    return min(claims, key=lambda t: (t.namespace is not None, t.backend))


def _spellings(tool: Tool) -> set[str]:
    """Other spellings of a qualified name: with identifiers as in a chain, and escaped as listings show it."""
    space = space_of(tool)
    in_chain = backend_identifier(space)
    plain = in_chain == space and is_plain_name(space) and is_plain_name(tool.name)
    if plain and len(tool.qualified) <= LONGEST_NAME:
        return set()  # most tools
    name = identifier(tool.name)
    ways = {f"{in_chain}.{name}", f"{space}.{name}", f"{in_chain}.{tool.name}", visible(tool.qualified)}
    if not is_plain_name(tool.name):
        ways.add(member_expression(in_chain, tool.name))
    if len(tool.qualified) > LONGEST_SHOWN:
        short = short_name(tool.name)
        ways |= {short_name(tool.qualified), f"{space}.{short}", f"{in_chain}.{short}"}
    return ways - {tool.qualified}


def _take(index: dict[str, list[Tool]], key: str, tool: Tool) -> None:
    left = [t for t in index.get(key, ()) if t is not tool]
    if left:
        index[key] = left
    else:
        index.pop(key, None)
