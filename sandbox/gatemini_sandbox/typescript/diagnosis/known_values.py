"""What the code itself says about an expression's value: surely something, null or undefined, or unknown.

A guess: what changes a variable's object later is not followed.
"""

from __future__ import annotations

from typing import Literal

from tree_sitter import Node

from gatemini_sandbox.typescript.bindings import declarations
from gatemini_sandbox.typescript.nodes import WRAPPERS, descendants, text

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
_ASSIGNING = {
    "assignment_expression": "left",
    "augmented_assignment_expression": "left",
    "update_expression": "argument",
}
# Steps from a name to what it was declared as, and on from there.
MOST_STEPS = 16


class Values:
    """Looks into one program."""

    def __init__(self, root: Node) -> None:
        self._declared = declarations(root)
        targets = (
            node.child_by_field_name(_ASSIGNING[node.type])
            for node in descendants(root)
            if node.type in _ASSIGNING
        )
        self._assigned = {text(target) for target in targets if target is not None}

    def known(self, expression: Node, steps: int = MOST_STEPS) -> Known:
        node = expression
        while node.type in WRAPPERS and node.named_child_count:
            node = node.named_children[0]
        name = text(node)
        if node.type == "null":
            return "null"
        if name == "undefined":
            return "undefined"
        if node.type != "identifier" or steps == 0:
            return "something" if node.type in _SOMETHING else "unknown"
        declared = self._declared.get(name, [])
        if not declared:
            return "something"  # a global
        if len(declared) > 1 or name in self._assigned:
            return "unknown"
        declarator = declared[0]
        bound = declarator.child_by_field_name("name")
        if declarator.type != "variable_declarator" or bound is None or bound.type != "identifier":
            return "something" if declarator.type in _SOMETHING else "unknown"
        value = declarator.child_by_field_name("value")
        return "undefined" if value is None else self.known(value, steps - 1)
