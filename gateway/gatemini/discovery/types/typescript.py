"""TypeScript of tools from their JSON Schemas: a declaration, and a signature of one line.

Any schema gives valid TypeScript; what cannot be expressed becomes `unknown`. Results are cached per tool content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import orjson
from cachetools import LRUCache

from gatemini.discovery.types.expressions import UNKNOWN, terse
from gatemini.discovery.types.identifiers import (
    JS_WORDS,
    UNREACHABLE_MEMBERS,
    backend_identifier,
    identifier,
    is_plain_name,
    member_name,
)
from gatemini.discovery.types.schema_reader import parameters, required_parameters
from gatemini.discovery.types.schema_types import Layout, SchemaTypes, doc_comment
from gatemini.discovery.types.seen import SEEN
from gatemini.model import Json, Tool
from gatemini.text.escape import js_string

SIGNATURE_CHARS = 640
"""Longest signature, if a shallower one fits: a search shows several. Arguments and result have half of it each."""
LONGEST_SIGNATURE = 2_000
"""Beyond this length a signature says only that the tool takes an object."""
BRIEF_TYPE_CHARS = 160
"""Longest type of the arguments, or of the result, in the first rows of a search."""
_DOC_CHARS = 300
_AROUND = 100
"""Bytes of a declaration around its members, without the backend's name."""
_CACHED = 8_192
"""Declarations and signatures kept: about the tools of a very large catalog."""

_FULL = Layout(depth=16, enum=64, doc_chars=160, max_chars=20_000)
_TYPES_ONLY = Layout(depth=16, enum=64, doc_chars=0, max_chars=20_000)
_BRIEF = (
    Layout(depth=3, enum=8, doc_chars=0, max_chars=1_000, null=False),
    Layout(depth=2, enum=4, doc_chars=0, max_chars=1_000, null=False),
    Layout(depth=1, enum=3, doc_chars=0, max_chars=1_000, null=False),
    Layout(depth=1, enum=2, doc_chars=0, max_chars=1_000, null=False, optional=4),
    Layout(depth=1, enum=0, doc_chars=0, max_chars=1_000, null=False, optional=1),
)
# Each layout of `_BRIEF` but the last is here too, or a deeper one is: a signature shows whatever a search row showed.
_SIGNATURES = (
    Layout(depth=4, enum=8, doc_chars=0, max_chars=2_000),
    Layout(depth=3, enum=8, doc_chars=0, max_chars=2_000, null=False),
    Layout(depth=2, enum=4, doc_chars=0, max_chars=2_000, null=False),
    Layout(depth=1, enum=3, doc_chars=0, max_chars=2_000),
    Layout(depth=1, enum=3, doc_chars=0, max_chars=2_000, null=False),
    Layout(depth=1, enum=2, doc_chars=0, max_chars=2_000, optional=8),
    Layout(depth=1, enum=2, doc_chars=0, max_chars=2_000, null=False, optional=4),
    Layout(depth=1, enum=0, doc_chars=0, max_chars=2_000, optional=2),
)


def declaration(tool: Tool, *, spoken: bool = True, docs: bool = True) -> str:
    """Return the TypeScript of one tool as a chain sees it, with short doc comments unless `docs` is false.

    `spoken`: the backend owns its identifier; else `__backends["name"]` is declared.
    """
    kind = f"declaration {spoken} {docs}"
    return _cached(kind, tool, lambda: declared_within([tool], None, spoken=spoken, docs=docs)[0])


def signature(tool: Tool, *, spoken: bool = True) -> str:
    """Return the declaration on one line without comments; nested types become `unknown` where it grows too long."""
    return _cached(f"signature {spoken}", tool, lambda: _signature(tool, spoken))


def argument_types(tool: Tool) -> str:
    """Return `{query: string, limit?: number}`: the arguments in a search result, required ones first.

    Empty where there are none, or where they do not fit in `BRIEF_TYPE_CHARS` in any form.
    """
    return _cached("arguments", tool, lambda: _argument_types(tool))


def result_type(tool: Tool) -> str:
    """Return `{rows: {id: number}[], total: number}`: the result in a search result.

    Empty where nothing is known of it, or where it does not fit in `BRIEF_TYPE_CHARS` in any form.
    """
    return "" if tool.output_schema is None else _cached("result", tool, lambda: _result_type(tool))


def backend_declarations(tools: Sequence[Tool], *, spoken: bool = True) -> str:
    """Return one declaration for tools of one backend: its global with a method per tool, shared types in front."""
    return declared_within(tools, None, spoken=spoken)[0]


