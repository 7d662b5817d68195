"""What the code itself tells about an expression's value: surely something, surely null or undefined, or unknown.

Of several reads that could have failed this finds those that could not. A guess: what changes an object later is not
followed. Above: blame.py. Below: parse.py.
"""

from __future__ import annotations

from typing import Literal

from tree_sitter import Node

from gatemini_sandbox.typescript.bindings import binding_nodes, identifiers
from gatemini_sandbox.typescript.parse import text

Known = Literal["something", "null", "undefined", "unknown"]

_SOMETHING = frozenset(
    [
        "string",
        "template_string",
        "number",
        "true",
        "false",
        "regex",
        "array",
        "object",
        "arrow_function",
        "function_expression",
        "class",
        "new_expression",
        "function_declaration",
        "generator_function_declaration",
        "class_declaration",
    ]
)
_WRAPPERS = ("parenthesized_expression", "as_expression", "satisfies_expression", "non_null_expression")
# Steps from a name to what it was declared as, and on from there.
MOST_STEPS = 16


class Values:
    """Looks into one program."""

    def __init__(self, root: Node) -> None:
        self._uses: dict[str, list[Node]] = {}
        for node in identifiers(root):
            self._uses.setdefault(text(node), []).append(node)

    def known(self, expression: Node) -> Known:
        value = self._resolved(expression, MOST_STEPS)
        if isinstance(value, str):
            return value
        if value.type in ("null", "undefined") or text(value) == "undefined":
            return "null" if value.type == "null" else "undefined"
        return "something" if value.type in _SOMETHING else "unknown"

    def _resolved(self, node: Node, steps: int) -> Node | Known:
        """The expression that gives the value, as far as names and literals lead to it."""
        while node.type in _WRAPPERS and node.named_child_count:
            node = node.named_children[0]
        if steps == 0:
            return "unknown"
        if node.type == "identifier":
            return self._declared(node, steps)
        if node.type != "member_expression":
            return node
        whole, key = node.child_by_field_name("object"), node.child_by_field_name("property")
        if whole is None or key is None:
            return "unknown"
        found = self._resolved(whole, steps - 1)
        if isinstance(found, str) or found.type != "object":
            return "unknown"
        return self._member(found, text(key), steps)

    def _member(self, made: Node, key: str, steps: int) -> Node | Known:
        for child in reversed(made.named_children):
            name = child.child_by_field_name("key")
            if child.type == "pair" and name is not None and text(name).strip("'\"") == key:
                value = child.child_by_field_name("value")
                return "unknown" if value is None else self._resolved(value, steps - 1)
            if child.type not in ("pair", "comment") or name is None or name.type == "computed_property_name":
                return "unknown"
        return "undefined"

    def _declared(self, name: Node, steps: int) -> Node | Known:
        """What the one declaration of this name gives; a global is always something."""
        if text(name) == "undefined":
            return "undefined"
        binders = [use for use in self._uses.get(text(name), ()) if _binder(use) is not None]
        if not binders:
            return "something"
        declarator = _binder(binders[0])
        if len(binders) > 1 or declarator is None or any(map(_is_assigned, self._uses[text(name)])):
            return "unknown"
        if declarator.type != "variable_declarator":
            return declarator
        if declarator.child_by_field_name("name") != binders[0]:
            return "unknown"
        value = declarator.child_by_field_name("value")
        return "undefined" if value is None else self._resolved(value, steps - 1)


def _binder(use: Node) -> Node | None:
    """The declaration, pattern or parameter that binds this very identifier, if one does."""
    node: Node | None = use.parent
    while node is not None and node.type in (
        *("object_pattern", "array_pattern", "rest_pattern", "pair_pattern"),
        *("assignment_pattern", "object_assignment_pattern", "formal_parameters"),
    ):
        if node.type == "formal_parameters":
            return node
        node = node.parent
    if node is None:
        return None
    if node.type in ("required_parameter", "optional_parameter", "variable_declarator"):
        return node if use in binding_nodes(node) else None
    if node.type in ("function_declaration", "generator_function_declaration", "class_declaration"):
        return node if node.child_by_field_name("name") == use else None
    if node.type in ("arrow_function", "catch_clause"):
        return node if node.child_by_field_name("parameter") == use else None
    if node.type == "for_in_statement":
        return node if node.child_by_field_name("left") == use else None
    return None


def _is_assigned(use: Node) -> bool:
    parent = use.parent
    if parent is None:
        return False
    if parent.type in ("assignment_expression", "augmented_assignment_expression"):
        return parent.child_by_field_name("left") == use
    return parent.type in ("update_expression", "array_pattern", "object_pattern", "pair_pattern")
