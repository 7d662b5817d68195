"""All tools known now, and which one a name means (spec 3.1).

Pure bookkeeping: no I/O, not async. Every tool stands under its qualified name; bare names, aliases and
sanitised spellings only point at it. Above: chain, search (as a listener), discovery, resources, CLI.
Below: `model.py`, `types/`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from rapidfuzz import fuzz, process, utils

from gatemini.errors import AmbiguousTool, BackendNotFound, CompositeFaulty, ToolNotFound
from gatemini.model import Tool
from gatemini.types.identifiers import (
    LONGEST_NAME,
    LONGEST_SHOWN,
    backend_expressions,
    backend_identifier,
    backend_identifiers,
    identifier,
    is_plain_name,
    member_expression,
    short_name,
    spoken,
)
from gatemini.types.wording import visible

Listener = Callable[[str, Sequence[Tool] | None], None]
"""Told after each change: the backend and its tools now, or None when the backend is gone."""

_OWNERS = 20
"""Owners of an ambiguous name that an error lists."""
_SHOWN_BACKENDS = 20
"""Backends that an error lists where no name is close."""
CLOSEST = 3
"""How many close names an error offers."""
_CLOSE_ENOUGH = 55.0  # rapidfuzz ratio, 0-100: below this a suggestion only misleads
_REMEMBERED = 1000
"""How many removed tools are remembered, so that a call can say when its tool went."""


def _now() -> datetime:
    return datetime.now().astimezone()


@dataclass(frozen=True, slots=True)
class Change:
    """What a fresh listing of a backend changed: qualified names."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