def declared_within(
    tools: Sequence[Tool], room: int | None, *, spoken: bool = True, docs: bool = True
) -> tuple[str, list[Tool]]:
    """Return (the declaration of the first tools that fit `room` bytes, the other tools). One that is too large is
    skipped.
    """
    if not tools:
        return "", []
    space = tools[0].namespace or tools[0].backend
    layout = _FULL if docs else _TYPES_ONLY
    taken: set[str] = set()
    aliases: list[str] = []
    members: list[str] = []
    called: list[str] = []
    left_out: list[Tool] = []
    used = _AROUND + 2 * len(space.encode())
    for at, tool in enumerate(tools):
        types = SchemaTypes(tool.input_schema, _prefix(tool), layout, taken)
        arguments = _arguments(tool, types, indent=1 if docs else None)
        results = SchemaTypes(tool.output_schema or {}, _prefix(tool) + "Result", layout, taken)
        answer = _answer(tool, results, indent=1 if docs else None)
        own = types.aliases() + results.aliases()
        comment = doc_comment(tool.description, _DOC_CHARS, indent=1) if docs else ""
        if unreachable := tool.name in UNREACHABLE_MEMBERS:
            member = f"{comment}  call(tool: {js_string(tool.name)}, {arguments}): {answer};\n"
        else:
            member = f"{comment}  {_member(tool.name)}({arguments}): {answer};\n"
        if room is not None:
            size = len(member.encode()) + sum(len(alias.encode()) + 1 for alias in own)
            if used + size > room:
                left_out.append(tool)
                if size * 2 > room:
                    continue
                left_out += tools[at + 1 :]
                break
            used += size
        aliases += own
        (called if unreachable else members).append(member)
    text = "".join(alias + "\n" for alias in aliases)
    if not spoken:
        members, called = [], members + called
    if members:
        text += f"declare const {backend_identifier(space)}: {{\n{''.join(members)}}};\n"
    if called:
        text += f"declare const __backends: {{\n {js_string(space)}: {{\n{''.join(called)} }};\n}};\n"
    return text, left_out


def _signature(tool: Tool, spoken: bool) -> str:
    arguments = _shallower(
        _arguments(tool, SchemaTypes(tool.input_schema, "", layout, None), indent=None)
        for layout in _SIGNATURES
    )
    results = tool.output_schema or {}
    answer = _shallower(
        _answer(tool, SchemaTypes(results, "", layout, None), indent=None) for layout in _SIGNATURES
    )
    text = _method(tool, arguments, answer, spoken)
    if len(text) > LONGEST_SIGNATURE:
        return _method(tool, "args: Record<string, unknown>", "Promise<unknown>", spoken)
    return text


def _shallower(made: Iterable[str]) -> str:
    """Return the first text that fits its half of a signature or, made terse, a search row; else the last."""
    text = ""
    for text in made:
        if len(text) <= SIGNATURE_CHARS // 2 or len(terse(text)) <= BRIEF_TYPE_CHARS + len("Promise<>"):
            break
    return text


def _argument_types(tool: Tool) -> str:
    order = list(parameters(tool.input_schema))
    if not order:
        return ""
    made = (SchemaTypes(tool.input_schema, "", layout, None).arguments(order, None) for layout in _BRIEF)
    return _first_brief(made)


def _result_type(tool: Tool) -> str:
    schema = tool.output_schema or {}
    made = (SchemaTypes(schema, "", layout, None).result(_unwrapped(schema), None) for layout in _BRIEF)
    found = _first_brief(made)
    return "" if found in (UNKNOWN, "object") else found


def _first_brief(made: Iterable[str]) -> str:
    return next((text for text in map(terse, made) if len(text) <= BRIEF_TYPE_CHARS), "")


def _method(tool: Tool, arguments: str, answer: str, spoken: bool) -> str:
    space = tool.namespace or tool.backend
    if tool.name in UNREACHABLE_MEMBERS:
        method = f"call(tool: {js_string(tool.name)}, {arguments}): {answer}"
    else:
        method = f"{_member(tool.name)}({arguments}): {answer}"
        if spoken:
            return f"declare const {backend_identifier(space)}: {{ {method} }}"
    return f"declare const __backends: {{ {js_string(space)}: {{ {method} }} }}"


def _arguments(tool: Tool, types: SchemaTypes, *, indent: int | None) -> str:
    optional = "" if required_parameters(tool.input_schema) else "?"
    order = list(parameters(tool.input_schema))
    return f"args{optional}: {types.arguments(order, indent)}"


def _answer(tool: Tool, types: SchemaTypes, *, indent: int | None) -> str:
    if tool.output_schema is None:
        return "Promise<unknown>"
    made = types.result(_unwrapped(tool.output_schema), indent)
    return f"Promise<{made}{' /* seen */' if is_seen(tool) else ''}>"


def is_seen(tool: Tool) -> bool:
    """Return whether the type of the result was learnt from calls and not declared."""
    return tool.output_schema is not None and SEEN in tool.output_schema


def _unwrapped(schema: Json) -> Any:
    """Return the schema of the value a chain gets, without the `{result: X}` that an SDK wrapped around it."""
    properties = schema.get("properties")
    if schema.get("x-fastmcp-wrap-result") is True and isinstance(properties, Mapping):
        return properties.get("result", schema)
    return schema


def _member(name: str) -> str:
    name = member_name(name)
    # `new(…)` would be a construct signature; other reserved words are valid method names.
    return name if is_plain_name(name) and name != "new" else js_string(name)


def _prefix(tool: Tool) -> str:
    parts = [p for p in identifier(tool.name)[:60].replace("$", "_").split("_") if p]
    made = "".join(p[0].upper() + p[1:] for p in parts) or "Tool"
    return f"_{made}" if made[0].isdecimal() or made in JS_WORDS else made


_cache: LRUCache[bytes, str] = LRUCache(_CACHED)


def _cached(kind: str, tool: Tool, make: Callable[[], str]) -> str:
    """Return the text made for a tool with this content before, else make it."""
    parts = (tool.backend, tool.namespace, tool.name, tool.description, tool.input_schema, tool.output_schema)
    try:
        content = orjson.dumps([kind, *parts], option=orjson.OPT_NON_STR_KEYS)
    except (TypeError, ValueError, RecursionError):
        return make()  # huge integers and the like are rare, and correct without the cache
    key = blake2b(content, digest_size=16).digest()
    text = _cache.get(key)
    if text is None:
        text = _cache[key] = make()
    return text
