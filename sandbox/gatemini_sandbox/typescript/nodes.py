"""Walk the nodes of parsed code, and read their text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tree_sitter import Node

from gatemini_sandbox.typescript.parse_deadline import check

FUNCTION_DECLARATIONS = ("function_declaration", "generator_function_declaration")
ANY_FUNCTION = frozenset(
    [
        *FUNCTION_DECLARATIONS,
        "function_expression",
        "arrow_function",
        "method_definition",
        "generator_function",
        "class_static_block",
    ]
)
WRAPPERS = ("parenthesized_expression", "as_expression", "satisfies_expression", "non_null_expression")
"""Around an expression, without changing its value."""
TEXTUAL = frozenset(["string_fragment", "string", "template_string", "regex_pattern", "escape_sequence"])


def text(node: Node) -> str:
    raw = node.text
    return raw.decode("utf-8", "replace") if raw else ""


def uncommented(nodes: Iterable[Node]) -> list[Node]:
    """The nodes without comments, which the grammar puts between any others."""
    return [node for node in nodes if node.type != "comment"]


def arguments_of(call: Node) -> list[Node]:
    """The arguments of a call; none where the node has no list of them."""
    listed = call.child_by_field_name("arguments")
    return [] if listed is None else uncommented(listed.named_children)


def is_async(function: Node) -> bool:
    return any(child.type == "async" for child in function.children)


def code_end(node: Node) -> int:
    """Where the node's last token ends; the grammar may count a comment behind it to the node."""
    while True:
        inner = next(
            (c for c in reversed(node.children) if c.type != "comment" and c.end_byte > c.start_byte), None
        )
        if inner is None:
            return node.end_byte
        node = inner


def last_statement(root: Node) -> Node | None:
    """The last top-level node that is neither a comment nor an empty statement nor a declared function."""
    for node in reversed(root.named_children):
        if node.type not in ("comment", "html_comment", "empty_statement", *FUNCTION_DECLARATIONS):
            return node
    return None


def with_functions(nodes: list[tuple[str, Node]]) -> Iterator[tuple[str, Node, Node | None]]:
    """The collected nodes, each with the innermost function around it; one sweep, however deep the code."""
    open_functions: list[Node] = []
    for kind, node in nodes:
        check()
        while open_functions and open_functions[-1].end_byte <= node.start_byte:
            open_functions.pop()
        yield kind, node, open_functions[-1] if open_functions else None
        if kind == "function":
            open_functions.append(node)


def descendants(node: Node) -> Iterator[Node]:
    """The node and everything below it, in the order of the text, without recursion."""
    stack = [node]
    while stack:
        check()
        current = stack.pop()
        yield current
        stack.extend(reversed(current.children))
