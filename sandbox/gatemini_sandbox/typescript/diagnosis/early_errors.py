"""Find the place of a syntax error that only the engine finds: it names the rule, and a place some tokens later.

QuickJS reports a broken rule at the token it has read on to, often a line further, and on the first line at its
beginning. The rule says which nodes break it; the engine stops at the first one. Rules that agents' code seldom breaks
have no entry: the statement the engine had come to is shown. Runs only when a chain has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from tree_sitter import Node

from gatemini_sandbox.typescript.bindings import FUNCTIONS, binding_nodes
from gatemini_sandbox.typescript.nodes import FUNCTION_DECLARATIONS, text
from gatemini_sandbox.typescript.parse import parse_tree
from gatemini_sandbox.typescript.parse_deadline import check

_LOOPS: Final = ("for_statement", "for_in_statement", "while_statement", "do_statement")
_BLOCKS: Final = ("statement_block", "switch_body", "program", *_LOOPS)
_FUNCTIONS: Final = FUNCTIONS | {"class_static_block"}

Broken = Callable[[Node, list[Node]], Node | None]
"""Of a node that breaks the rule, the part to point at. It is called for every node, with those around it, outermost first:
`Node.parent` looks for the parent from the root, and deep code has many nodes deep down."""


def find_early(js: str, message: str, line: int, byte_column: int) -> tuple[int, int]:
    """The 1-based line and byte column of what breaks the rule of the message; of a rule that is not known the beginning
    of the statement the engine had come to."""
    root = parse_tree(js.encode("utf-8", "replace")).root_node
    broken = next((rule for words, rule in _RULES if message.startswith(words)), None)
    if broken is not None:
        found = next((part for node in _walk(root) if (part := broken(*node)) is not None), None)
    else:
        found = _declared_twice(root) if message.startswith("invalid redefinition") else None
    found = found or (_statement(root, line - 1, byte_column - 2) if line > 1 else None)
    return (line, byte_column) if found is None else (found.start_point[0] + 1, found.start_point[1] + 1)


def _walk(root: Node) -> Iterator[tuple[Node, list[Node]]]:
    """Every node in the order of the text, with those around it, outermost first."""
    above: list[Node] = []
    waiting = [(root, 0)]
    while waiting:
        check()
        node, depth = waiting.pop()
        del above[depth:]
        yield node, above
        above.append(node)
        waiting.extend((child, depth + 1) for child in reversed(node.children))


def _statement(root: Node, row: int, column: int) -> Node | None:
    """The innermost statement that holds what the engine read last."""
    read = root.descendant_for_point_range((row, max(column, 0)), (row, max(column, 0)))
    around = next(([*above, node] for node, above in _walk(root) if node == read), [])
    held = (node for node in reversed(around) if node.type.endswith(("_statement", "_declaration")))
    node = next(held, None)
    return node if node is not None and node.start_point[0] > 0 else None


def _around(above: list[Node]) -> Iterator[Node]:
    """The nodes around one, out to the function it belongs to, that function included."""
    for up in reversed(above):
        check()
        yield up
        if up.type in _FUNCTIONS:
            return


def _no_value(node: Node, above: list[Node]) -> Node | None:
    if node.type != "variable_declarator" or above[-1].type != "lexical_declaration":
        return None
    if node.child_by_field_name("value") or above[-1].children[0].type != "const":
        return None
    return node.child_by_field_name("name")


def _jump(kind: str) -> Broken:
    ends = (*_LOOPS, "switch_statement") if kind == "break_statement" else _LOOPS

    def broken(node: Node, above: list[Node]) -> Node | None:
        if node.type != kind or node.named_child_count:
            return None
        return None if any(up.type in ends for up in _around(above)) else node

    return broken


def _not_ended(node: Node, above: list[Node]) -> Node | None:
    """What the engine can only take for a statement whose end is missing: `=> { a: 1, b: 2 }` and `a ?? b || c`."""
    if node.type == "arrow_function":
        body = node.child_by_field_name("body")
        return body if body is not None and body.type == "object" else None
    operator = node.child_by_field_name("operator") if node.type == "binary_expression" else None
    if operator is None or operator.type not in ("??", "||", "&&"):
        return None
    for side in (node.child_by_field_name("left"), node.child_by_field_name("right")):
        inner = (
            None if side is None or side.type != "binary_expression" else side.child_by_field_name("operator")
        )
        if (
            inner is not None
            and inner.type in ("??", "||", "&&")
            and "??" in (inner.type, operator.type)
            and inner.type != operator.type
        ):
            return operator
    return None


def _declared_twice(root: Node) -> Node | None:
    """The second declaration of a name in one block, where one of the two allows no other."""
    seen: dict[tuple[int, str], bool] = {}
    for node, above in _walk(root):
        for name, is_lexical, block in _declarations(node, above):
            key = block.id, text(name)
            if key in seen and (is_lexical or seen[key]):
                return name
            seen[key] = is_lexical or seen.get(key, False)
    return None


def _declarations(node: Node, above: list[Node]) -> list[tuple[Node, bool, Node]]:
    """What a node declares, whether `let`, `const` or a class, and in which block."""
    if node.type in FUNCTIONS or node.type == "catch_clause":
        body = node.child_by_field_name("body")
        inside = [] if body is None else [(name, False, body) for name in _parameters(node)]
        name = node.child_by_field_name("name") if node.type in FUNCTION_DECLARATIONS else None
        return inside if name is None else [*inside, (name, False, _block(above))]
    if node.type == "for_in_statement":
        kind, left = node.child_by_field_name("kind"), node.child_by_field_name("left")
        is_new = kind is not None and left is not None and kind.type != "var"
        return [(name, True, node) for name in binding_nodes(left)] if is_new and left is not None else []
    if node.type in ("lexical_declaration", "variable_declaration"):
        is_lexical, block = node.type == "lexical_declaration", _block(above)
        return [(name, is_lexical, block) for child in node.named_children for name in binding_nodes(child)]
    name = node.child_by_field_name("name") if node.type == "class_declaration" else None
    return [] if name is None else [(name, True, _block(above))]


def _block(above: list[Node]) -> Node:
    """The block around a node, out to that of its function."""
    return next((up for up in _around(above) if up.type in _BLOCKS), above[0])


def _parameters(function: Node) -> list[Node]:
    several, one = function.child_by_field_name("parameters"), function.child_by_field_name("parameter")
    given = several.named_children if several is not None else [] if one is None else [one]
    return [name for child in given for name in binding_nodes(child)]


_RULES: Final[tuple[tuple[str, Broken], ...]] = (
    ("missing initializer for variable", _no_value),
    ("break must be inside", _jump("break_statement")),
    ("continue must be inside", _jump("continue_statement")),
    ("expecting ';'", _not_ended),
    ("cannot mix ??", _not_ended),
)
