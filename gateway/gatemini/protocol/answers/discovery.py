"""The four discovery tools as pure functions: arguments → a JSON-able answer.

Text from backends is escaped and shortened on its way out.
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rapidfuzz import fuzz, process

from gatemini.discovery.search.index import SearchIndex
from gatemini.discovery.search.ranked import Meaning
from gatemini.discovery.types.identifiers import LONGEST_NAME, short_name
from gatemini.discovery.types.schema_reader import parameters
from gatemini.discovery.types.typescript import declaration, signature
from gatemini.errors import InvalidRequest, ToolNotFound
from gatemini.model import Json, Tool
from gatemini.protocol.answers.backend_facts import NO_FACTS, Facts, Keys
from gatemini.protocol.answers.fitting import (
    DEFAULT_ROOM,
    LEAST_ROOM,
    fit_names,
    fit_parts,
    fit_rows,
    shown,
    size_of,
)
from gatemini.protocol.answers.parameter_texts import with_texts
from gatemini.protocol.answers.rows import TAG_CHARS, TAGS_SHOWN, call_of, rows_of
from gatemini.protocol.tool_arguments import read_arguments
from gatemini.registry import Registry
from gatemini.text.escape import visible
from gatemini.text.shorten import BRIEF_CHARS, first_sentence, shorten
from gatemini.text.utf8 import decode, encode
from gatemini.unlisted import REASON_CHARS

BRIEF_PARTS = ("parameters", "parameter_descriptions", "signature", "call")
FULL_PARTS = (
    "description", "input_schema", "output_schema", "annotations", "declaration", "call", "instructions",
)  # fmt: skip
"""Parts of a `tool_info` answer that are cut where the whole would not fit."""
PARAMETERS_CHARS = 2_000
"""Most bytes of the parameter names in a brief `tool_info`."""
_CURSOR_ROOM = 4 * LONGEST_NAME * 4 // 3
"""Bytes of the longest cursor: the UTF-8 of a name in base64."""
UNDER_WAY = "embeddings are under way: ranked by words so far, in a few seconds by meaning too"


def definition_bytes(tool: Tool) -> int:
    """Return the bytes of a tool's entry in a `tools/list` answer."""
    entry: Json = {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
    if tool.output_schema is not None:
        entry["outputSchema"] = tool.output_schema
    if tool.annotations:
        entry["annotations"] = tool.annotations
    return size_of(entry)


def search_tools(
    registry: Registry,
    index: SearchIndex,
    arguments: Any,
    *,
    usage: Mapping[str, int] | None = None,
    meaning: Meaning | None = None,
    under_way: bool = False,
    facts: Facts = NO_FACTS,
    room: int = DEFAULT_ROOM,
    shows: Callable[[Tool], bool] | None = None,
) -> Json:
    """Answer `search_tools` in at most `room` bytes.

    `usage` is uses by qualified name; `meaning` the cosine of the query with each tool, `under_way` that it comes later;
    `shows` says which tools may be found.
    """
    given, notes = read_arguments("search_tools", arguments)
    text: str = given["task_description"]
    if not text.strip():
        raise InvalidRequest(
            "task_description is empty", hint="Say what you want to do, for example 'read a file'."
        )
    tag = given["tag"] or None
    if tag is not None and tag not in (tags := index.tags(shows)):
        raise _unknown_tag(tag, tags)
    found = index.search(text, limit=given["limit"], tag=tag, usage=usage, meaning=meaning, shows=shows)
    hits = [hit for hit in found.hits if registry.owns_name(hit.tool)]
    envelope: Json = {"total": found.total - (len(found.hits) - len(hits))}
    if found.try_also:
        terms = {short_name(b): [visible(w) for w in words] for b, words in found.try_also.items()}
        kept = len(fit_names([f"{b}{words}" for b, words in terms.items()], room // 4))
        envelope["try_also"] = dict(list(terms.items())[:kept])
    if found.did_you_mean:
        envelope["did_you_mean"] = shorten(visible(found.did_you_mean), BRIEF_CHARS)
    rows = rows_of(registry, hits, facts, brief=given["brief"])
    fitting, cut = fit_rows(rows, room - size_of(envelope))
    if cut and not given["brief"]:
        notes.append("long descriptions are cut; tool_info with detail full shows one whole")
    if len(fitting) < len(rows):
        notes.append(f"only {len(fitting)} of {len(rows)} fit in one answer; search with narrower words")
    if under_way:
        notes.append(UNDER_WAY)
    if not found.hits:
        other = "use other words, or list_tools_meta for all names"
        notes.append(f"nothing {'with this tag matches; leave tag out, ' if tag else 'matches; '}{other}")
    if notes:
        envelope["note"] = "; ".join(notes)
    return {"results": fitting, **envelope}


def search_text(arguments: Any) -> str:
    """Return the query of a `search_tools` call. Raises InvalidRequest."""
    text: str = read_arguments("search_tools", arguments)[0]["task_description"]
    return text


def _unknown_tag(tag: str, tags: Sequence[str]) -> InvalidRequest:
    """Return the error for a tag that no tool has, with the closest tags."""
    close = [t for t, _, _ in process.extract(tag[:200], tags, scorer=fuzz.ratio, limit=TAGS_SHOWN)]
    known = ", ".join(shorten(visible(t), TAG_CHARS) for t in sorted(close))
    more = f" and {len(tags) - len(close)} more" if len(tags) > len(close) else ""
    return InvalidRequest(
        f"no tool has the tag '{shorten(visible(tag), TAG_CHARS)}'",
        hint=f"Tags: {known}{more}." if known else "No tool has a tag.",
    )


def list_tools_meta(registry: Registry, arguments: Any, *, room: int = DEFAULT_ROOM) -> Json:
    """Answer `list_tools_meta` in at most `room` bytes: a page with long names ends early.

    The cursor holds the last name shown, so pages stay right while tools come and go.
    """
    given, notes = read_arguments("list_tools_meta", arguments)
    after = _cursor_name(given["cursor"]) if given["cursor"] else None
    # Sorted by the shown form, which keeps the cursor short whatever the name is.
    names = sorted(short_name(t.qualified) for t in registry.tools())
    names = [name for name in names if after is None or name > after]
    page = fit_names(names[: given["page_size"]], max(room, LEAST_ROOM) - _CURSOR_ROOM)
    answer: Json = {"tools": page, "next_cursor": _cursor(page[-1]) if len(names) > len(page) else None}
    if notes:
        answer["note"] = "; ".join(notes)
    return answer


def _cursor(name: str) -> str:
    return urlsafe_b64encode(encode(name)).decode().rstrip("=")


def _cursor_name(cursor: str) -> str:
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        return decode(urlsafe_b64decode(padded))
    except (ValueError, binascii.Error) as error:
        raise InvalidRequest(
            "cursor is not one this tool gave out", hint="Leave cursor out to start at the first page."
        ) from error


def tool_info(
    registry: Registry, arguments: Any, *, facts: Facts = NO_FACTS, room: int = DEFAULT_ROOM
) -> Json:
    """Answer `tool_info`, brief or full, in at most `room` bytes."""
    given, _ = read_arguments("tool_info", arguments)
    listed = registry.resolve(given["tool_name"])
    tool = facts.typed(listed)
    answer: Json = {"name": short_name(tool.qualified), "backend": short_name(tool.backend)}
    notes: list[str] = []
    if given["detail"] == "brief":
        answer["description"] = first_sentence(tool.description)
        names = [short_name(name) for name in parameters(tool.input_schema)]
        answer["parameters"] = fit_names(names, PARAMETERS_CHARS)
        if len(names) > len(answer["parameters"]):
            notes.append(f"{len(names) - len(answer['parameters'])} more parameters; detail full has them")
        with_texts(answer, tool)
        answer["signature"] = signature(tool, spoken=registry.is_spoken(tool))
        answer["call"] = call_of(registry, tool)
    else:
        answer["description"] = visible(tool.description, lines=True)
        answer["input_schema"] = shown(tool.input_schema)
        if listed.output_schema is not None:
            answer["output_schema"] = shown(listed.output_schema)
        answer["annotations"] = shown(tool.annotations)
        # Descriptions are in the schemas.
        answer["declaration"] = declaration(tool, spoken=registry.is_spoken(tool), docs=False)
        answer["call"] = call_of(registry, tool)
        if said := facts.instructions(tool.backend):
            answer["instructions"] = visible(said, lines=True)
    cut = fit_parts(answer, BRIEF_PARTS if given["detail"] == "brief" else FULL_PARTS, room)
    if cut:
        whole = "return await gatemini.tool_info({tool_name, detail: 'full'})"
        notes.append(f"too long for one answer, cut or left out: {', '.join(cut)}; whole in a chain: {whole}")
    notes += _notes(registry, tool)
    if notes:
        answer["note"] = "; ".join(notes)
    return answer


def _notes(registry: Registry, tool: Tool) -> list[str]:
    notes: list[str] = []
    if not registry.is_live(tool.backend):
        notes.append("known from last time; its backend is still starting")
    changed = registry.changed_at(tool.qualified)
    if changed is not None:
        notes.append(f"its schema changed at {changed:%H:%M}")
    if tool.repairs:
        notes.append("repaired: " + ", ".join(shorten(visible(r), TAG_CHARS) for r in tool.repairs[:5]))
    return notes


def get_required_keys_for_tool(
    registry: Registry, arguments: Any, *, keys: Callable[[str], Keys], down: Mapping[str, str]
) -> Json:
    """Answer `get_required_keys_for_tool`; `down` are the backends without tools, each with the reason."""
    given, _ = read_arguments("get_required_keys_for_tool", arguments)
    note: Json = {}
    try:
        tool = registry.resolve(given["tool_name"])
        name, backend = tool.qualified, tool.backend
    except ToolNotFound:
        # A backend without tools, because it is disabled or down, needs its keys all the more.
        name = given["tool_name"]
        found = next((n for n in (name, name.partition(".")[0]) if n in down), None)
        if found is None:
            raise
        backend, why = found, shorten(visible(down[found]), REASON_CHARS)
        note = {"note": f"{short_name(found)} is not running, so its tools are not known: {why}"}
    names, missing = keys(backend)
    return {
        "tool": short_name(name),
        "backend": short_name(backend),
        "keys": [visible(k) for k in names],
        "missing": [visible(k) for k in missing],
        **note,
    }
