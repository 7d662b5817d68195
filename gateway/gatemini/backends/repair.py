"""Repair what backends list and answer: every tool is kept, every result gets the shape that MCP defines.

The SDK's typed client drops a whole list for one odd schema and loses a result for one odd block. Here only the one tool
gets an open schema and a note, and `content` is always a list of objects with a `type`. Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from gatemini.backends.wire import MAX_SAFE_INTEGER, encode
from gatemini.model import Json, Tool
from gatemini.types.schema import resolve_pointer

MAX_SCHEMA_DEPTH = 64
"""Deeper schemas are replaced by an open object, because all code that reads them is recursive."""

MAX_REF_HOPS = 8
"""Local `$ref`s that are followed from the root of a schema."""

_COMBINATORS = ("anyOf", "oneOf", "allOf")
_TYPES = frozenset(("null", "boolean", "integer", "number", "string", "array", "object"))
_PARTS = (
    *_COMBINATORS,
    "items",
    "prefixItems",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
)
"""Keywords whose value is a schema or a list of schemas."""
_NAMED_PARTS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
"""Keywords whose value is an object of schemas by name."""


_OF_TOOLS = {"input_schema": "inputSchema", "output_schema": "outputSchema", "parameters": "inputSchema"}
_OF_RESULTS = {"structured_content": "structuredContent", "is_error": "isError"}
_OF_BLOCKS = {"mime_type": "mimeType"}
"""Other spellings: of models dumped under their Python names, of other function formats."""

_BLOCKS = frozenset(("text", "image", "audio", "resource", "resource_link"))
_NOT_VALUES = frozenset(("content", "structuredContent", "_meta", "isError", "resultType"))
"""Members of a result; in one without content any other member is the tool's value."""


def repair_tools(
    raw: Iterable[Any], *, backend: str, namespace: str | None = None, tags: Sequence[str] = ()
) -> tuple[list[Tool], list[str]]:
    """The listed tools with unchanged names, and one sentence for each repair."""
    listing = Listing(backend, namespace, tags)
    listing.read(raw)
    return listing.tools(), listing.repairs


class Listing:
    """A tool list that is repaired part by part, so that a long one does not block the event loop."""

    def __init__(self, backend: str, namespace: str | None = None, tags: Sequence[str] = ()) -> None:
        self.repairs: list[str] = []
        self._tools: dict[str, Tool] = {}
        self._read = 0
        self._backend = backend
        self._namespace = namespace
        self._tags = tuple(tags)

    def tools(self) -> list[Tool]:
        return list(self._tools.values())

    def read(self, raw: Iterable[Any]) -> None:
        """Take in the next entries of the list."""
        for item in raw:
            position, self._read = self._read, self._read + 1
            if not isinstance(item, dict) or not isinstance(item.get("name"), str) or not item["name"]:
                self.repairs.append(f"entry {position} of the tool list has no name and was left out")
                continue
            name: str = item["name"]
            if name in self._tools:
                self.repairs.append(f"{name}: listed twice, the first one is kept")
                continue
            notes: list[str] = []
            self._tools[name] = self._repaired(name, _renamed(item, _OF_TOOLS, notes), notes)
            self.repairs.extend(f"{name}: {note}" for note in notes)

    def _repaired(self, name: str, item: Json, notes: list[str]) -> Tool:
        annotations = _object_or_none(item, "annotations", notes)
        title = _text(item, "title", notes) or _text(annotations or {}, "title", notes)
        return Tool(
            backend=self._backend,
            name=name,
            description=_text(item, "description", notes) or title or "",  # some servers give only a title
            input_schema=repair_input_schema(item.get("inputSchema"), notes),
            output_schema=_object_or_none(item, "outputSchema", notes),
            annotations=annotations or {},
            tags=self._tags,
            namespace=self._namespace,
            title=title,
            repairs=tuple(notes),
        )


