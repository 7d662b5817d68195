"""Repair what backends list: every tool is kept, and gets an object schema.

The SDK's typed client drops a whole list for one odd schema. Here only the one tool gets an open schema and a note. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mcp.shared.inbound import find_invalid_x_mcp_header

from gatemini.backends.wire import encode
from gatemini.discovery.types.schema_reader import resolve_pointer
from gatemini.model import Json, Tool
from gatemini.text.hidden import note_of, texts_in, without_comments, without_comments_in

MAX_SCHEMA_DEPTH = 64
"""Deeper schemas are replaced by an open object, because all code that reads them is recursive."""

_COMBINATORS = ("anyOf", "oneOf", "allOf")
_DEFINITIONS = ("$defs", "definitions")

_OF_TOOLS = {"input_schema": "inputSchema", "output_schema": "outputSchema"}
"""Other spellings, of models dumped under their Python names."""


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
        description = _text(item, "description", notes) or title or ""  # some servers give only a title
        schema = repair_input_schema(item.get("inputSchema"), notes)
        output = _object_or_none(item, "outputSchema", notes)
        for what, *texts in (
            ("its name", name),
            ("its description", description, title or ""),
            ("its input schema", *texts_in(schema)),
            ("its output schema", *texts_in(output)),
        ):
            if (hides := note_of(what, *texts)) is not None:
                notes.append(hides)
        return Tool(
            backend=self._backend,
            name=name,
            description=without_comments(description),
            input_schema=_shown(schema),
            output_schema=_shown(output),
            annotations=annotations or {},
            tags=self._tags,
            namespace=self._namespace,
            title=title and without_comments(title),
            repairs=tuple(notes),
        )


def without_invalid_headers(tools: Iterable[Tool], notes: list[str]) -> list[Tool]:
    """Leave out tools that want arguments in headers that cannot be sent (`x-mcp-header`), as 2026-07-28 demands."""
    kept = []
    for tool in tools:
        if (fault := find_invalid_x_mcp_header(tool.input_schema)) is None:
            kept.append(tool)
        else:
            notes.append(f"{tool.name} was left out: {fault}")
    return kept


def _shown(schema: Any) -> Any:
    """The schema, in which no description holds an HTML comment."""
    return without_comments_in(schema) if any("<!--" in text for text in texts_in(schema)) else schema


def repair_input_schema(schema: Any, notes: list[str]) -> Json:
    """An object schema for any input; appends what was repaired to `notes`."""
    if not isinstance(schema, dict):
        notes.append(f"inputSchema was {shape(schema)}, any object is accepted")
        return {"type": "object"}
    if _too_deep(schema):
        notes.append(f"inputSchema is nested deeper than {MAX_SCHEMA_DEPTH} levels, any object is accepted")
        return {"type": "object"}
    schema = _without_root_ref(schema, notes)
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


def _repair_members(schema: Json, notes: list[str]) -> Json:
    """Drop members of the root that are no JSON Schema, in a copy."""
    changes: Json = {}
    properties, required = schema.get("properties"), schema.get("required")
    if isinstance(properties, dict) and not _are_schemas(properties.values()):
        bad = [name for name, part in properties.items() if not isinstance(part, dict | bool)]
        notes.append(f"the schema of {', '.join(map(repr, bad[:5]))} was no schema, any value is accepted")
        changes["properties"] = {**properties, **dict.fromkeys(bad, True)}
    if isinstance(required, list) and not all(isinstance(name, str) for name in required):
        notes.append("required held something that is no name")
        changes["required"] = [name for name in required if isinstance(name, str)]
    objects = {"properties", *_DEFINITIONS}
    wrong = [key for key in objects if key in schema and not isinstance(schema[key], dict)]
    wrong += ["required"] if "required" in schema and not isinstance(required, list) else []
    for key in _COMBINATORS:
        branches = schema.get(key)
        if key in schema and not (isinstance(branches, list) and branches and _are_schemas(branches)):
            wrong.append(key)
    notes.extend(f"{key} was {shape(schema[key])} and was dropped" for key in wrong)
    if not changes and not wrong:
        return schema
    return {key: changes.get(key, part) for key, part in schema.items() if key not in wrong}


def _are_schemas(parts: Iterable[Any]) -> bool:
    return all(isinstance(part, dict | bool) for part in parts)


def _without_root_ref(schema: Json, notes: list[str]) -> Json:
    """Replace a local `$ref` at the root by its target; definitions are kept."""
    if "$ref" not in schema:
        return schema
    target = resolve_pointer(schema, str(schema["$ref"]))
    definitions: Json = {key: schema[key] for key in _DEFINITIONS if key in schema}
    if not isinstance(target, dict) or not target or "$ref" in target:
        notes.append("inputSchema's $ref leads nowhere, any object is accepted")
        return {"type": "object", **definitions}
    notes.append("inputSchema's root $ref was resolved")
    return {**target, **{key: part for key, part in schema.items() if key != "$ref"}}


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
