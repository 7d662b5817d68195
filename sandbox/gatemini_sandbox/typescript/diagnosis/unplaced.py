"""Find the place of what fails without one: a deadlock, a thrown text, a wrong regular expression."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from gatemini_sandbox.typescript.bindings import FUNCTIONS, binding_nodes
from gatemini_sandbox.typescript.diagnosis.places import CALLS, first_argument, place_of
from gatemini_sandbox.typescript.nodes import descendants, text
from gatemini_sandbox.typescript.parse import parse_tree

_THROWN = re.compile(r" \(thrown as \w+, not as an Error\)$")


def find_unplaced(js: str, name: str, message: str) -> tuple[int, int] | None:
    """The 1-based line and byte column of what fails without a place: a deadlock, a thrown text, a wrong regex."""
    thrown = _THROWN.search(message)
    candidates: list[Node] = []
    if name == "DeadlockError":
        made = [
            node
            for node in _nodes(js)
            if node.type == "new_expression" and text(node.children[1]) == "Promise"
        ]
        candidates = [node for node in made if _never_settles(node)] or made
    elif thrown is not None:
        given = [(node, value) for node in _nodes(js) if (value := _thrown(node)) is not None]
        shown = message[: thrown.start()]
        literal = [node for node, value in given if text(value).strip("'\"`") == shown]
        candidates = literal or [node for node, value in given if value.type not in ("string", "number")]
    elif name == "SyntaxError":
        regexes = [node for node in _nodes(js) if node.type == "regex"]
        candidates = [node for node in regexes if not _is_pattern(node)][:1] or regexes[:1]
    return place_of(candidates[0]) if len(candidates) == 1 else None


def _nodes(js: str) -> Iterator[Node]:
    return descendants(parse_tree(js.encode("utf-8", "replace")).root_node)


def _thrown(node: Node) -> Node | None:
    """What a `throw`, or `Promise.reject`, gives that is surely no Error."""
    value: Node | None = None
    if node.type == "throw_statement" and node.named_children:
        value = node.named_children[0]
    elif node.type == "call_expression" and text(node.children[0]) in ("Promise.reject", "reject"):
        value = first_argument(node)
    return None if value is None or value.type in CALLS else value


def _never_settles(promise: Node) -> bool:
    """Whether the function given to `new Promise` does not use its parameters."""
    function = first_argument(promise)
    if function is None or function.type not in FUNCTIONS:
        return False
    parameters = function.child_by_field_name("parameters") or function.child_by_field_name("parameter")
    bound = (
        []
        if parameters is None
        else [name for child in parameters.named_children for name in binding_nodes(child)]
    )
    body = function.child_by_field_name("body")
    used = {text(node) for node in descendants(body) if node.type == "identifier"} if body else set()
    names = {text(name) for name in bound} or ({text(parameters)} if parameters is not None else set())
    return not names & used


def _is_pattern(regex: Node) -> bool:
    """Whether the literal is a valid pattern, as near as Python's own grammar of patterns comes."""
    pattern = regex.child_by_field_name("pattern")
    source = "" if pattern is None else text(pattern)
    try:
        re.compile(re.sub(r"\(\?<(?![=!])", "(?P<", source).replace("\\/", "/"))
    except (re.error, OverflowError):
        return False
    return True
