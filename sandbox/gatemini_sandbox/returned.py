"""Which expressions may have given a program's value: asked for only when that value is undefined.

Above: wrap.py. Below: parse.py.
"""

from __future__ import annotations

from tree_sitter import Node

from gatemini_sandbox.parse import parse, text
from gatemini_sandbox.positions import SourceText

_FUNCTIONS = (
    "function_declaration",
    "function_expression",
    "arrow_function",
    "method_definition",
    "generator_function",
    "generator_function_declaration",
    "class_body",
)
_AROUND = ("export_statement", "expression_statement", "parenthesized_expression", "program")
_LENGTH = 80

Given = tuple[int, int, str]
"""Line, column and text of an expression; no text for a `return` that stands alone on its line."""


def returned(source: str) -> tuple[Given, ...]:
    """What the `return`s of the text give, or of its one function if it has none itself, or its last expression."""
    submitted = SourceText(source)
    root = parse(submitted.data).root
    found = _returns(root)
    if not found:
        functions = [node for node in _outside(root) if node.type in _FUNCTIONS and _is_main(node)]
        found = _returns(functions[0]) if len(functions) == 1 else []
    if not found and root.named_children and root.named_children[-1].type == "expression_statement":
        found = [root.named_children[-1].named_children[0]]
    given = []
    for node in found:
        value = node if node.type != "return_statement" else _value(node)
        line, column = submitted.position((value or node).start_byte)
        given.append((line, column, "" if value is None else " ".join(text(value).split())[:_LENGTH]))
    return tuple(given)


def _value(statement: Node) -> Node | None:
    return next((child for child in statement.named_children if child.type != "comment"), None)


def _returns(function: Node) -> list[Node]:
    return [node for node in _outside(function) if node.type == "return_statement"]


def _outside(function: Node) -> list[Node]:
    """The nodes of a function or program without the insides of the functions in it."""
    found, stack = [], list(reversed(function.children))
    while stack:
        node = stack.pop()
        found.append(node)
        if node.type not in _FUNCTIONS:
            stack.extend(reversed(node.children))
    return found


def _is_main(function: Node) -> bool:
    parent = function.parent
    return parent is not None and parent.type in _AROUND


__all__ = ["Given", "returned"]
