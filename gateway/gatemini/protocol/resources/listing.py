"""The catalog as documents: index, guide, declarations, each within what the client takes.

What does not fit is left out here and counted, with how to read on. Every backend gets its share of the room; what one
does not need goes to the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from urllib.parse import quote

from gatemini.discovery.types.identifiers import short_name
from gatemini.discovery.types.typescript import declared_within
from gatemini.discovery.types.wording import LINE_CHARS, counted, first_sentence, shorten, visible
from gatemini.model import Json, Tool
from gatemini.protocol.answers.fitting import fit_names, largest, size_of
from gatemini.protocol.resources.guides import NAMES, STEPS
from gatemini.registry import Registry

SCHEME = "gatemini://"
INDEX_SHARE = 0.10
"""Largest share of the full schemas that `gatemini://tools` costs."""
INDEX_FREE_BYTES = 6_000
"""Bytes that the index may always have: cutting the index of a small catalog would save nothing."""
_SHORTEST_LINE = 8
"""Shortest line, in characters; shorter ones are left out."""
_LLMS_TOKENS = 3_000
_BYTES_PER_TOKEN = 4
_LEAST_SECTION = 400
"""Least bytes of a backend's section; backends without that much room are only counted."""
_NOTE_BYTES = 260
"""Reserved in a document or section for the note on what was left out."""
_FENCE_BYTES = 12
_NAMES_PART = 5
"""One part in this many of a section goes to names, where its declarations do not all fit."""

Write = Callable[[Sequence[Tool], int], str]
"""Writes the body of a section about tools in at most so many bytes."""


def tool_index(tools: Sequence[Tool], full_bytes: int, room: int | None = None) -> Json:
    """Return the compact index, backend → {qualified name: line}, with lines cut evenly to its share and `room`."""
    share = max(int(full_bytes * INDEX_SHARE), INDEX_FREE_BYTES)
    rows = [
        (visible(tool.backend), short_name(tool.qualified), first_sentence(tool.description, LINE_CHARS))
        for tool in tools
    ]
    chars = largest(LINE_CHARS, lambda n: size_of(_index_with(rows, n)) <= min(share, room or share))
    made = _index_with(rows, chars)
    if room is None or size_of(made) <= room:
        return made
    # Names alone are too many: list as many of each backend as fit.
    grouped: dict[str, list[str]] = {}
    for backend, name, _ in rows:
        grouped.setdefault(backend, []).append(name)
    each = largest(
        max(map(len, grouped.values())), lambda n: size_of(_named(grouped, n)) <= room - _NOTE_BYTES
    )
    made = _named(grouped, each)
    named = sum(map(len, made["tools"].values()))
    return {
        **made,
        "note": f"{named} of {counted(len(tools), 'tool')} named: list_tools_meta pages through all",
    }


def _index_with(rows: Sequence[tuple[str, str, str]], chars: int) -> Json:
    grouped: dict[str, dict[str, str]] = {}
    for backend, name, line in rows:
        grouped.setdefault(backend, {})[name] = shorten(line, chars) if chars >= _SHORTEST_LINE else ""
    return {"tools": grouped}


def _named(grouped: dict[str, list[str]], each: int) -> Json:
    return {"tools": {backend: dict.fromkeys(names[:each], "") for backend, names in grouped.items() if each}}


def guide_for_models(tools: Sequence[Tool], room: int) -> str:
    """Return `gatemini://llms`: the steps, the naming rules, and a line for every tool."""
    head = _head(tools)
    wanted = max(_LLMS_TOKENS, 12 * len(tools)) * _BYTES_PER_TOKEN
    around = len(head.encode()) + sum(len(short_name(tool.name).encode()) + 5 for tool in tools)
    chars = max(_SHORTEST_LINE, min(LINE_CHARS, (wanted - around) // max(1, len(tools))))
    chars = min(chars, (room - around - _NOTE_BYTES) // max(1, len(tools)))

    def line(tool: Tool) -> str:
        said = f": {first_sentence(tool.description, chars)}" if chars >= _SHORTEST_LINE else ""
        return f"- {short_name(tool.name)}{said}\n"

    def lines(members: Sequence[Tool], most: int) -> str:
        made = list(map(line, members))
        if _bytes(made) <= most:
            return "".join(made)
        count = largest(len(made), lambda n: _bytes(made[:n]) <= most - _NOTE_BYTES)
        return "".join(made[:count]) + f"- {len(made) - count} more: list_tools_meta names all tools\n"

    return head + _sections(tools, room - len(head.encode()), lines)


def guide_with_schemas(registry: Registry, room: int) -> str:
    """Return `gatemini://llms-full`: every declaration as far as they fit, then names."""
    tools = registry.tools()
    head = _head(tools)

    def declared(members: Sequence[Tool], most: int) -> str:
        spoken = registry.is_spoken(members[0])
        text, rest = declared_within(members, most - _FENCE_BYTES, spoken=spoken)
        named = ""
        if rest:
            room_for_names = min(most // _NAMES_PART, size_of([short_name(tool.name) for tool in members]))
            text, rest = declared_within(members, most - room_for_names - _NOTE_BYTES, spoken=spoken)
            shown = fit_names([short_name(tool.name) for tool in rest], room_for_names)
            more = f" and {len(rest) - len(shown)} more" if len(shown) < len(rest) else ""
            where = f"{SCHEME}types/{quote(_space(members[0]), safe='')}"
            named = f"Not declared here, for want of room (see {where}): {', '.join(shown)}{more}\n"
        return f"```ts\n{text.replace('```', '` ` `')}```\n{named}" if text else named

    return head + _sections(tools, room - len(head.encode()), declared)


def declarations(tools: Sequence[Tool], room: int, *, spoken: bool) -> str:
    """Return `gatemini://types/{backend_name}`: TypeScript, with a comment on tools that are left out."""
    text, rest = declared_within(tools, room - _NOTE_BYTES, spoken=spoken)
    if not rest:
        return text
    return (
        f"{text}// {len(rest)} of {counted(len(tools), 'tool')} left out: more than this client takes at once. "
        f"{SCHEME}tool/{{tool_name}} or tool_info with detail full declares each; list_tools_meta names all.\n"
    )


def _head(tools: Sequence[Tool]) -> str:
    return f"# Gatemini: {counted(len(tools), 'tool')}\n\n## Steps\n{STEPS}\n\n## Names\n{NAMES}\n"


def _sections(tools: Sequence[Tool], room: int, write: Write) -> str:
    """Write a section for each backend; where they are too long together, the longest are cut."""
    spaces: dict[str, list[Tool]] = {}
    for tool in tools:
        spaces.setdefault(_space(tool), []).append(tool)
    made: dict[str, str] = {}
    left = room - _NOTE_BYTES

    for number, space in enumerate(sorted(spaces, key=lambda name: len(spaces[name]))):
        title = f"\n## {visible(space)}\n"
        share = max(left // (len(spaces) - number), _LEAST_SECTION)
        section = title + write(spaces[space], share - len(title.encode()))
        if len(section.encode()) <= left:
            made[space] = section
            left -= len(section.encode())
    text = "".join(made[space] for space in spaces if space in made)
    missing = len(spaces) - len(made)
    return f"{text}\n{counted(missing, 'more backend')}: {SCHEME}backends\n" if missing else text


def _space(tool: Tool) -> str:
    return tool.namespace or tool.backend


def _bytes(lines: Sequence[str]) -> int:
    return sum(len(line.encode()) for line in lines)