def repair_input_schema(schema: Any, notes: list[str]) -> Json:
    """An object schema for any input; appends what was repaired to `notes`."""
    if not isinstance(schema, dict):
        notes.append(f"inputSchema was {_shape(schema)}, any object is accepted")
        return {"type": "object"}
    if _too_deep(schema):
        notes.append(f"inputSchema is nested deeper than {MAX_SCHEMA_DEPTH} levels, any object is accepted")
        return {"type": "object"}
    schema = _without_root_ref(_with_plain_types(schema, notes), notes)
    kind = schema.get("type")
    if kind == "object":
        fixed = schema
    elif isinstance(kind, list) and "object" in kind:
        notes.append(f"inputSchema had the types {_short(kind)}, read as an object")
        fixed = {**schema, "type": "object"}
    elif kind is not None:
        notes.append(f"inputSchema had the type {_short(kind)}, any object is accepted")
        return {"type": "object"}
    else:
        notes.append("inputSchema had no type, read as an object" if schema else "inputSchema was empty")
        fixed = {**schema, "type": "object"}
    return _repair_members(fixed, notes)


def _with_plain_types(schema: Json, notes: list[str]) -> Json:
    """Read `OBJECT` and `String` as `object` and `string`: some SDKs write the names of their own enums."""
    fixed: Json = _plain_types(schema)
    if fixed is not schema:
        notes.append("type names in capitals were read as the types of JSON Schema")
    return fixed


def _plain_types(schema: Any) -> Any:
    """The same object if there is nothing to change; names of properties and values are no schemas."""
    if isinstance(schema, list):
        parts = [_plain_types(part) for part in schema]
        return parts if any(new is not old for new, old in zip(parts, schema, strict=True)) else schema
    if not isinstance(schema, dict):
        return schema
    changes: Json = {}
    kind = schema.get("type")
    if isinstance(kind, str) and kind not in _TYPES and kind.lower() in _TYPES:
        changes["type"] = kind.lower()
    for key in _PARTS:
        if key in schema and (part := _plain_types(schema[key])) is not schema[key]:
            changes[key] = part
    for key in _NAMED_PARTS:
        named = schema.get(key)
        if isinstance(named, dict):
            made = {name: _plain_types(part) for name, part in named.items()}
            if any(made[name] is not part for name, part in named.items()):
                changes[key] = made
    return {**schema, **changes} if changes else schema


def _repair_members(schema: Json, notes: list[str]) -> Json:
    """Repair `properties`, `required` and the combinators of the root, in a copy."""
    changes: Json = {}
    drop: set[str] = set()
    if "properties" in schema:
        properties = schema["properties"]
        if not isinstance(properties, dict):
            notes.append(f"properties was {_shape(properties)} and was dropped")
            drop.add("properties")
        elif bad := [k for k, v in properties.items() if not isinstance(v, dict | bool)]:
            notes.append(
                f"the schema of {', '.join(map(repr, bad[:5]))} was no schema, any value is accepted"
            )
            changes["properties"] = {k: (v if k not in bad else True) for k, v in properties.items()}
    if "required" in schema:
        required = schema["required"]
        if not isinstance(required, list):
            notes.append(f"required was {_shape(required)} and was dropped")
            drop.add("required")
        elif not all(isinstance(r, str) for r in required):
            notes.append("required held something that is no name")
            changes["required"] = [r for r in required if isinstance(r, str)]
    for key in ("$defs", "definitions"):
        if key in schema and not isinstance(schema[key], dict):
            notes.append(f"{key} was {_shape(schema[key])} and was dropped")
            drop.add(key)
    for key in _COMBINATORS:
        branches = schema.get(key)
        if key in schema and not (
            isinstance(branches, list) and branches and all(isinstance(b, dict | bool) for b in branches)
        ):
            notes.append(f"{key} was not a list of schemas and was dropped")
            drop.add(key)
    if not changes and not drop:
        return schema
    return {k: changes.get(k, v) for k, v in schema.items() if k not in drop}


