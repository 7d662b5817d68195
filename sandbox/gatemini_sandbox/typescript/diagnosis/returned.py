"""Find the expressions that may have given a program's value; needed only where that is undefined."""

from __future__ import annotations

from tree_sitter import Node

from gatemini_sandbox.typescript.bindings import FUNCTIONS
from gatemini_sandbox.typescript.diagnosis.known_values import Values
from gatemini_sandbox.typescript.nodes import text
from gatemini_sandbox.typescript.parse import parse
from gatemini_sandbox.typescript.positions import SourceText

_FUNCTIONS = FUNCTIONS | {"class_body"}
_AROUND = ("export_statement", "expression_statement", "parenthesized_expression", "program")
_LENGTH = 80

Given = tuple[int, int, str]
"""Line, column and text of an expression; no text for a `return` that is alone on its line."""


def returned(source: str) -> tuple[Given, ...]:
    """What the `return`s of the text give, or of its one function if it has none itself, or its last expression.

    Nothing where the code may have come to its end beside them, and none that is surely no undefined."""
    submitted = SourceText(source)
    root = parse(submitted.data).root
    values = Values(root)
    last = root.named_children[-1] if root.named_children else None
    ending = last.named_children[0] if last is not None and last.type == "expression_statement" else None
    found = _returns(root)
    if not found and (ending is None or not text(ending).startswith("void ")):
        functions = [node for node in _outside(root) if node.type in _FUNCTIONS and _is_main(node)]
        found = _returns(functions[0]) if len(functions) == 1 else []
    if not found and ending is not None:
        found = [ending]
    meant = [node for node in found if values.known(_value(node) or node) != "something"]
    if len(meant) == 1 and _is_passed_by(meant[0]):
        return ()
    given = []
    for node in meant:
        value = _value(node)
        line, column = submitted.position((value or node).start_byte)
        given.append((line, column, "" if value is None else " ".join(text(value).split())[:_LENGTH]))
    return tuple(given)


def _is_passed_by(statement: Node) -> bool:
    """Whether the code has ways past this statement: it is in a branch or a loop."""
    up = statement.parent if statement.type == "return_statement" else None
    while up is not None and up.type not in _FUNCTIONS:
        if up.type not in ("statement_block", "program", "try_statement", "export_statement"):
            return True
        up = up.parent
    return False


def _value(given: Node) -> Node | None:
    """What a `return` gives; an expression gives itself."""
    if given.type != "return_statement":
        return given
    return next((child for child in given.named_children if child.type != "comment"), None)


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
