"""The four discovery tools as pure functions: arguments → a JSON-able answer (spec 1.1, 3.2).

Nothing here does I/O or waits. Text of strangers is escaped and shortened on its way out. Above: `tools.py`, the
chain's `gatemini.*` calls, CLI. Below: registry, search, types.
"""

from __future__ import annotations

import binascii
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

import orjson

from gatemini.config.schema import BackendConfig
from gatemini.errors import InvalidRequest, ToolNotFound
from gatemini.model import Json, Tool
from gatemini.registry import Registry
from gatemini.search.index import Hit, SearchIndex
from gatemini.search.postings import Floats
from gatemini.server.arguments import read_arguments
from gatemini.server.definitions import MAX_LIMIT, tool_definitions
from gatemini.types.identifiers import call_expression
from gatemini.types.schema import parameters, required_parameters
from gatemini.types.typescript import declaration, signature
from gatemini.types.wording import first_sentence, shorten, visible

__all__ = [
    "call_of",
    "definition_bytes",
    "get_required_keys_for_tool",
    "keys_of",
    "list_tools_meta",
    "search_tools",
    "tool_definitions",
    "tool_info",
]

ANSWER_CHARS = 60_000
"""Characters of descriptions in one answer: with all else it stays below what an unknown client cuts."""
PART_CHARS = 24_000
"""Longest part of a full `tool_info`; four such parts stay below what an unknown client cuts."""
_WHOLE_BITS = 63
_REFERENCE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-[^}]*)?\}")
_OPTIONAL_REFERENCE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*):-[^}]*\}")


