"""Questions about one JSON Schema: which kinds of value it means, and how often it refers to its parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from gatemini.discovery.types.schema_reader import resolve_pointer

COMBINING = ("$ref", "anyOf", "oneOf", "allOf")
_MAX_NODES = 20_000


def implied(schema: Mapping[str, Any]) -> list[str]:
    """Return the kind of value that the keywords of a schema without `type` are about."""
    if isinstance(schema.get("properties"), Mapping) or "additionalProperties" in schema:
        return ["object"]
    if "patternProperties" in schema or strings(schema.get("required")):
        return ["object"]
    return ["array"] if "items" in schema or "prefixItems" in schema else []


def has_members(schema: Mapping[str, Any]) -> bool:
    return (
        bool(schema.get("properties"))
        or bool(schema.get("required"))
        or bool(schema.get("additionalProperties") not in (None, False, True))
    )


def only_objects(root: Any, schema: Mapping[str, Any]) -> bool:
    """Return whether every alternative of a combined root is an object, so that it can be the argument."""
    seen = {id(root)}
    todo: list[Any] = []

    def look_into(here: Mapping[str, Any]) -> None:
        if isinstance(here.get("$ref"), str):
            todo.append(resolve_pointer(root, here["$ref"]))
        for key in ("anyOf", "oneOf", "allOf"):
            parts = here.get(key)
            todo.extend(parts if isinstance(parts, list) else [])

    look_into(schema)
    while todo:
        here = todo.pop()
        if not isinstance(here, Mapping) or here is root or not _may_be_object(here):
            return False
        if id(here) not in seen:
            seen.add(id(here))
            look_into(here)
    return True


def _may_be_object(schema: Mapping[str, Any]) -> bool:
    if {"enum", "const", "items", "prefixItems"} & set(schema) or schema.get("nullable") is True:
        return False
    kind = schema.get("type")
    return kind == "object" or (
        kind is None and (implied(schema) == ["object"] or bool(set(COMBINING) & set(schema)))
    )


def strings(value: Any) -> list[str]:
    return [v for v in value if isinstance(v, str)] if isinstance(value, list) else []


def count_references(root: Any) -> Counter[str]:
    """Count the uses of each `$ref`, in a bounded walk."""
    found: Counter[str] = Counter()
    todo: list[Any] = [root]
    for _ in range(_MAX_NODES):
        if not todo:
            break
        here = todo.pop()
        if isinstance(here, Mapping):
            reference = here.get("$ref")
            if isinstance(reference, str):
                found[reference] += 1
            todo += here.values()
        elif isinstance(here, list):
            todo += here
    return found


def declared_members(schema: Any) -> dict[str, frozenset[str] | None]:
    """Return the names of all properties that a schema speaks of, at any depth, each with the texts it can be; None
    where it can be anything else. Nothing of a schema that is too large to be looked at.
    """
    found: dict[str, frozenset[str] | None] = {}
    texts = _Texts(schema)
    stack, left = [schema], _MAX_NODES
    while stack:
        inner = stack.pop()
        left -= 1
        if left < 0:
            return {}
        if isinstance(inner, dict):
            properties = inner.get("properties")
            for name, value in properties.items() if isinstance(properties, dict) else ():
                given, known = texts.of(value), found.get(name, frozenset())
                found[name] = None if given is None or known is None else known | given
            stack.extend(inner.values())
        elif isinstance(inner, list):
            stack.extend(inner)
    return found


class _Texts:
    """Finds the texts that parts of one schema allow, in at most `_MAX_NODES` steps for all parts together."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._left = _MAX_NODES

    def of(self, part: Any) -> frozenset[str] | None:
        """Return the texts that a value of this part can be besides null; None where it can be anything else."""
        found: set[str] = set()
        seen: set[int] = set()
        todo = [part]
        while todo:
            here = todo.pop()
            self._left -= 1
            if not isinstance(here, Mapping) or self._left < 0:
                return None
            if id(here) in seen:
                continue
            seen.add(id(here))
            alternatives = here.get("anyOf") or here.get("oneOf")
            if isinstance(here.get("$ref"), str):
                todo.append(resolve_pointer(self._root, here["$ref"]))
            elif isinstance(alternatives, list):
                self._left -= len(alternatives)
                todo += alternatives
            elif here.get("type") != "null":
                values = here.get("enum", [here["const"]] if "const" in here else None)
                if not isinstance(values, list) or len(values) > self._left:
                    return None
                self._left -= len(values)
                if not all(value is None or isinstance(value, str) for value in values):
                    return None
                found.update(filter(None, values))
        return frozenset(found)
