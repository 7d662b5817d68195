"""Method calls in parsed code: their object and name, and what a method does with its callback."""

from __future__ import annotations

from typing import Final

from tree_sitter import Node

from gatemini_sandbox.typescript.nodes import arguments_of, text

SAME_ITEMS: Final = frozenset(
    ["sort", "toSorted", "reverse", "toReversed", "flat", "slice", "splice", "toSpliced", "values", "concat"]
)
"""Methods of an array that give an array of (some of) its items."""
SIFTING: Final = frozenset(["filter", "find", "findLast"])
ONE_ITEM: Final = frozenset(["at", "pop", "shift", "find", "findLast"])
PAIRED: Final = frozenset(["sort", "toSorted", "reduce"])
EACH: Final = frozenset(
    ["map", "flatMap", "forEach", "filter", "find", "findLast", "findIndex", "findLastIndex", "some", "every"]
)
"""Methods that give each item to a function as its first parameter."""


def member_name(access: Node) -> str | None:
    """The name in `x.name` and `x["name"]`."""
    if access.type == "member_expression":
        name = access.child_by_field_name("property")
        return None if name is None or name.type != "property_identifier" else text(name)
    index = access.child_by_field_name("index") if access.type == "subscript_expression" else None
    parts = index.named_children if index is not None and index.type == "string" else []
    return text(parts[0]) if len(parts) == 1 and parts[0].type == "string_fragment" else None


def called(call: Node) -> tuple[Node | None, str]:
    """The object and the name of a method call."""
    function = call.child_by_field_name("function")
    if function is None or function.type != "member_expression":
        return None, ""
    return function.child_by_field_name("object"), member_name(function) or ""


def callback_of(function: Node) -> Node | None:
    """The call of a method that an argument is a callback of."""
    listed = function.parent
    if listed is None or listed.type != "arguments" or listed.parent is None:
        return None
    call = listed.parent
    owner, method = called(call) if call.type == "call_expression" else (None, "")
    if owner is None:
        return None
    static = text(owner) in ("Object", "Map", "Array") and method in ("groupBy", "from")
    place = arguments_of(call).index(function)
    known = method in EACH or method in PAIRED or method == "then"
    return call if (static and place == 1) or (known and not static and place == 0) else None
