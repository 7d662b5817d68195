"""All tools known now, and the tool that a name means. Pure bookkeeping: no I/O, not async."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from cachetools import LRUCache
from rapidfuzz import fuzz, process, utils

from gatemini.discovery.types.identifiers import (
    backend_expressions,
    backend_identifiers,
    identifier,
    short_name,
    spoken,
)
from gatemini.errors import AmbiguousTool, BackendNotFound, CompositeFaulty, ToolNotFound
from gatemini.model import Tool
from gatemini.text.escape import visible
from gatemini.tool_index import ToolIndex, owner, space_of

Listener = Callable[[str, Sequence[Tool] | None], None]
"""Called after each change with the backend and its tools, or None when the backend is gone."""

SHOWN_NAMES = 20
"""Backends, or tools of an ambiguous name, that an error lists."""
CLOSEST = 3
"""Close names that an error offers."""
CLOSE_ENOUGH = 55.0
"""The least similarity of a close name (rapidfuzz ratio, 0-100): a lower one would mislead."""
REMEMBERED = 1000
"""Removed and changed tools whose time is remembered."""


def _now() -> datetime:
    return datetime.now().astimezone()


@dataclass(frozen=True, slots=True)
class Change:
    """What a new listing of a backend changed: qualified names."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


class Registry:
    """Tools by backend, and every way to name them."""

    def __init__(self, clock: Callable[[], datetime] = _now) -> None:
        self.version = 0
        self.search_with = "Call search_tools"
        """How the reader of an error can look for tools; the command line sets its own command."""
        self._clock = clock
        self._index = ToolIndex()
        self._live: set[str] = set()
        self._aliases: dict[str, str] = {}
        self._faulty: dict[str, str] = {}
        self._expressions: dict[str, str] | None = None
        self._sorted: list[Tool] | None = None
        self._removed: LRUCache[str, datetime] = LRUCache(REMEMBERED)
        self._changed: LRUCache[str, datetime] = LRUCache(REMEMBERED)
        self._listeners: list[Listener] = []

    # -- changes -----------------------------------------------------------------------------------

    def replace(self, backend: str, tools: Sequence[Tool], *, live: bool = True) -> Change:
        """Set the tools of `backend`; `live=False` for cached tools, which are known by qualified name only."""
        was_live = backend in self._live
        (self._live.add if live else self._live.discard)(backend)
        before = self._index.replace(backend, {tool.name: tool for tool in tools})
        now = self._index.backends[backend]
        change = Change(
            added=tuple(t.qualified for n, t in now.items() if n not in before),
            removed=tuple(t.qualified for n, t in before.items() if n not in now),
            changed=tuple(t.qualified for n, t in now.items() if n in before and _differs(before[n], t)),
        )
        self._note(change)
        if was_live != live or change != Change() or list(before.values()) != list(now.values()):
            self._announce(backend, list(now.values()))
        return change

    def remove(self, backend: str) -> int:
        """Forget `backend`; the number of tools it had."""
        if backend not in self._index.backends:
            return 0
        self._live.discard(backend)
        before = self._index.replace(backend, None)
        self._note(Change(removed=tuple(t.qualified for t in before.values())))
        self._announce(backend, None)
        return len(before)

    def set_aliases(self, aliases: Mapping[str, str]) -> None:
        """Set short names for qualified names, one level deep; an alias never hides a tool."""
        self._aliases = dict(aliases)
        self.version += 1

    def set_faulty(self, backend: str, faulty: Mapping[str, str]) -> None:
        """Set the composite tools that cannot be called because of their code, each with the reason."""
        spaces = (f"{backend}.", f"{spoken(backend)}.", "")
        self._faulty = {f"{space}{name}": why for name, why in faulty.items() for space in spaces}

    def listen(self, callback: Listener) -> Callable[[], None]:
        """Call `callback` after every change, until the returned function is called."""
        self._listeners.append(callback)
        return lambda: self._listeners.remove(callback) if callback in self._listeners else None

    def _note(self, change: Change) -> None:
        self._sorted = self._expressions = None
        at = self._clock()
        self._removed.update(dict.fromkeys(change.removed, at))
        self._changed.update(dict.fromkeys(change.changed, at))
        for qualified in change.added:
            self._removed.pop(qualified, None)

    def _announce(self, backend: str, tools: Sequence[Tool] | None) -> None:
        self.version += 1
        for listener in self._listeners.copy():
            listener(backend, tools)

    # -- facts -------------------------------------------------------------------------------------

    def tools(self) -> list[Tool]:
        """Each tool once, sorted by qualified name."""
        if self._sorted is None:
            claims = self._index.qualified
            self._sorted = [owner(claims[name]) for name in sorted(claims)]
        return self._sorted.copy()

    def all_tools(self) -> list[Tool]:
        """Each tool of each backend, also those whose qualified name means another tool."""
        return [tool for tools in self._index.backends.values() for tool in tools.values()]

    def only(self, shown: Callable[[Tool], bool], without: Collection[str] = ()) -> Registry:
        """Return a registry of the tools that are shown, as they are now; names mean what they mean among those.

        A backend of which no tool is shown is there all the same, unless it is among those it is `without`.
        """
        some = Registry(self._clock)
        for backend, tools in self._index.backends.items():
            if backend in without:
                continue
            some._index.replace(backend, {name: tool for name, tool in tools.items() if shown(tool)})
        some.version, some.search_with, some._live = self.version, self.search_with, self._live
        some._faulty, some._changed = self._faulty, self._changed
        some._aliases = {n: t for n, t in self._aliases.items() if (a := self.alias(n)) is None or shown(a)}
        return some

    def __len__(self) -> int:
        return len(self._index.qualified)

    def backends(self) -> list[str]:
        """Names of the backends that have listed, sorted."""
        return sorted(self._index.backends)

    def backend_tools(self, backend: str) -> list[Tool]:
        """Tools of one backend (or of one namespace), sorted by name; none for unknown names."""
        tools = self._index.backends.get(backend)
        if tools is None:
            tools = {name: owner(claims) for name, claims in self._index.spaces.get(backend, {}).items()}
        return [tools[name] for name in sorted(tools)]

    def spaces(self) -> list[str]:
        """The names that chains write in front of a tool: namespaces, and backends without one; sorted."""
        return sorted(self._index.spaces)

    def expressions(self) -> Mapping[str, str]:
        """By space, the expression for it in a chain (`exa`, `__backends["files-eu"]`)."""
        if self._expressions is None:
            self._expressions = backend_expressions(self.spaces())
        return self._expressions

    def is_spoken(self, tool: Tool) -> bool:
        """Whether its space is a global of chains, and not only reached by `__backends["name"]`."""
        return not self.expressions().get(space_of(tool), "").startswith("__backends[")

    def is_live(self, backend: str) -> bool:
        """Whether its tools come from the running backend and not from the cache."""
        return backend in self._live

    def changed_at(self, qualified: str) -> datetime | None:
        """When a new listing last changed the tool's schemas, if one did since the start."""
        return self._changed.get(qualified)

    # -- names -------------------------------------------------------------------------------------

    def resolve(self, name: str) -> Tool:
        """The tool that `name` means: qualified, then bare if one live backend has it, then an alias.

        A spelling of chains or escaped listings (`files_eu.get_user`, `a\\u200b.b`) is accepted if it is unique.
        Raises ToolNotFound with close names, AmbiguousTool with the tools of that name.
        """
        tool = self._index.exact(name) or self._index.by_backend(name)
        if tool is not None:
            return tool
        owners = [t for t in self._index.bare.get(name, ()) if t.backend in self._live]
        owners = [t for t in owners if t.name == name] or owners  # an exact name before a shortened one
        if len({t.qualified for t in owners}) > 1:
            raise _ambiguous(name, owners)
        if owners:
            return owner(owners)
        target = self.alias(name)
        if target is not None:
            return target
        spelled = self._index.spelled.get(name, ())
        if len(spelled) > 1:  # the exact name wins, as in a chain
            spelled = [t for t in spelled if name.endswith("." + t.name)] or spelled
        if len(spelled) > 1:
            raise _ambiguous(name, spelled)
        if spelled:
            return spelled[0]
        raise self._not_found(name)

    def alias(self, name: str) -> Tool | None:
        """The tool of a configured alias, even if a tool has the same name."""
        target = self._aliases.get(name, "")
        spelled = self._index.spelled.get(target, ())
        only = spelled[0] if len(spelled) == 1 else None
        return self._index.exact(target) or self._index.by_backend(target) or only

    def owns_name(self, tool: Tool) -> bool:
        """Whether its qualified name means this tool; where namespaces collide, only one has the name."""
        found = self._index.exact(tool.qualified)
        return found is None or found.backend == tool.backend

    def find(self, backend: str, spelled: str) -> Tool:
        """A tool of one backend (or namespace) by its exact name, else by its identifier if that is unique."""
        space = self.space(backend)
        tools = self._index.spaces.get(space) or {n: [t] for n, t in self._index.backends[space].items()}
        if spelled in tools:
            return owner(tools[spelled])
        same = [
            t
            for t in map(owner, tools.values())
            if spelled in (identifier(t.name), visible(t.name), short_name(t.name))
        ]
        if len(same) > 1:
            raise _ambiguous(f"{space}.{spelled}", same)
        if same:
            return same[0]
        raise self._not_found(f"{space}.{spelled}")

    def space(self, backend: str) -> str:
        """The backend or namespace of this name or identifier; raises an error that lists what there is."""
        if self._is_space(backend):
            return backend
        owners, ambiguous = backend_identifiers(self._index.spaces)
        if backend in owners:
            return owners[backend]
        if backend in ambiguous:
            raise AmbiguousTool(
                f"'{short_name(backend)}' could mean several backends: {_listed(ambiguous[backend])}",
                hint=f'Write __backends["{visible(ambiguous[backend][0])}"], the name as it is configured.',
            )
        raise self.backend_missing(backend)

    def _is_space(self, name: str) -> bool:
        return name in self._index.spaces or name in self._index.backends

    # -- errors ------------------------------------------------------------------------------------

    def backend_missing(self, name: str, known: Collection[str] | None = None) -> BackendNotFound:
        """The error for an unknown backend, with the closest names, or those of the `known` ones."""
        known = sorted(self._index.backends.keys() | self._index.spaces.keys() if known is None else known)
        close = _closest(name, {n: n for n in known})
        hint = f"Did you mean {_listed(close)}?" if close else f"Backends: {_some(known)}" if known else None
        return BackendNotFound(f"there is no backend '{short_name(name)}'", hint=hint)

    def _not_found(self, name: str) -> ToolNotFound:
        """The error for a name that means no tool: the most specific reason, and what to use instead."""
        shown = short_name(name)
        backend, _, bare = name.partition(".")
        inside = backend if bare and self._is_space(backend) else None
        if name in self._faulty:
            return CompositeFaulty(
                f"composite.{short_name(bare or name)} cannot be called, its code is faulty: {self._faulty[name]}",
                hint="This is in the configuration (composite_tools), not in your code: its owner must correct it.",
            )
        if name in self._removed:
            close = self._close_tools(name, inside)
            similar = f"; similar: {_listed(close)}" if close else ""
            return ToolNotFound(
                f"'{shown}' was removed at {self._removed[name]:%H:%M}{similar}",
                hint=f"{self.search_with} to see what is there now.",
            )
        owners = self._index.bare.get(bare or name, [])
        if owners:
            return self._elsewhere(shown, owners)
        space = name.strip().rstrip(".")
        if self._is_space(space):
            tools = [t.qualified for t in self.backend_tools(space)]
            some = _listed(tools[:CLOSEST]) + _more(len(tools) - CLOSEST)
            return ToolNotFound(
                f"there is no tool '{shown}'; '{short_name(space)}' is a backend",
                hint=f"Its tools: {some}." if tools else "It has listed no tools.",
            )
        if name in self._aliases:
            target = self._aliases[name]
            text = f"'{shown}' is an alias of '{short_name(target)}', and there is no such tool"
            return ToolNotFound(text, hint=self._did_you_mean(target, None))
        text = f"there is no tool '{shown}'"
        if inside is not None:
            text = f"backend '{short_name(spoken(inside))}' has no tool '{short_name(bare)}'"
        return ToolNotFound(text, hint=self._did_you_mean(name, inside))

    def _elsewhere(self, shown: str, owners: Sequence[Tool]) -> ToolNotFound:
        """The error for a tool of another backend than the one that was named."""
        names = _listed(list(dict.fromkeys(t.qualified for t in owners))[:CLOSEST])
        verb = "this is a tool of backend" if len(owners) == 1 else "this is a tool of backends"
        listed = _listed(sorted({t.backend for t in owners})[:CLOSEST])
        starting = "" if any(t.backend in self._live for t in owners) else " (still starting)"
        return ToolNotFound(f"there is no tool '{shown}'; {verb} {listed}{starting}", hint=f"Use {names}.")

    def _did_you_mean(self, name: str, backend: str | None) -> str:
        close = self._close_tools(name, backend)
        if close:
            return f"Did you mean {_listed(close)}?"
        known = self.spaces()
        there = f"backends: {_some(known)}" if known else "no backend has listed tools"
        return f"{self.search_with} with what you want to do; {there}."

    def _close_tools(self, name: str, backend: str | None) -> list[str]:
        """Up to three close names, those of the named backend first."""
        found: list[str] = []
        if backend is not None:
            inside = {t.qualified: t.name for t in self.backend_tools(backend)}
            found = _closest(name.partition(".")[2], inside)
        if len(found) < CLOSEST:
            everywhere = {t.qualified: t.qualified if "." in name else t.name for t in self.tools()}
            found += [q for q in _closest(name, everywhere) if q not in found]
        return found[:CLOSEST]


def _differs(before: Tool, now: Tool) -> bool:
    return before.input_schema != now.input_schema or before.output_schema != now.output_schema


def _ambiguous(name: str, owners: Iterable[Tool]) -> AmbiguousTool:
    names = sorted({t.qualified for t in owners})
    listed = _listed(names[:SHOWN_NAMES]) + _more(len(names) - SHOWN_NAMES)
    return AmbiguousTool(
        f"'{short_name(name)}' could mean several tools: {listed}",
        hint="Use one of these full names"
        + ("." if "." not in name else ' (in code: backend["exact name"]).'),
    )


def _closest(name: str, choices: Mapping[str, str]) -> list[str]:
    hits = process.extract(
        name[:200],
        choices,
        scorer=fuzz.ratio,
        processor=utils.default_process,
        limit=CLOSEST,
        score_cutoff=CLOSE_ENOUGH,
    )
    return [key for _, _, key in hits]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(short_name(n) for n in names)


def _some(backends: Sequence[str]) -> str:
    return _listed(map(spoken, backends[:SHOWN_NAMES])) + (" …" if len(backends) > SHOWN_NAMES else "")


def _more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""