class Registry:
    """Tools by backend, and every way to name them."""

    def __init__(self, clock: Callable[[], datetime] = _now) -> None:
        self.version = 0
        self.search_with = "Call search_tools"
        """How the reader of an error looks for tools: an agent, unless the terminal sets its own command."""
        self._clock = clock
        self._backends: dict[str, dict[str, Tool]] = {}
        self._live: set[str] = set()
        self._aliases: dict[str, str] = {}
        self._claims: dict[str, list[Tool]] = {}  # by qualified name; more than one where namespaces collide
        self._bare: dict[str, list[Tool]] = {}
        self._sanitised: dict[str, list[Tool]] = {}
        self._members: dict[str, dict[str, list[Tool]]] = {}  # by namespace (or backend), then by name
        self._expressions: dict[str, str] | None = None
        self._sorted: list[Tool] | None = None
        self._removed: dict[str, datetime] = {}
        self._faulty: dict[str, str] = {}
        self._changed: dict[str, datetime] = {}
        self._listeners: list[Listener] = []

    # ---- changes -------------------------------------------------------------------------------------

    def replace(self, backend: str, tools: Sequence[Tool], *, live: bool = True) -> Change:
        """Set the tools of `backend`; `live=False` for tools of the cache, known by qualified name only."""
        before = self._backends.get(backend, {})
        was_live = backend in self._live
        now = {tool.name: tool for tool in tools}
        for name, tool in now.items():
            if name in before and before[name] == tool:
                now[name] = before[name]  # it keeps its places
        self._backends[backend] = now
        (self._live.add if live else self._live.discard)(backend)
        self._reindex(backend, before, now)
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
        """Forget `backend`; how many tools it had."""
        before = self._backends.pop(backend, None)
        if before is None:
            return 0
        self._live.discard(backend)
        self._reindex(backend, before, {})
        self._note(Change(removed=tuple(t.qualified for t in before.values())))
        self._announce(backend, None)
        return len(before)

    def set_aliases(self, aliases: Mapping[str, str]) -> None:
        """Short name → qualified name, one level deep; an alias never shadows a tool."""
        self._aliases = dict(aliases)
        self.version += 1

    def listen(self, callback: Listener) -> Callable[[], None]:
        """Call `callback` after every change from now on; the answer ends that."""
        self._listeners.append(callback)
        return lambda: self._listeners.remove(callback) if callback in self._listeners else None

    # ---- questions -----------------------------------------------------------------------------------

    def tools(self) -> list[Tool]:
        """Each tool once, sorted by qualified name."""
        if self._sorted is None:
            self._sorted = [_owner(self._claims[name]) for name in sorted(self._claims)]
        return self._sorted.copy()

    def __len__(self) -> int:
        return len(self._claims)

    def backends(self) -> list[str]:
        """Names of the backends that have listed tools (or none), sorted."""
        return sorted(self._backends)

    def backend_tools(self, backend: str) -> list[Tool]:
        """Tools of one backend (or of one namespace), sorted by name; unknown names have none."""
        tools = self._backends.get(backend)
        if tools is None:
            tools = {name: _owner(claims) for name, claims in self._members.get(backend, {}).items()}
        return [tools[name] for name in sorted(tools)]

    def spaces(self) -> list[str]:
        """The names chains write in front of a tool: namespaces, and backends that set none; sorted."""
        return sorted(self._members)

    def expressions(self) -> Mapping[str, str]:
        """Space → the expression that reaches it in a chain (`exa`, `__backends["files-eu"]`)."""
        if self._expressions is None:
            self._expressions = backend_expressions(sorted(self._members))
        return self._expressions

    def is_spoken(self, tool: Tool) -> bool:
        """Whether its space has its identifier for itself: a chain's global, not only `__backends["name"]`."""
        return not self.expressions().get(_space_of(tool), "").startswith("__backends[")

    def is_live(self, backend: str) -> bool:
        return backend in self._live

    def changed_at(self, qualified: str) -> datetime | None:
        """When a fresh listing last changed the tool's schemas, if it did since the start."""
        return self._changed.get(qualified)

    def resolve(self, name: str) -> Tool:
        """The tool that `name` means: qualified, then bare where one live backend owns it, then alias.

        A spelling that only a chain or an escaped listing would use (`files_eu.get_user`, `a\\u200b.b`) is
        taken when it is unique. Raises ToolNotFound with close names, AmbiguousTool with the owners.
        """
        tool = self._exact(name) or self._by_backend(name)
        if tool is not None:
            return tool
        owners = [t for t in self._bare.get(name, ()) if t.backend in self._live]
        owners = [t for t in owners if t.name == name] or owners  # an exact name before one shown so
        if len({t.qualified for t in owners}) > 1:
            raise _ambiguous(name, owners)
        if owners:
            return _owner(owners)
        target = self.alias(name)
        if target is not None:
            return target
        spelled = self._sanitised.get(name, ())
        if len(spelled) > 1:  # the exact name wins, as it does in a chain
            spelled = [t for t in spelled if name.endswith("." + t.name)] or spelled
        if len(spelled) > 1:
            raise _ambiguous(name, spelled)
        if spelled:
            return spelled[0]
        raise self._not_found(name)

    def alias(self, name: str) -> Tool | None:
        """The tool that a configured alias names, whatever else is called so."""
        target = self._aliases.get(name, "")
        spelled = self._sanitised.get(target, ())
        only = spelled[0] if len(spelled) == 1 else None
        return self._exact(target) or self._by_backend(target) or only

    def owns_name(self, tool: Tool) -> bool:
        """Whether its qualified name means this very tool; where namespaces collide, only one of several."""
        owner = self._exact(tool.qualified)
        return owner is None or owner.backend == tool.backend

    def find(self, backend: str, spelled: str) -> Tool:
        """A tool of one backend (or namespace) by its exact name, else by its identifier if that is unique."""
        space = self.space(backend)
        tools = self._members.get(space) or {n: [t] for n, t in self._backends[space].items()}
        if spelled in tools:
            return _owner(tools[spelled])
        same = [
            t
            for t in map(_owner, tools.values())
            if spelled in (identifier(t.name), visible(t.name), short_name(t.name))
        ]
        if len(same) > 1:
            raise _ambiguous(f"{space}.{spelled}", same)
        if same:
            return same[0]
        raise self._not_found(f"{space}.{spelled}")

    def space(self, backend: str) -> str:
        """The backend or namespace that this name or identifier means; errors say which there are."""
        if backend in self._members or backend in self._backends:
            return backend
        owners, ambiguous = backend_identifiers(self._members)
        if backend in owners:
            return owners[backend]
        if backend in ambiguous:
            raise AmbiguousTool(
                f"'{short_name(backend)}' could mean several backends: {_listed(ambiguous[backend])}",
                hint=f'Write __backends["{visible(ambiguous[backend][0])}"], the name as it is configured.',
            )
        raise self.backend_missing(backend)

    def backend_missing(self, name: str) -> BackendNotFound:
        """The error for a backend nobody knows, with the closest names."""
        known = sorted(set(self._backends) | set(self._members))
        close = _closest(name, known)
        hint = f"Did you mean {_listed(close)}?" if close else None
        if hint is None and known:
            hint = f"Backends: {_some(known)}"
        return BackendNotFound(f"there is no backend '{short_name(name)}'", hint=hint)

    # ---- inside --------------------------------------------------------------------------------------

    def _exact(self, qualified: str) -> Tool | None:
        claims = self._claims.get(qualified)
        return _owner(claims) if claims else None

    def _by_backend(self, name: str) -> Tool | None:
        """`backend.tool` where the backend has a namespace of its own, or shares its qualified name."""
        at = name.find(".")
        while at > 0:
            tool = self._backends.get(name[:at], {}).get(name[at + 1 :])
            if tool is not None:
                return tool
            at = name.find(".", at + 1)
        return None

    def _reindex(self, backend: str, before: dict[str, Tool], now: dict[str, Tool]) -> None:
        for tool in before.values():
            if now.get(tool.name) is not tool:
                for index, key in self._places(tool):
                    _take(index, key, tool)
        for tool in now.values():
            if before.get(tool.name) is not tool:
                for index, key in self._places(tool):
                    index.setdefault(key, []).append(tool)
        for space in {backend, *(_space_of(t) for t in (*before.values(), *now.values()))}:
            if not self._members.get(space):
                # A backend without tools is still one that a chain may name.
                if self._backends.get(space) == {}:
                    self._members[space] = {}
                else:
                    self._members.pop(space, None)
        self._sorted = None
        self._expressions = None

    def _places(self, tool: Tool) -> list[tuple[dict[str, list[Tool]], str]]:
        """Every index that lists the tool, with its key there."""
        space = self._members.setdefault(_space_of(tool), {})
        places = [(self._claims, tool.qualified), (self._bare, tool.name), (space, tool.name)]
        shown = short_name(tool.name)
        if shown != tool.name:  # as a listing shows it: escaped, and short where it is very long
            places.append((self._bare, shown))
        return places + [(self._sanitised, spelling) for spelling in _spellings(tool)]

    def _note(self, change: Change) -> None:
        at = self._clock()
        for qualified in change.removed:
            self._removed[qualified] = at
        for qualified in change.added:
            self._removed.pop(qualified, None)
        for qualified in change.changed:
            self._changed[qualified] = at
        for memory in (self._removed, self._changed):
            while len(memory) > _REMEMBERED:
                del memory[next(iter(memory))]

    def set_faulty(self, backend: str, faulty: Mapping[str, str]) -> None:
        """Composite tools of the configuration that cannot be called, each with what is wrong with it."""
        spaces = (f"{backend}.", f"{spoken(backend)}.", "")
        self._faulty = {f"{space}{name}": why for name, why in faulty.items() for space in spaces}

    def _announce(self, backend: str, tools: Sequence[Tool] | None) -> None:
        self.version += 1
        for listener in self._listeners.copy():
            listener(backend, tools)

    def _not_found(self, name: str) -> ToolNotFound:
        shown = short_name(name)
        backend, _, bare = name.partition(".")
        known_backend = bool(bare) and (backend in self._members or backend in self._backends)
        fault = self._faulty.get(name)
        if fault is not None:
            return CompositeFaulty(
                f"composite.{short_name(bare or name)} cannot be called, its code is faulty: {fault}",
                hint="This is in the configuration (composite_tools), not in your code: its owner must mend it.",
            )
        if name in self._removed:
            close = self._close_tools(name, backend if known_backend else None)
            similar = f"; similar: {_listed(close)}" if close else ""
            return ToolNotFound(
                f"'{shown}' was removed at {self._removed[name]:%H:%M}{similar}",
                hint=f"{self.search_with} to see what is there now.",
            )
        owners = self._bare.get(bare if bare else name, [])
        if owners:
            names = _listed(list(dict.fromkeys(t.qualified for t in owners))[:CLOSEST])
            verb = "this is a tool of backend" if len(owners) == 1 else "this is a tool of backends"
            listed = _listed(sorted({t.backend for t in owners})[:CLOSEST])
            starting = "" if any(t.backend in self._live for t in owners) else " (still starting)"
            return ToolNotFound(
                f"there is no tool '{shown}'; {verb} {listed}{starting}", hint=f"Use {names}."
            )
        space = name.strip().rstrip(".")
        if space in self._members or space in self._backends:
            tools = [t.qualified for t in self.backend_tools(space)]
            some = _listed(tools[:CLOSEST]) + _more(len(tools) - CLOSEST)
            return ToolNotFound(
                f"there is no tool '{shown}'; '{short_name(space)}' is a backend",
                hint=f"Its tools: {some}." if tools else "It has listed no tools.",
            )
        if name in self._aliases:  # its target is in the configuration, and nowhere else
            target = self._aliases[name]
            close = self._close_tools(target, None)
            hint = f"Did you mean {_listed(close)}?" if close else self._where_to_look()
            wrong = f"'{shown}' is an alias of '{short_name(target)}', and there is no such tool"
            return ToolNotFound(wrong, hint=hint)
        close = self._close_tools(name, backend if known_backend else None)
        hint = f"Did you mean {_listed(close)}?" if close else self._where_to_look()
        place = f"backend '{short_name(spoken(backend))}' has no tool '{short_name(bare)}'"
        return ToolNotFound(place if known_backend else f"there is no tool '{shown}'", hint=hint)

    def _where_to_look(self) -> str:
        """The way to a tool whose name nothing resembles."""
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
            everywhere: dict[str, str] = {
                t.qualified: t.qualified if "." in name else t.name for t in self.tools()
            }
            found += [q for q in _closest(name, everywhere) if q not in found]
        return found[:CLOSEST]