def _without_root_ref(schema: Json, notes: list[str]) -> Json:
    """Replace a local `$ref` at the root by its target; definitions are kept."""
    if "$ref" not in schema:
        return schema
    current, seen = schema, 0
    while isinstance(current, dict) and "$ref" in current and seen < MAX_REF_HOPS:
        target = resolve_pointer(schema, str(current["$ref"]))
        siblings = {k: v for k, v in current.items() if k not in ("$ref", "$defs", "definitions")}
        current = {**target, **siblings} if isinstance(target, dict) else {}
        seen += 1
    definitions: Json = {k: schema[k] for k in ("$defs", "definitions") if k in schema}
    if not current or "$ref" in current:
        notes.append("inputSchema's $ref leads nowhere, any object is accepted")
        return {"type": "object", **definitions}
    notes.append("inputSchema's root $ref was resolved")
    return {**current, **definitions}


def _too_deep(value: object) -> bool:
    level = [value]
    for _ in range(MAX_SCHEMA_DEPTH):
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True


def repair_result(result: Any) -> tuple[Json, list[str]]:
    """An MCP `CallToolResult` whose `content` is a list of typed blocks, and notes on repairs."""
    notes: list[str] = []
    if not isinstance(result, dict):
        result = _from_bare(result, notes)
    elif "toolResult" in result and "content" not in result:
        notes.append("the answer had the shape of a 2024 draft (toolResult)")
        result = _from_bare(result["toolResult"], [])
    result = _renamed(result, _OF_RESULTS, notes)
    content = result.get("content")
    fixed = dict(result)
    if content is None and result.get("structuredContent") is None:
        own = {key: value for key, value in result.items() if key not in _NOT_VALUES}
        if own:
            notes.append("the answer was the bare value instead of a result object")
            fixed["structuredContent"] = own
    if not isinstance(content, list) or not all(_well_formed(block) for block in content):
        fixed["content"] = _repair_content(content, notes, structured="structuredContent" in fixed)
    if "structuredContent" in fixed and fixed["structuredContent"] is None:
        del fixed["structuredContent"]
    if "isError" in fixed and not isinstance(fixed["isError"], bool):
        flag = fixed["isError"]
        fixed["isError"] = flag not in (None, 0, "", "false", "False")
        if flag is not None:
            notes.append(f"isError was {_shape(flag)}")
    if "_meta" in fixed and not isinstance(fixed["_meta"], dict):
        del fixed["_meta"]
    return fixed, notes


def repair_contents(result: Any) -> list[Json]:
    """The contents of a resource as a list of objects with `text` or `blob`, from any shape."""
    if isinstance(result, dict):
        found = result.get("contents", result.get("content"))
        if found is None:
            found = {key: value for key, value in result.items() if key not in _NOT_VALUES | {"contents"}}
    else:
        found = result
    contents: list[Json] = []
    for item in found if isinstance(found, list) else [found]:
        if isinstance(item, dict):
            block = _renamed(item, _OF_BLOCKS, [])
            inner = block.get("resource")
            contents.append(inner if isinstance(inner, dict) else block)
        elif item is not None:
            contents.append({"text": _as_text(item)})
    return [content for content in contents if content]


def exact_integers(value: Any, notes: list[str]) -> Any:
    """`value` with integers beyond 2^53 as text, so that JavaScript keeps their digits.

    For answers of in-process servers; `wire.py` does the same while it decodes text.
    """
    try:
        orjson.dumps(value, option=orjson.OPT_STRICT_INTEGER)
    except (TypeError, ValueError, RecursionError):
        fixed = _integers_as_text(value, 0)
        if fixed != value:
            notes.append("integers beyond 2^53 were kept as text")
        return fixed
    return value


