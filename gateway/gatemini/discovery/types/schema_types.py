"""Translate one JSON Schema, whatever it holds, to TypeScript type expressions.

References below an object or array that are used again or refer to themselves become type aliases; others are written
in place, and a loop of these becomes `unknown`. Size, depth and enums are bounded, with a note where something was cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gatemini.discovery.types.expressions import (
    UNKNOWN,
    array_of,
    intersection_of,
    kind_of,
    literal_of,
    union_of,
)
from gatemini.discovery.types.identifiers import JS_WORDS, identifier, property_name
from gatemini.discovery.types.schema_kinds import (
    COMBINING,
    count_references,
    has_members,
    implied,
    only_objects,
    strings,
)
from gatemini.discovery.types.schema_reader import resolve_pointer
from gatemini.text.escape import one_line
from gatemini.text.shorten import shorten

_OPEN = "{ [key: string]: unknown }"
_PLAIN = {"string": "string", "number": "number", "integer": "number", "boolean": "boolean", "null": "null"}
_STRUCTURE = {
    *COMBINING, "type", "properties", "required", "additionalProperties", "patternProperties", "items",
    "prefixItems", "enum", "const", "nullable",
}  # fmt: skip
_OBJECT_KEYS = {"properties", "required", "additionalProperties", "patternProperties"}
_MAX_NODES = 20_000
_MAX_DEFAULT = 40


@dataclass(frozen=True, slots=True)
class Layout:
    """Bounds of a translation: levels of nesting, enum members, characters per comment and in all."""

    depth: int
    enum: int
    doc_chars: int
    max_chars: int
    optional: int | None = None
    """Optional parameters shown; the rest are counted in a comment."""
    null: bool = True
    """Whether the `null` of an optional member is written: a caller can leave the member out instead."""


def doc_comment(text: str, limit: int, *, indent: int, extra: str = "") -> str:
    """Return `/** … */` on a line of its own, or nothing; long text is cut, with its length."""
    line = one_line(text)
    if len(line) > limit:
        line = f"{shorten(line, limit)} ({len(text)} characters)"
    line = " ".join(part for part in (line, extra) if part).replace("*/", "*\\/")
    return f"{'  ' * indent}/** {line} */\n" if line else ""


class SchemaTypes:
    """Types of one schema document. `taken` holds alias names in use; None forbids aliases."""

    def __init__(self, root: Any, prefix: str, layout: Layout, taken: set[str] | None) -> None:
        self._root = root
        self._prefix = prefix
        self._layout = layout
        self._taken = taken
        self._left = layout.max_chars
        self._uses = count_references(root)
        self._names: dict[str, str] = {}
        self._bodies: dict[str, str] = {}
        self._stack: list[str] = []
        self._order: Mapping[str, int] = {}

    def aliases(self) -> list[str]:
        """Return `type X = …;` for every reference that got a name, in order of use."""
        return [f"type {name} = {self._bodies[ref]};" for ref, name in self._names.items()]

    def arguments(self, order: Sequence[str], indent: int | None) -> str:
        """Return the root as the one argument of a tool: always an object type, its properties in `order`."""
        self._order = {name: i for i, name in enumerate(order)}
        made = self._object_like(self._root, indent)
        return made if made is not None else _OPEN

    def result(self, schema: Any, indent: int | None) -> str:
        """Return the type of a result; `schema` is the root or a part of it."""
        return self._type(schema, 0, indent, direct=True)

    # ---- the translation -----------------------------------------------------------------------------

    def _object_like(self, schema: Any, indent: int | None) -> str | None:
        if not isinstance(schema, Mapping):
            return None
        kinds = schema.get("type")
        kinds = kinds if isinstance(kinds, list) else [kinds]
        if kinds != [None] and "object" not in kinds:
            return None
        shape = {k: v for k, v in schema.items() if k in _OBJECT_KEYS}
        if any(key in schema for key in COMBINING):
            whole = shape | {k: schema[k] for k in COMBINING if k in schema}
            if only_objects(self._root, whole):
                return self._type(whole, 0, indent, direct=True)
        return self._object(shape, 0, indent, root=True)

    def _type(self, schema: Any, depth: int, indent: int | None, *, direct: bool) -> str:
        """Return the type of any JSON value taken as a schema; `direct` means that no object or array lies between."""
        if schema is False:
            return "never"
        if not isinstance(schema, Mapping) or not schema or self._left <= 0 or depth > self._layout.depth + 8:
            return UNKNOWN
        self._left -= 8
        parts: list[str] = []
        reference = schema.get("$ref")
        if isinstance(reference, str):
            parts.append(self._reference(reference, depth, indent, direct=direct))
        own = self._own(schema, depth, indent, direct=direct)
        if own is not None:
            parts.append(own)
        for key in ("anyOf", "oneOf"):
            options = schema.get(key)
            if isinstance(options, list) and options:
                parts.append(union_of(self._branch(schema, o, depth, indent, direct) for o in options))
        together = schema.get("allOf")
        if isinstance(together, list):
            parts += [self._branch(schema, part, depth, indent, direct) for part in together]
        made = intersection_of(parts)
        if schema.get("nullable") is True and made != UNKNOWN:
            made = union_of([made, "null"])
        return made

    def _branch(
        self, schema: Mapping[str, Any], branch: Any, depth: int, indent: int | None, direct: bool
    ) -> str:
        """Return the type of one alternative; it takes the parent's properties where it only adds `required`."""
        if isinstance(branch, Mapping) and "properties" not in branch and "required" in branch:
            known = schema.get("properties")
            names = strings(branch.get("required"))
            if isinstance(known, Mapping) and not _STRUCTURE & (set(branch) - {"required", "type"}):
                branch = {
                    "type": "object",
                    "properties": {n: known.get(n, {}) for n in names},
                    "required": names,
                }
        return self._type(branch, depth + 1, indent, direct=direct)

    def _own(self, schema: Mapping[str, Any], depth: int, indent: int | None, *, direct: bool) -> str | None:
        """Return the type of the schema's own keywords, without references and combinations; None if it has none."""
        if "const" in schema:
            return literal_of(schema["const"])
        if isinstance(schema.get("enum"), list) and schema["enum"]:
            return self._enum(schema["enum"])
        kinds = schema.get("type")
        if isinstance(kinds, str):
            kinds = [kinds]
        elif not isinstance(kinds, list) or not kinds:
            kinds = implied(schema)
            if not kinds:
                return None
        combined = any(isinstance(schema.get(k), list) and schema[k] for k in ("anyOf", "oneOf", "allOf"))
        if (combined or "$ref" in schema) and kinds == ["object"] and not has_members(schema):
            return None  # the parts are more precise
        return union_of(self._kind(kind, schema, depth, indent) for kind in kinds)

    def _kind(self, kind: object, schema: Mapping[str, Any], depth: int, indent: int | None) -> str:
        if kind == "object":
            return self._object(schema, depth, indent)
        if kind == "array":
            return self._array(schema, depth, indent)
        return _PLAIN.get(kind, UNKNOWN) if isinstance(kind, str) else UNKNOWN

    def _array(self, schema: Mapping[str, Any], depth: int, indent: int | None) -> str:
        items, prefix = schema.get("items"), schema.get("prefixItems")
        rest: Any = schema.get("additionalItems", False) if isinstance(items, list) else items
        listed = items if isinstance(items, list) else prefix
        if isinstance(listed, list) and listed:
            if depth >= self._layout.depth:
                return "unknown[]"
            shown = [self._type(item, depth + 1, indent, direct=False) for item in listed]
            if rest is True or (isinstance(rest, Mapping) and rest):
                shown.append(f"...{array_of(self._type(rest, depth + 1, indent, direct=False))}")
            return f"[{', '.join(shown)}]"
        return array_of(self._type(items, depth + 1, indent, direct=False))

    def _object(
        self, schema: Mapping[str, Any], depth: int, indent: int | None, *, root: bool = False
    ) -> str:
        if depth >= self._layout.depth:
            return _OPEN
        properties = schema.get("properties")
        known: dict[str, Any] = (
            {str(k): v for k, v in properties.items()} if isinstance(properties, Mapping) else {}
        )
        required = set(strings(schema.get("required")))
        for name in strings(schema.get("required")):
            known.setdefault(name, {})
        index = self._index_signature(schema, known, depth, indent)
        if not known:
            if index is None:
                return "{}" if isinstance(properties, Mapping) else _OPEN
            return f"{{ {index} }}" if index else "Record<string, never>" if not root else "{}"
        names = sorted(known, key=lambda n: self._order.get(n, len(self._order))) if root else list(known)
        return self._members(names, known, required, index, depth, indent)

    def _members(
        self,
        names: Sequence[str],
        known: Mapping[str, Any],
        required: set[str],
        index: str | None,
        depth: int,
        indent: int | None,
    ) -> str:
        inner = None if indent is None else indent + 1
        members: list[str] = []
        comments: list[str] = []
        optional = hidden = 0
        for name in names:
            if name not in required:
                optional += 1
                limit = self._layout.optional
                if self._left <= 0 or (limit is not None and optional > limit):
                    hidden += 1
                    continue
            made = self._type(known[name], depth + 1, inner, direct=False)
            if made == "never" and name in required:
                made = UNKNOWN
            if name not in required and not self._layout.null:
                made = made.removesuffix(" | null")
            member = f"{property_name(name)}{'' if name in required else '?'}: {made}"
            self._left -= len(member)
            members.append(member)
            comments.append(self._comment(known[name], inner))
        if index:
            members.append(index)
            comments.append("")
        note = f"/* +{hidden} optional */" if hidden else ""
        if inner is None or indent is None:
            return f"{{ {'; '.join(members)}{note and f' {note}'} }}" if members else f"{{ {note} }}"
        pad = "  " * inner
        lines = [f"{comment}{pad}{member};\n" for comment, member in zip(comments, members, strict=True)]
        lines += [f"{pad}{note}\n"] if note else []
        return f"{{\n{''.join(lines)}{'  ' * indent}}}"

    def _comment(self, schema: Any, indent: int | None) -> str:
        """Return the doc comment in front of a member."""
        if indent is None or not self._layout.doc_chars or not isinstance(schema, Mapping):
            return ""
        text = schema.get("description")
        extra = ""
        if "default" in schema:
            default = literal_of(schema["default"])
            if len(default) <= _MAX_DEFAULT and default != UNKNOWN:
                extra = f"(default {default})"
        comment = doc_comment(
            text if isinstance(text, str) else "", self._layout.doc_chars, indent=indent, extra=extra
        )
        self._left -= len(comment)
        return comment

    def _index_signature(
        self, schema: Mapping[str, Any], known: Mapping[str, Any], depth: int, indent: int | None
    ) -> str | None:
        """Return `[key: string]: T`; empty when closed, None when the schema says nothing."""
        extra = schema.get("additionalProperties")
        patterns = schema.get("patternProperties")
        if known:
            # Every named property must fit the index type, so beside names it can only be unknown.
            is_open = extra is True or isinstance(extra, Mapping) or isinstance(patterns, Mapping)
            return "[key: string]: unknown" if is_open else ""
        if isinstance(patterns, Mapping) and len(patterns) == 1 and not isinstance(extra, Mapping):
            extra = next(iter(patterns.values()))
        elif isinstance(patterns, Mapping) and patterns:
            extra = True
        if extra is None:
            return None
        if extra is False:
            return ""
        return f"[key: string]: {self._type(extra, depth + 1, indent, direct=False)}"

    def _enum(self, values: Sequence[Any]) -> str:
        distinct = list(dict.fromkeys(literal_of(v) for v in values[:_MAX_NODES]))
        limit = self._layout.enum
        if len(distinct) <= limit:
            return union_of(distinct)
        kinds = list(dict.fromkeys(kind_of(v) for v in values[:_MAX_NODES]))
        if UNKNOWN in kinds:
            return UNKNOWN
        shown = ", ".join(shorten(d, 40) for d in distinct[:limit]).replace("*/", "*\\/")
        note = f"one of {len(distinct)}: {shown}, ..." if shown else f"one of {len(distinct)}"
        return f"{union_of(kinds)} /* {note} */"

    # ---- references ----------------------------------------------------------------------------------

    def _reference(self, reference: str, depth: int, indent: int | None, *, direct: bool) -> str:
        target = resolve_pointer(self._root, reference)
        if target is None:
            return UNKNOWN
        # A direct reference is written in place: TypeScript forbids an alias that refers directly to itself.
        if direct or self._taken is None or (self._uses[reference] < 2 and reference not in ("#", "#/")):
            if reference in self._stack or depth > self._layout.depth:
                return UNKNOWN
            self._stack.append(reference)
            made = self._type(target, depth, indent, direct=direct)
            self._stack.pop()
            return made
        if reference not in self._names:
            self._names[reference] = self._name(reference)
            self._bodies[reference] = UNKNOWN
            above, self._stack = self._stack, [reference]
            self._bodies[reference] = self._type(target, 0, 0, direct=True)
            self._stack = above
        return self._names[reference]

    def _name(self, reference: str) -> str:
        taken = self._taken if self._taken is not None else set()
        last = reference.rstrip("/").rpartition("/")[2].lstrip("#") or "Input"
        stem = identifier(last)[:60]
        name = f"{self._prefix}_{stem}" if self._prefix else stem
        if name in JS_WORDS or not name:
            name = f"{name}_"
        made, number = name, 2
        while made in taken:
            made, number = f"{name}{number}", number + 1
        taken.add(made)
        return made