def _differs(before: Tool, now: Tool) -> bool:
    return before.input_schema != now.input_schema or before.output_schema != now.output_schema


def _space_of(tool: Tool) -> str:
    return tool.namespace or tool.backend


def _owner(claims: Iterable[Tool]) -> Tool:
    """Whose a name is when namespaces collide: the backend's that is called so, else the first by name."""
    return min(claims, key=lambda t: (t.namespace is not None, t.backend))


def _spellings(tool: Tool) -> set[str]:
    """Other ways a qualified name is written: by identifiers as in a chain, and escaped as it is shown."""
    space = _space_of(tool)
    in_chain = backend_identifier(space)
    plain = in_chain == space and is_plain_name(space) and is_plain_name(tool.name)
    if plain and len(tool.qualified) <= LONGEST_NAME:
        return set()  # most tools: there is one way to write it
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


def _ambiguous(name: str, owners: Iterable[Tool]) -> AmbiguousTool:
    names = sorted({t.qualified for t in owners})
    return AmbiguousTool(
        f"'{short_name(name)}' could mean several tools: {_listed(names[:_OWNERS])}{_more(len(names) - _OWNERS)}",
        hint="Use one of these full names"
        + ("." if "." not in name else ' (in code: backend["exact name"]).'),
    )


def _closest(name: str, names: Mapping[str, str] | Sequence[str]) -> list[str]:
    choices = dict(names) if isinstance(names, Mapping) else {n: n for n in names}
    hits = process.extract(
        name[:200],
        choices,
        scorer=fuzz.ratio,
        processor=utils.default_process,
        limit=CLOSEST,
        score_cutoff=_CLOSE_ENOUGH,
    )
    return [key for _, _, key in hits]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(short_name(n) for n in names)


def _some(backends: Sequence[str]) -> str:
    return _listed(map(spoken, backends[:_SHOWN_BACKENDS])) + (
        " …" if len(backends) > _SHOWN_BACKENDS else ""
    )


def _more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""