def _integers_as_text(value: Any, depth: int) -> Any:
    if isinstance(value, bool) or depth > 500:
        return value
    if isinstance(value, int):
        return value if abs(value) <= MAX_SAFE_INTEGER else str(value)
    if isinstance(value, dict):
        return {k: _integers_as_text(v, depth + 1) for k, v in value.items()}
    if isinstance(value, list):
        return [_integers_as_text(v, depth + 1) for v in value]
    return value


def _from_bare(value: Any, notes: list[str]) -> Json:
    """A result from a bare value: as text, and as structured content if it is an object or a list."""
    notes.append(f"the answer was {_shape(value)} instead of a result object")
    if value is None:
        return {"content": []}
    if isinstance(value, list) and value and all(isinstance(v, dict) and "type" in v for v in value):
        return {"content": value}
    if isinstance(value, dict) and isinstance(value.get("content"), list):
        return value
    bare: Json = {"content": [{"type": "text", "text": _as_text(value)}]}
    if isinstance(value, dict | list):
        bare["structuredContent"] = value
    return bare


def _well_formed(block: object) -> bool:
    if not isinstance(block, dict):
        return False
    kind = block.get("type")
    if not isinstance(kind, str) or not _OF_BLOCKS.keys().isdisjoint(block):
        return False
    if kind not in _BLOCKS and kind.lower() in _BLOCKS:
        return False
    return kind != "text" or isinstance(block.get("text"), str)


def _repair_content(content: Any, notes: list[str], *, structured: bool) -> list[Json]:
    if content is None:
        if not structured:
            notes.append("the result had no content")
        return []
    if not isinstance(content, list):
        notes.append(f"content was {_shape(content)} instead of a list")
        content = [content]
    else:
        notes.append("content held blocks of the wrong shape")
    return [_repair_block(block) for block in content if block is not None]


def _repair_block(value: Any) -> Json:
    if not isinstance(value, dict):
        return {"type": "text", "text": _as_text(value)}
    block = _renamed(value, _OF_BLOCKS, [])
    if isinstance(block.get("type"), str) and block["type"].lower() in _BLOCKS:
        block = {**block, "type": block["type"].lower()}
    if isinstance(block.get("resource"), dict):
        block = {**block, "resource": _renamed(block["resource"], _OF_BLOCKS, [])}
    if _well_formed(block):
        return block
    kind = block.get("type")
    if kind == "text" or (not isinstance(kind, str) and "text" in block):
        return {**block, "type": "text", "text": _as_text(block.get("text"))}
    if isinstance(block.get("resource"), dict):
        return {**block, "type": "resource"}
    if isinstance(block.get("data"), str):
        mime = block.get("mimeType")
        return {**block, "type": "audio" if isinstance(mime, str) and mime.startswith("audio/") else "image"}
    if isinstance(block.get("uri"), str):
        return {**block, "type": "resource_link"}
    return {"type": "text", "text": _as_text(block)}


def _renamed(item: Json, spellings: Mapping[str, str], notes: list[str]) -> Json:
    """The object with other spellings of keys replaced by the right ones, if those are missing."""
    for other, right in spellings.items():
        if other in item:
            value = item[other]
            item = {key: inner for key, inner in item.items() if key != other}
            if item.get(right) is None:
                item[right] = value
                notes.append(f"{other} was read as {right}")
    return item


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else encode(value).decode()


def _text(item: Json, key: str, notes: list[str]) -> str | None:
    value = item.get(key)
    if value is None or isinstance(value, str):
        return value
    notes.append(f"{key} was {_shape(value)} and was dropped")
    return None


def _object_or_none(item: Json, key: str, notes: list[str]) -> Json | None:
    value = item.get(key)
    if value is None:
        return None
    if not isinstance(value, dict) or _too_deep(value):
        notes.append(f"{key} was {_shape(value)} and was dropped")
        return None
    return value


def _shape(value: object) -> str:
    if value is None:
        return "missing or null"
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", int: "a number"}
    return names.get(type(value), "a number")


def _short(value: object) -> str:
    return encode(value).decode()[:60]
