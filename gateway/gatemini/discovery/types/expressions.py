"""TypeScript type expressions as text: literals, unions, intersections, arrays, with the brackets they need."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gatemini.discovery.types.identifiers import property_name
from gatemini.text.escape import js_string

UNKNOWN = "unknown"
_PARTS = re.compile(r'"(?:[^"\\]|\\.)*"|/\*.*?\*/|[()\[\]{}|&]', re.DOTALL)
_LOOSE = re.compile(
    r'"(?:[^"\\]|\\.)*"|/\*.*?\*/|\{ \[key: string\]: unknown \}|\{ | \}|; | [|&] ', re.DOTALL
)


def kind_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else UNKNOWN


def literal_of(value: Any, depth: int = 0) -> str:
    """Return the literal type of a JSON value; `unknown` or its kind where TypeScript has no literal."""
    if isinstance(value, str):
        return js_string(value) if len(value) <= 200 else "string"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value) if abs(value) < 2**53 else "number"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else "number"
    if depth > 4:
        return UNKNOWN
    if isinstance(value, list):
        return (
            f"[{', '.join(literal_of(v, depth + 1) for v in value[:20])}]"
            if len(value) <= 20
            else "unknown[]"
        )
    if isinstance(value, Mapping) and len(value) <= 20:
        inner = "; ".join(f"{property_name(str(k))}: {literal_of(v, depth + 1)}" for k, v in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    return UNKNOWN


def union_of(types: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(types))
    if not distinct or UNKNOWN in distinct:
        return UNKNOWN
    left = [t for t in distinct if t != "never"] or ["never"]
    if "true" in left and "false" in left:
        left = ["boolean" if t == "true" else t for t in left if t != "false"]
    if any(t.endswith(" | null") for t in left) and "null" in left:
        left.remove("null")
    return " | ".join(dict.fromkeys(f"({t})" if _has_top(t, "&") else t for t in left))


def intersection_of(types: Sequence[str]) -> str:
    distinct = [t for t in dict.fromkeys(types) if t != UNKNOWN]
    if not distinct:
        return UNKNOWN
    if len(distinct) == 1:
        return distinct[0]
    return " & ".join(f"({t})" if _has_top(t, "|") else t for t in distinct)


def array_of(made: str) -> str:
    return f"({made})[]" if _has_top(made, "|") or _has_top(made, "&") or "/*" in made else f"{made}[]"


def terse(made: str) -> str:
    """Return the same type in fewer characters: no spaces but after `,` and `:`, and quotes that JSON does not escape."""
    return _LOOSE.sub(lambda found: _terse_part(found[0]), made)


def _terse_part(part: str) -> str:
    if part == "; ":
        return ", "
    if "[key" in part[:6]:
        return "object"
    if part.startswith("/*"):
        return part if "\\" in part else part.replace('"', "'")
    if part.startswith('"'):
        # What needs escaping keeps its double quotes: the escapes of js_string are valid only in these.
        return part if "'" in part or "\\" in part else f"'{part[1:-1]}'"
    return part.strip()


def _has_top(made: str, sign: str) -> bool:
    """Return whether `sign` occurs outside brackets, strings and comments."""
    if f" {sign} " not in made:
        return False
    depth = 0
    for part in _PARTS.findall(made):
        if part in "([{":
            depth += 1
        elif part in ")]}":
            depth -= 1
        elif part == sign and depth == 0:
            return True
    return False
