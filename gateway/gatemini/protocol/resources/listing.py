"""The catalog as documents: index, guide, declarations, each within what the client takes.

What does not fit is left out here and counted, with how to read on.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from gatemini.discovery.types.identifiers import short_name
from gatemini.discovery.types.typescript import declared_within
from gatemini.model import Json, Tool
from gatemini.protocol.answers.fitting import largest, size_of
from gatemini.protocol.answers.guides import NAMES, STEPS
from gatemini.registry import Registry
from gatemini.text.escape import visible
from gatemini.text.shorten import LINE_CHARS, counted, first_sentence, shorten

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
"""Least bytes of a backend's declarations; backends without that much room are only counted."""
_NOTE_BYTES = 260
"""Reserved in a document or section for the note on what was left out."""


def tool_index(tools: Sequence[Tool], full_bytes: int, room: int) -> Json:
    """Return the compact index, backend → {qualified name: line}, with lines cut evenly to its share and `room`."""
    rows = [
        (visible(tool.backend), short_name(tool.qualified), first_sentence(tool.description, LINE_CHARS))
        for tool in tools
    ]
    share = min(max(int(full_bytes * INDEX_SHARE), INDEX_FREE_BYTES), room)
    chars = largest(LINE_CHARS, lambda n: size_of(_index_with(rows, n)) <= share)
    index = _index_with(rows, chars)
    if size_of(index) <= room:
        return index
    named = largest(len(rows), lambda n: size_of(_index_with(rows[:n], 0)) <= room - _NOTE_BYTES)
    note = f"{named} of {counted(len(tools), 'tool')} named: list_tools_meta pages through all"
    return {**_index_with(rows[:named], 0), "note": note}


def _index_with(rows: Sequence[tuple[str, str, str]], chars: int) -> Json:
    grouped: dict[str, dict[str, str]] = {}
    for backend, name, line in rows:
        grouped.setdefault(backend, {})[name] = shorten(line, chars) if chars >= _SHORTEST_LINE else ""
    return {"tools": grouped}


def guide_for_models(tools: Sequence[Tool], room: int) -> str:
    """Return `gatemini://llms`: the steps, the naming rules, and a line for every tool."""
    head = _head(tools)
    wanted = min(max(_LLMS_TOKENS, 12 * len(tools)) * _BYTES_PER_TOKEN, room - _NOTE_BYTES)
    around = len(head.encode()) + sum(len(short_name(tool.name).encode()) + 5 for tool in tools)
    chars = min(LINE_CHARS, (wanted - around) // max(1, len(tools)))
    lines: list[str] = []
    for space, members in _by_space(tools).items():
        lines.append(f"\n## {visible(space)}\n")
        for tool in members:
            said = f": {first_sentence(tool.description, chars)}" if chars >= _SHORTEST_LINE else ""
            lines.append(f"- {short_name(tool.name)}{said}\n")
    text = head + "".join(lines)
    if len(text.encode()) <= room:
        return text
    left = room - len(head.encode()) - _NOTE_BYTES
    kept = largest(len(lines), lambda n: sum(len(line.encode()) for line in lines[:n]) <= left)
    missing = sum(line.startswith("- ") for line in lines[kept:])
    return f"{head}{''.join(lines[:kept])}\n{missing} more: list_tools_meta names all tools\n"


def guide_with_schemas(registry: Registry, room: int) -> str:
    """Return `gatemini://llms-full`: the declarations of every backend, as far as they fit in its share of the room."""
    tools = registry.tools()
    spaces = _by_space(tools)
    text = _head(tools)
    missing = 0
    for number, (space, members) in enumerate(spaces.items()):
        share = (room - len(text.encode()) - _NOTE_BYTES) // (len(spaces) - number)
        if share < _LEAST_SECTION:
            missing += 1
            continue
        title = f"\n## {visible(space)}\n"
        spoken = registry.is_spoken(members[0])
        declared, rest = declared_within(members, share - len(title.encode()) - _NOTE_BYTES, spoken=spoken)
        note = f"{len(rest)} more: {SCHEME}types/{quote(space, safe='')}\n" if rest else ""
        text += f"{title}```ts\n{declared.replace('```', '` ` `')}```\n{note}"
    return f"{text}\n{counted(missing, 'more backend')}: {SCHEME}backends\n" if missing else text


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


def _by_space(tools: Sequence[Tool]) -> dict[str, list[Tool]]:
    spaces: dict[str, list[Tool]] = {}
    for tool in tools:
        spaces.setdefault(tool.namespace or tool.backend, []).append(tool)
    return spaces
