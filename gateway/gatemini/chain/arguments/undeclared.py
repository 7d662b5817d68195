"""Find arguments that a tool's schema does not declare, at the top and inside of objects and arrays.

Most backends ignore such an argument: the call succeeds and its answer is about something else. Pure functions.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gatemini.chain.arguments.schema_faults import path_text
from gatemini.chain.arguments.schemas import MAX_STEPS, PYTHON_TYPES, pattern_matches
from gatemini.discovery.types.schema_reader import resolve_pointer
from gatemini.model import Json
from gatemini.text.shorten import shorten

SHOWN_UNDECLARED: Final = 4
"""Undeclared arguments named in one note; the rest are counted."""

SHOWN_DECLARED: Final = 6
"""Declared names offered in place of an undeclared one, the most similar first."""

SHOWN_NAME: Final = 60
"""Characters shown of an undeclared name."""

LEAST_SIMILAR: Final = 0.6
"""Similarity from which one declared name is offered alone."""

_COMBINED: Final = ("allOf", "anyOf", "oneOf")
_APPLIED: Final = ("if", "then", "else")


@dataclass(slots=True)
class _Shape:
    """The properties that an object may have by a schema and by the schemas it is combined from."""

    properties: dict[str, list[Any]] = field(default_factory=dict)
    items: list[Any] = field(default_factory=list)
    declares: bool = False
    """Whether any of the schemas lists properties: with an empty list, an object inside of the arguments may have any."""
    open: bool = False
    """Whether other names are allowed on purpose."""
    patterns: list[str] = field(default_factory=list)


def undeclared_note(spoken_tool: str, schema: Mapping[str, Any], arguments: Json) -> str | None:
    """Return a note that names undeclared arguments with the declared names closest to them, None without any."""
    if _plainly_declared(schema, arguments):
        return None
    found = list(_undeclared(schema, arguments))
    if not found:
        return None
    shown = [_sentence(path, value, free, others) for path, value, free, others in found[:SHOWN_UNDECLARED]]
    if len(found) > SHOWN_UNDECLARED:
        shown.append(f"and {len(found) - SHOWN_UNDECLARED} more")
    return f"{spoken_tool} does not declare, and may have ignored: {'; '.join(shown)}"


def _plainly_declared(schema: Mapping[str, Any], arguments: Json) -> bool:
    """Return whether every argument is listed at the top of the schema and holds no names of its own."""
    listed = schema.get("properties")
    if not isinstance(listed, dict) or not arguments.keys() <= listed.keys():
        return False
    return not any(isinstance(value, dict | list) for value in arguments.values())


def _sentence(
    path: Sequence[str | int], value: Any, free: Mapping[str, Sequence[Any]], declared: Sequence[str]
) -> str:
    said = f'"{shorten(path_text(path), SHOWN_NAME)}"'
    if not declared:
        return f"{said} (it declares no arguments)"
    if not free:
        only = ", ".join(declared[:SHOWN_DECLARED]) + (", …" if len(declared) > SHOWN_DECLARED else "")
        return f"{said} (declared: {only})"
    last = str(path[-1])
    alike = sorted(free, key=lambda other: (-_similar(last, other), not _fits(value, free[other])))
    if _similar(last, alike[0]) >= LEAST_SIMILAR:
        return f'{said} (did you mean "{alike[0]}"?)'
    by_type = sorted(free, key=lambda other: (not _fits(value, free[other]), -_similar(last, other)))
    more = ", …" if len(by_type) > SHOWN_DECLARED else ""
    return f"{said} (declared: {', '.join(by_type[:SHOWN_DECLARED])}{more})"


def _similar(name: str, other: str) -> float:
    """Return a similarity from 0 to 1 that ignores case and separators."""
    one, two = (
        "".join(char for char in text[:SHOWN_NAME].casefold() if char.isalnum()) for text in (name, other)
    )
    return difflib.SequenceMatcher(None, one, two).ratio()


def _fits(value: Any, schemas: Sequence[Any]) -> bool:
    """Return whether a declared type, if there is one, is that of the value."""
    wanted = [rule.get("type") for rule in schemas if isinstance(rule, dict)]
    kinds = [kind for one in wanted for kind in (one if isinstance(one, list) else [one])]
    return any(isinstance(kind, str) and type(value) in PYTHON_TYPES.get(kind, ()) for kind in kinds)


def _undeclared(
    schema: Mapping[str, Any], arguments: Json
) -> Iterator[tuple[tuple[str | int, ...], Any, dict[str, list[Any]], list[str]]]:
    """Yield path and value of each undeclared argument, the declared ones that are not there, and all of them."""
    work: list[tuple[tuple[str | int, ...], list[Any], Any]] = [((), [schema], arguments)]
    steps = MAX_STEPS
    while work and steps > 0:
        path, schemas, value = work.pop()
        shape = _Shape(declares=not path and schema.get("properties") == {})  # a tool without arguments
        for one in schemas:
            steps -= _gather(shape, one, schema, steps)
        if isinstance(value, list):
            if shape.items:
                work += [((*path, place), shape.items, item) for place, item in enumerate(value[:steps])]
            continue
        if not isinstance(value, dict):
            continue
        steps -= len(value)
        free = {name: rules for name, rules in shape.properties.items() if name not in value}
        for name, member in value.items():
            if name in shape.properties:
                if isinstance(member, dict | list):
                    work.append(((*path, name), shape.properties[name], member))
            elif shape.declares and not shape.open and not _matched(name, shape.patterns):
                yield (*path, name), member, free, [*shape.properties]


def _gather(shape: _Shape, schema: Any, root: Mapping[str, Any], steps: int) -> int:
    """Add what a schema says to the shape, with what it refers to; return the schemas read, at most `steps`."""
    work, seen = [schema], 0
    while work:
        rule = work.pop()
        seen += 1
        if seen >= steps or rule is True:
            shape.open = True
            return seen
        if not isinstance(rule, dict):
            continue
        properties, patterns = rule.get("properties"), rule.get("patternProperties")
        if isinstance(properties, dict):
            shape.declares = shape.declares or bool(properties)
            for name, member in properties.items():
                shape.properties.setdefault(name, []).append(member)
        if isinstance(patterns, dict):
            shape.patterns += patterns
        for others in ("additionalProperties", "unevaluatedProperties"):
            if rule.get(others) is True or isinstance(rule.get(others), dict):
                shape.open = True
        if "propertyNames" in rule or "dependentSchemas" in rule or "$dynamicRef" in rule:
            shape.open = True
        if isinstance(rule.get("items"), dict):
            shape.items.append(rule["items"])
        for key in _COMBINED:
            work += rule[key] if isinstance(rule.get(key), list) else []
        work += [rule[key] for key in _APPLIED if isinstance(rule.get(key), dict)]
        if isinstance(rule.get("$ref"), str):
            target = resolve_pointer(root, rule["$ref"])
            shape.open = shape.open or target is None
            work.append(target)
    return seen


def _matched(name: str, patterns: Sequence[str]) -> bool:
    """Return whether a pattern takes the name, or may take it because it cannot be tried."""
    return any(pattern_matches(pattern, name) is not False for pattern in patterns)
