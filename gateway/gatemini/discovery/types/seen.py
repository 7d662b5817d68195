"""What the results of tools without an output schema looked like, as JSON Schema: types only, never a value.

Learnt from real calls and widened when results differ. A shape belongs to a tool with exactly this input schema.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import orjson
from cachetools import LRUCache

from gatemini.model import Json, Tool

SEEN = "x-gatemini-seen"
"""Marks a schema that was learnt, so that types made from it say so."""
MOST_SHAPES = 2_000
"""Tools with a shape; the least recently used are forgotten first."""
LEARNT_CALLS = 20
"""Results per tool and run that are looked at: later ones rarely add anything."""
_NODES = 150
"""Values looked at in one result (about 0.1 ms)."""
_ITEMS = 10
_DEPTH = 6
_MOST_MEMBERS = 40
_KEY = re.compile(r"[A-Za-z_$][\w$-]{0,39}\Z", re.ASCII)
"""A name of a member. Other keys (addresses, dates, titles) are data: they become `[key: string]`."""


class SeenResults:
    """The shapes of results by tool."""

    def __init__(self, kept: Mapping[str, Json]) -> None:
        """`kept` has the shapes of earlier runs, as `shapes` returned them."""
        self._shapes: LRUCache[str, Json] = LRUCache(MOST_SHAPES)
        self._shapes.update({key: shape for key, shape in kept.items() if _is_shape(shape)})
        self._looks: LRUCache[str, int] = LRUCache(MOST_SHAPES)

    def learn(self, tool: Tool, value: Any) -> None:
        """Note the shape of the value that a chain got from a tool; does nothing for tools with an output schema."""
        key = _key(tool) if tool.output_schema is None else None
        if key is None or self._looks.get(key, 0) >= LEARNT_CALLS:
            return
        self._looks[key] = self._looks.get(key, 0) + 1
        if now := widened(self._shapes.get(key, {}), _Look().shape(value, 0)):
            self._shapes[key] = now

    def typed(self, tool: Tool) -> Tool:
        """Return the tool with the learnt shape as its output schema; unchanged where there is none."""
        key = _key(tool) if tool.output_schema is None and self._shapes else None
        shape = self._shapes.get(key) if key is not None else None
        return tool if shape is None else replace(tool, output_schema={**shape, SEEN: True})

    def shapes(self) -> dict[str, Json]:
        """Return all shapes, for the cache."""
        return dict(self._shapes)


def _key(tool: Tool) -> str | None:
    """Return a digest of the tool's name and input schema; None where the schema cannot be written."""
    try:
        content = orjson.dumps([tool.backend, tool.name, tool.input_schema], option=orjson.OPT_NON_STR_KEYS)
    except (TypeError, ValueError, RecursionError):
        return None
    return blake2b(content, digest_size=16).hexdigest()


class _Look:
    """One bounded look at a value."""

    def __init__(self) -> None:
        self._left = _NODES

    def shape(self, value: Any, depth: int) -> Json:
        """Return the schema of a JSON value; `{}` for what is not looked at."""
        self._left -= 1
        if value is None:
            return {"type": "null"}
        if isinstance(value, bool):
            return {"type": "boolean"}
        if isinstance(value, int | float):
            return {"type": "number"}
        if isinstance(value, str):
            return {"type": "string"}
        if depth >= _DEPTH or self._left <= 0:
            return {}
        if isinstance(value, list):
            return {"type": "array", "items": self._together(value[:_ITEMS], depth)}
        if isinstance(value, Mapping):
            if _is_map(value):
                return _map(self._together(list(value.values())[:_ITEMS], depth))
            members = {str(key): self.shape(member, depth + 1) for key, member in value.items()}
            return {"type": "object", "properties": members, "required": list(members)}
        return {}

    def _together(self, values: list[Any], depth: int) -> Json:
        found: Json = {}
        for value in values:
            if self._left <= 0:
                break
            found = widened(found, self.shape(value, depth + 1))
        return found


def _is_map(value: Mapping[Any, Any]) -> bool:
    return len(value) > _MOST_MEMBERS or not all(_KEY.match(str(key)) for key in value)


def _map(values: Json) -> Json:
    return {"type": "object", "additionalProperties": values}


def _is_shape(shape: Any, depth: int = 0) -> bool:
    """Return whether a schema has the form that this module makes; a file may hold anything."""
    if not isinstance(shape, dict) or depth > 2 * _DEPTH + 2 or not _has_lists(shape):
        return False
    inner = [*shape.get("anyOf", ()), *shape.get("properties", {}).values()]
    inner += [shape[key] for key in ("items", "additionalProperties") if key in shape]
    complete = shape.get("type") != "array" or "items" in shape
    return complete and all(_is_shape(part, depth + 1) for part in inner)


def _has_lists(shape: Json) -> bool:
    wanted = (("anyOf", list), ("properties", dict), ("required", list), ("type", str))
    kept = all(isinstance(shape.get(key, kind()), kind) for key, kind in wanted)
    return kept and ("properties" not in shape or "required" in shape)


def widened(known: Json, more: Json) -> Json:
    """Return the narrowest shape that both shapes fit; `{}` says nothing and adds nothing."""
    if not known or known == more:
        return more
    kinds: dict[str, Json] = {}
    for part in (*_alternatives(known), *_alternatives(more)):
        kind = part.get("type", "")
        kinds[kind] = _same_kind(kinds[kind], part) if kind in kinds else part
    parts = [kinds[kind] for kind in sorted(kinds, key=lambda kind: (kind == "null", kind))]
    return parts[0] if len(parts) == 1 else {"anyOf": parts} if parts else {}


def _alternatives(shape: Json) -> list[Json]:
    return shape.get("anyOf", [shape]) if shape else []


def _same_kind(one: Json, other: Json) -> Json:
    if one.get("type") == "array":
        return {"type": "array", "items": widened(one["items"], other["items"])}
    if one.get("type") != "object":
        return one
    first, second = one.get("properties"), other.get("properties")
    if first is not None and second is not None and len(first | second) <= _MOST_MEMBERS:
        members = {name: widened(first.get(name, {}), second.get(name, {})) for name in first | second}
        needed = [name for name in one["required"] if name in other["required"]]
        return {"type": "object", "properties": members, "required": needed}
    values: Json = {}
    for part in (one, other):
        for inner in (part.get("properties") or {"": part.get("additionalProperties", {})}).values():
            values = widened(values, inner)
    return _map(values)
