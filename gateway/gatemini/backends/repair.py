"""Repair what backends list: every tool is kept, and gets an object schema.

The SDK's typed client drops a whole list for one odd schema. Here only the one tool gets an open schema and a note. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gatemini.backends.wire import encode
from gatemini.discovery.types.schema_reader import resolve_pointer
from gatemini.model import Json, Tool

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
"""Other spellings: of models dumped under their Python names, of other function formats."""


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
            self._tools[name] = self._repaired(name, renamed(item, _OF_TOOLS, notes), notes)
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
        notes.append(f"inputSchema was {shape(schema)}, any object is accepted")
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
            notes.append(f"properties was {shape(properties)} and was dropped")
            drop.add("properties")
        elif bad := [k for k, v in properties.items() if not isinstance(v, dict | bool)]:
            notes.append(
                f"the schema of {', '.join(map(repr, bad[:5]))} was no schema, any value is accepted"
            )
            changes["properties"] = {k: (v if k not in bad else True) for k, v in properties.items()}
    if "required" in schema:
        required = schema["required"]
        if not isinstance(required, list):
            notes.append(f"required was {shape(required)} and was dropped")
            drop.add("required")
        elif not all(isinstance(r, str) for r in required):
            notes.append("required held something that is no name")
            changes["required"] = [r for r in required if isinstance(r, str)]
    for key in ("$defs", "definitions"):
        if key in schema and not isinstance(schema[key], dict):
            notes.append(f"{key} was {shape(schema[key])} and was dropped")
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


def renamed(item: Json, spellings: Mapping[str, str], notes: list[str]) -> Json:
    """The object with other spellings of keys replaced by the right ones, if those are missing."""
    for other, right in spellings.items():
        if other in item:
            value = item[other]
            item = {key: inner for key, inner in item.items() if key != other}
            if item.get(right) is None:
                item[right] = value
                notes.append(f"{other} was read as {right}")
    return item


def _text(item: Json, key: str, notes: list[str]) -> str | None:
    value = item.get(key)
    if value is None or isinstance(value, str):
        return value
    notes.append(f"{key} was {shape(value)} and was dropped")
    return None


def _object_or_none(item: Json, key: str, notes: list[str]) -> Json | None:
    value = item.get(key)
    if value is None:
        return None
    if not isinstance(value, dict) or _too_deep(value):
        notes.append(f"{key} was {shape(value)} and was dropped")
        return None
    return value


def shape(value: object) -> str:
    if value is None:
        return "missing or null"
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", int: "a number"}
    return names.get(type(value), "a number")


def _short(value: object) -> str:
    return encode(value).decode()[:60]