def definition_bytes(tool: Tool) -> int:
    """Bytes of a tool's entry in a `tools/list` answer."""
    entry: Json = {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
    if tool.output_schema is not None:
        entry["outputSchema"] = tool.output_schema
    if tool.annotations:
        entry["annotations"] = tool.annotations
    return _json_size(entry)


def _json_size(value: Any) -> int:
    try:
        return len(orjson.dumps(value))
    except (TypeError, ValueError, RecursionError):
        return len(repr(value))  # huge integers, lone surrogates: near enough


def call_of(registry: Registry, tool: Tool) -> str:
    """The call expression of a tool, spelled as this registry's chains spell it."""
    return call_expression(
        tool.namespace or tool.backend,
        tool.name,
        required_parameters(tool.input_schema),
        expressions=registry.expressions(),
    )


def search_tools(
    registry: Registry,
    index: SearchIndex,
    arguments: Any,
    *,
    usage: Mapping[str, int] | None = None,
    query_vector: Floats | None = None,
) -> Json:
    """Answer of `search_tools`. `usage` is uses by qualified name; `query_vector` spares encoding the query."""
    asked, notes = read_arguments("search_tools", arguments)
    text: str = asked["task_description"]
    if not text.strip():
        raise InvalidRequest(
            "task_description is empty", hint="Say what you want to do, for example 'read a file'."
        )
    tag = asked["tag"] or None
    if tag is not None and tag not in index.tags():
        known = ", ".join(visible(t) for t in islice(index.tags(), 20))
        raise InvalidRequest(
            f"no tool has the tag '{visible(tag)}'", hint=f"Tags: {known}." if known else "No tool has a tag."
        )
    found = index.search(text, limit=asked["limit"], tag=tag, usage=usage, query_vector=query_vector)
    answer: Json = {
        "results": [_row(registry, hit, brief=asked["brief"]) for hit in found.hits],
        "total": found.total,
    }
    if _cut_evenly(answer["results"]):
        notes.append("long descriptions are cut; tool_info with detail full shows one whole")
    if found.try_also:
        answer["try_also"] = {visible(b): [visible(w) for w in words] for b, words in found.try_also.items()}
    if found.did_you_mean:
        answer["did_you_mean"] = visible(found.did_you_mean)
    if found.total > len(found.hits) and asked["limit"] < MAX_LIMIT:
        notes.append(f"more with limit up to {MAX_LIMIT}")
    if not found.hits:
        notes.append("nothing matches; use other words, or list_tools_meta for all names")
    if notes:
        answer["note"] = "; ".join(notes)
    return answer


def _row(registry: Registry, hit: Hit, *, brief: bool) -> Json:
    tool = hit.tool
    row: Json = {"name": visible(tool.qualified), "backend": visible(tool.backend)}
    if brief:
        row["description"] = first_sentence(tool.description)
    else:
        row["description"] = visible(tool.description, lines=True)
        row["tags"] = [visible(tag) for tag in tool.tags]
    row["call"] = call_of(registry, tool)
    return row


def _cut_evenly(rows: list[Json]) -> bool:
    """Bring the descriptions of an answer within `ANSWER_CHARS` by cutting the longest; whether any was cut."""
    lengths = sorted(len(row["description"]) for row in rows)
    room, longest = ANSWER_CHARS, 0
    for position, length in enumerate(lengths):
        longest = room // (len(lengths) - position)
        if length > longest:
            break
        room -= length
    else:
        return False
    for row in rows:
        row["description"] = shorten(row["description"], longest)
    return True


def list_tools_meta(registry: Registry, arguments: Any) -> Json:
    """Answer of `list_tools_meta`. The cursor holds the last name shown, so pages stay right as tools change."""
    asked, notes = read_arguments("list_tools_meta", arguments)
    after = _cursor_name(asked["cursor"]) if asked["cursor"] else None
    names = [t.qualified for t in registry.tools() if after is None or t.qualified > after]
    page = names[: asked["page_size"]]
    more = len(names) > len(page)
    answer: Json = {
        "tools": [visible(name) for name in page],
        "next_cursor": _cursor(page[-1]) if more and page else None,
    }
    if notes:
        answer["note"] = "; ".join(notes)
    return answer


def _cursor(name: str) -> str:
    return urlsafe_b64encode(name.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def _cursor_name(cursor: str) -> str:
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        return urlsafe_b64decode(padded).decode("utf-8", "surrogatepass")
    except (ValueError, binascii.Error) as error:
        raise InvalidRequest(
            "cursor is not one this tool gave out", hint="Leave cursor out to start at the first page."
        ) from error


def tool_info(registry: Registry, arguments: Any) -> Json:
    """Answer of `tool_info`, brief or full."""
    asked, _ = read_arguments("tool_info", arguments)
    tool = _named(registry, asked["tool_name"])
    answer: Json = {"name": visible(tool.qualified), "backend": visible(tool.backend)}
    notes: list[str] = []
    if asked["detail"] == "brief":
        answer["description"] = first_sentence(tool.description)
        answer["parameters"] = [visible(name) for name in parameters(tool.input_schema)]
        answer["signature"] = signature(tool)
        answer["call"] = call_of(registry, tool)
    else:
        notes += _fill(answer, tool)
        answer["call"] = call_of(registry, tool)
    notes += _notes(registry, tool)
    if notes:
        answer["note"] = "; ".join(notes)
    return answer


def _named(registry: Registry, name: str) -> Tool:
    """The tool of that name, which may have blanks around it that nobody meant."""
    try:
        return registry.resolve(name)
    except ToolNotFound:
        if name == name.strip():
            raise
    return registry.resolve(name.strip())


def _fill(answer: Json, tool: Tool) -> list[str]:
    """Everything about a tool, but no part so long that a client would cut the answer; notes on what was cut."""
    notes: list[str] = []
    answer["description"] = visible(tool.description, lines=True)
    if len(answer["description"]) > PART_CHARS:
        notes.append(f"the description has {len(answer['description'])} characters and is cut")
        answer["description"] = shorten(answer["description"], PART_CHARS)
    schemas = (("input_schema", tool.input_schema), ("output_schema", tool.output_schema))
    for name, schema in schemas:
        if schema is None:
            continue
        size = _json_size(schema)
        if size > PART_CHARS:
            notes.append(f"{name} has {size} characters and is left out; the declaration stands for it")
        else:
            answer[name] = shown(schema)
    answer["annotations"] = shown(tool.annotations)
    answer["declaration"] = declaration(tool)
    return notes


def _notes(registry: Registry, tool: Tool) -> list[str]:
    notes: list[str] = []
    if not registry.is_live(tool.backend):
        notes.append("known from last time; its backend is still starting")
    changed = registry.changed_at(tool.qualified)
    if changed is not None:
        notes.append(f"its schema changed at {changed:%H:%M}")
    if tool.repairs:
        notes.append("repaired: " + ", ".join(visible(r) for r in tool.repairs[:5]))
    return notes


def shown(value: Any, depth: int = 0) -> Any:
    """A JSON value with every hidden character in its strings and keys escaped; any JSON writer takes it."""
    if isinstance(value, str):
        return visible(value, lines=True)
    if isinstance(value, int) and value.bit_length() > _WHOLE_BITS:
        return str(value)
    if depth > 200:
        return None
    if isinstance(value, Mapping):
        return {visible(str(k)): shown(v, depth + 1) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [shown(v, depth + 1) for v in value]
    return value


def get_required_keys_for_tool(
    registry: Registry, arguments: Any, *, keys: Callable[[str], tuple[Iterable[str], Iterable[str]]]
) -> Json:
    """Answer of `get_required_keys_for_tool`; `keys(backend)` is (names, missing names), as `keys_of` gives."""
    asked, _ = read_arguments("get_required_keys_for_tool", arguments)
    tool = _named(registry, asked["tool_name"])
    names, missing = keys(tool.backend)
    return {
        "tool": visible(tool.qualified),
        "backend": visible(tool.backend),
        "keys": [visible(k) for k in names],
        "missing": [visible(k) for k in missing],
    }


def keys_of(config: BackendConfig, environ: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """(keys a backend needs, those of them that are not set): names only, never a value.

    `config` is as written or as interpolated; where it still holds `${VAR}` the variable counts as well. A
    reference with a default is needed by nobody.
    """
    texts = [
        *config.env.values(),
        *config.headers.values(),
        *config.args,
        config.url or "",
        config.command or "",
    ]
    optional = {name for text in texts for name in _OPTIONAL_REFERENCE.findall(text)}
    references = dict.fromkeys(name for text in texts for name in _REFERENCE.findall(text))
    needed = [name for name in references if name not in optional]
    names = list(dict.fromkeys([*config.env, *config.headers, *needed, *config.required_keys]))
    own = {**config.env, **config.headers}
    missing = [name for name in names if _is_missing(name, own, needed, environ)]
    return names, missing


def _is_missing(name: str, own: Mapping[str, str], needed: list[str], environ: Mapping[str, str]) -> bool:
    if name in own:
        wants = [ref for ref in _REFERENCE.findall(own[name]) if ref in needed]
        return not own[name] or any(not environ.get(ref) for ref in wants)
    return not environ.get(name)
