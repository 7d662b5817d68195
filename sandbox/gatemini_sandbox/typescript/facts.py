"""Gather what parsed code says of its use of backends: which are shadowed, what the guest must know at its start.

Where the parse cannot be sure the answer leans to the generous side: a catalog too many costs time, one too few gives
a wrong answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tree_sitter import Node

from gatemini_sandbox.typescript.nodes import WRAPPERS, arguments_of, text
from gatemini_sandbox.typescript.parse import Parsed
from gatemini_sandbox.typescript.parse_deadline import check
from gatemini_sandbox.typescript.positions import SourceText

_ROOTS = ("__backends", "globalThis")
_WORDS = ("__getToolInterface", "__interfaces", *_ROOTS)
# Ways to ask for a global that show no name.
_INDIRECT = ("globalThis", "eval", "Function")
_WORD = re.compile(rb"[A-Za-z_$\x80-\xff][\w$\x80-\xff]*")
_LONG_NUMBER = re.compile(
    rb"(?<![\w$.])(?:0[xX][\da-fA-F_]{14,400}|0[oObB][0-7_]{18,1100}|[1-9][\d_]{15,400})(?![\w$.])"
)


@dataclass
class Facts:
    needs_catalog: bool = False
    interface_literals: set[str] = field(default_factory=set)
    needs_interfaces: bool = False
    shadowed: dict[str, tuple[int, int]] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)
    rounded: list[tuple[int, int, str]] = field(default_factory=list)


def gather(
    parsed: Parsed, source: SourceText, backends: frozenset[str], watched: frozenset[str] = frozenset()
) -> Facts:
    """`watched` are names of which `read` tells whether the code reads them without ever asking what they are."""
    facts = Facts()
    asked: set[str] = set()
    words = {word.encode("utf-8", "replace") for word in (*_WORDS, *_INDIRECT, *backends, *watched)}
    root = parsed.root
    for match in _WORD.finditer(parsed.data):
        if match[0] not in words:
            continue
        check()
        node = root.descendant_for_byte_range(match.start(), match.end())
        if node is None or node.start_byte != match.start() or node.end_byte != match.end():
            continue
        if node.type in (
            "identifier",
            "shorthand_property_identifier",
            "shorthand_property_identifier_pattern",
        ):
            name = text(node)
            if name in watched or name in _INDIRECT:
                _read(node, name, facts.read, asked)
            if name in backends or name in _WORDS:
                _visit(node, name, facts, source)
    facts.rounded = _rounded(parsed, source)
    facts.read = set() if asked.intersection(_INDIRECT) else facts.read - asked
    return facts


def _read(node: Node, name: str, read: set[str], asked: set[str]) -> None:
    """`typeof x` asks whether there is an x, a declaration says there is; types are no reads."""
    parent = node.parent
    is_asked = (
        parent is not None and parent.type == "unary_expression" and parent.children[0].type == "typeof"
    )
    if name in _INDIRECT or is_asked or _is_declaration(node):
        asked.add(name)
    elif parent is None or parent.type != "type_query":
        read.add(name)


def _visit(node: Node, name: str, facts: Facts, source: SourceText) -> None:
    if name == "__interfaces":
        facts.needs_interfaces = True
        return
    if name == "__getToolInterface":
        _interface(node, facts)
        return
    if name not in _ROOTS and _is_declaration(node):
        facts.shadowed.setdefault(name, source.position(node.start_byte))
        return
    if not _is_tool_call(node, is_root=name in _ROOTS):
        # The object itself goes somewhere, where its keys may be listed.
        facts.needs_catalog = facts.needs_catalog or name != "globalThis" or _enumerated(node)


def _rounded(parsed: Parsed, source: SourceText) -> list[tuple[int, int, str]]:
    """Whole numbers beyond 2^53 that are no double: JavaScript silently takes the nearest one."""
    found = []
    for match in _LONG_NUMBER.finditer(parsed.data):
        check()
        node = parsed.root.descendant_for_byte_range(match.start(), match.end())
        if node is None or node.type != "number" or node.end_byte != match.end():
            continue
        if node.parent is not None and node.parent.type == "literal_type":
            continue
        exact = int(match[0], 0)
        if exact.bit_length() <= 1024 and int(float(exact)) != exact:
            found.append((*source.position(match.start()), match[0].decode()))
    return found


def _interface(node: Node, facts: Facts) -> None:
    call = node.parent
    if call is not None and call.type == "call_expression":
        values = arguments_of(call)
        if len(values) == 1 and values[0].type in ("string", "template_string"):
            parts = values[0].named_children
            if all(part.type == "string_fragment" for part in parts):
                facts.interface_literals.add("".join(text(part) for part in parts))
                return
    facts.needs_interfaces = True


def _is_declaration(node: Node) -> bool:
    if node.type == "shorthand_property_identifier_pattern":
        return True
    parent = node.parent
    if parent is None:
        return False
    if parent.type in (
        "variable_declarator",
        "function_declaration",
        "generator_function_declaration",
        "class_declaration",
        "enum_declaration",
    ):
        return parent.child_by_field_name("name") == node
    if parent.type in ("required_parameter", "optional_parameter"):
        return parent.child_by_field_name("pattern") == node
    if parent.type == "arrow_function":
        return parent.child_by_field_name("parameter") == node
    if parent.type == "pair_pattern":
        return parent.child_by_field_name("value") == node
    if parent.type == "catch_clause":
        return parent.child_by_field_name("parameter") == node
    return parent.type in ("array_pattern", "rest_pattern", "import_specifier", "import_clause")


def _is_tool_call(node: Node, is_root: bool) -> bool:
    """Whether this name begins a call `backend.tool(…)`, `backend["tool"](…)` or `backend.tool.raw(…)`.

    After `__backends` or `globalThis` one more step names the backend.
    """
    steps = 0
    current = node
    while (parent := current.parent) is not None:
        check()
        if (
            parent.type in ("member_expression", "subscript_expression")
            and parent.child_by_field_name("object") == current
        ):
            steps += 1
        elif parent.type == "call_expression" and parent.child_by_field_name("function") == current:
            return steps >= (2 if is_root else 1)
        elif parent.type not in WRAPPERS:
            return False
        current = parent
    return False


def _enumerated(node: Node) -> bool:
    """`globalThis` handed on whole or indexed and then handed on: only the latter can reach a backend's names."""
    parent = node.parent
    return parent is None or parent.type in ("subscript_expression", "arguments", "variable_declarator")
