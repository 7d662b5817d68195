"""Find the line breaks at which TypeScript ends a statement and the grammar of the parser does not."""

from __future__ import annotations

import re

from tree_sitter import Node

from gatemini_sandbox.typescript.nodes import code_end, descendants, last_statement
from gatemini_sandbox.typescript.parse_deadline import check

# White space and comments, taken whole: possessive, since comments upon comments would else be tried in every split.
TRIVIA = rb"(?:\s|//[^\n]*+|/\*(?:[^*]|\*(?!/)|(?!))*+\*/|(?!))*+"
_BETWEEN = re.compile(TRIVIA)
# What could continue the statement above it, had the type between them not ended that statement.
_CONTINUING = frozenset(b"([`+-*/,.<>=&|^?%")

# A line whose first token could begin a value and could as well go on with the line above. A sign with a space behind
# it is meant as an operator.
_GLUING_LINE = re.compile(rb"\n[ \t]*((?:[(\[`]|[+-](?![\s+=-])|/(?![\s/*=])))")
_GLUED = ("call_expression", "subscript_expression", "binary_expression")
# What may be between such a token and its statement: expressions that end where the statement ends.
_SPINE = frozenset(
    [
        *_GLUED,
        "member_expression",
        "variable_declarator",
        "lexical_declaration",
        "variable_declaration",
        "assignment_expression",
        "augmented_assignment_expression",
        "await_expression",
        "unary_expression",
        "ternary_expression",
        "arrow_function",
        "as_expression",
        "satisfies_expression",
        "non_null_expression",
        "expression_statement",
        "return_statement",
        "export_statement",
    ]
)


def continues(data: bytes, end: int) -> bool:
    """Whether the next token is on another line and could go on with what ends here."""
    between = _BETWEEN.match(data, end)
    if between is None or b"\n" not in between[0]:
        return False
    return between.end() < len(data) and data[between.end()] in _CONTINUING


def missing_breaks(data: bytes, nodes: list[tuple[str, Node]]) -> set[tuple[int, int]]:
    """The gaps (start, end) in which TypeScript ends a statement and the grammar does not."""
    gaps = set()
    for kind, node in nodes:
        check()
        if kind in ("lookup_type", "array_type"):
            # `T` newline `[`: TypeScript never continues a type over a line break.
            first = node.child(0)
            bracket = node.child(1)
            if first is not None and bracket is not None and bracket.type == "[":
                gap = first.end_byte, bracket.start_byte
                if b"\n" in data[gap[0] : gap[1]]:
                    gaps.add(gap)
        elif kind == "type_query":
            # `typeof x` newline `(`: the grammar takes calls for part of the query.
            inside = _gap_in_query(data, node)
            if inside is not None:
                gaps.add(inside)
        elif kind in ("as_expression", "satisfies_expression"):
            # `a as T` newline `(`: not callable without parentheses, so a new statement begins.
            parent = node.parent if continues(data, code_end(node)) else None
            if parent is not None and parent.type in ("call_expression", "subscript_expression"):
                following = parent.child(1)
                if following is not None and following.start_byte >= node.end_byte:
                    gap = node.end_byte, following.start_byte
                    if b"\n" in data[gap[0] : gap[1]]:
                        gaps.add(gap)
    return gaps


def _gap_in_query(data: bytes, query: Node) -> tuple[int, int] | None:
    end = query.start_byte
    for node in descendants(query) if b"\n" in data[query.start_byte : query.end_byte] else ():
        if node.child_count or node.type == "comment":
            continue
        if node.type in ("(", "[", "`") and b"\n" in data[end : node.start_byte]:
            return end, node.start_byte
        end = node.end_byte
    return None


def glued_tail(data: bytes, root: Node) -> set[tuple[int, int]]:
    """The line that begins a value of its own but would be read as the next part of the statement above it.

    JavaScript glues `(`, `[`, a template, a regex or a sign to the line before; a value on a line of its own, not
    indented, is meant as a statement. Only the last statement gives a value, so only that is looked at.
    """
    last = last_statement(root)
    if last is None:
        return set()
    indent = _column(data, last.start_byte)
    for line in _GLUING_LINE.finditer(data, last.start_byte, last.end_byte):
        start = line.start(1)
        head = _glued_to(last, start) if _column(data, start) <= indent else None
        if head is not None:
            return {(head.end_byte, start)}
    return set()


def _glued_to(last: Node, start: int) -> Node | None:
    """What the token at `start` goes on with, if that is the last statement's own expression and not in brackets."""
    # From the statement down: a node finds its parent from the root on, which makes every way up a long one.
    spine = [last]
    cursor = last.walk()
    while spine[-1].start_byte < start:
        if cursor.goto_first_child_for_byte(start) is None or cursor.node is None:
            return None
        spine.append(cursor.node)
    part = spine.pop()
    if part.start_byte != start or not spine:
        return None
    whole = spine[-1]
    if whole.type not in _GLUED or whole.child_count < 2:
        return None
    if part.type == "optional_chain" or whole.children[1].type == "optional_chain":
        return None
    if any(up.type not in _SPINE for up in spine[1:]):
        return None
    return whole.children[0]


def _column(data: bytes, offset: int) -> int:
    return offset - (data.rfind(b"\n", 0, offset) + 1)
