"""Which declaration each name in parsed code refers to, and what gives it its value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from tree_sitter import Node

from gatemini_sandbox.typescript.bindings import FUNCTIONS
from gatemini_sandbox.typescript.nodes import FUNCTION_DECLARATIONS, text, uncommented
from gatemini_sandbox.typescript.parse_deadline import check

SCOPES = FUNCTIONS | {
    "program",
    "statement_block",
    "for_statement",
    "for_in_statement",
    "catch_clause",
    "switch_body",
    "class_body",
}
_NAMED = frozenset(
    [
        *FUNCTION_DECLARATIONS,
        "class_declaration",
        "abstract_class_declaration",
        "enum_declaration",
        "internal_module",
    ]
)

Step = str | int
"""A key of an object pattern, or a place in an array pattern."""


@dataclass(frozen=True, slots=True)
class Giver:
    """What a name gets its value from: an expression, an item of one, a parameter, a function; then `steps` into it."""

    kind: Literal["value", "item", "parameter", "function", "unknown"]
    node: Node
    steps: tuple[Step, ...] = ()
    place: int = 0
    """Of a parameter."""


@dataclass(slots=True, eq=False)
class Binding:
    """One declared name. `has_default`: a default takes the place of undefined."""

    node: Node
    givers: list[Giver]
    has_default: bool = False
    uses: list[Node] = field(default_factory=list)
    changed: bool = False
    """Whether an operator such as `+=` changes it."""


class Scopes:
    """The names of one program."""

    def __init__(self, root: Node) -> None:
        self.by_use: dict[int, Binding] = {}
        """Node id of a name's use or declaration -> its binding."""
        self.nodes: dict[str, list[Node]] = {}
        """Nodes of the program by type, in the order of the text."""
        self._tables: dict[int, dict[str, Binding]] = {}
        uses: list[tuple[Node, tuple[Node, ...]]] = []
        assigned: list[tuple[Node, Giver, tuple[Node, ...]]] = []
        stack: list[tuple[Node, tuple[Node, ...]]] = [(root, ())]
        while stack:
            check()
            node, scopes = stack.pop()
            kind = node.type
            self.nodes.setdefault(kind, []).append(node)
            if kind in _NAMED and (name := node.child_by_field_name("name")) is not None:
                giver = Giver("function" if kind in FUNCTION_DECLARATIONS else "unknown", node)
                self._declare(scopes[-1], name, giver)
            if kind in SCOPES:
                scopes = (*scopes, node)
            if kind in ("identifier", "shorthand_property_identifier"):
                uses.append((node, scopes))
            else:
                self._declared(node, kind, scopes, assigned)
            stack.extend((child, scopes) for child in reversed(node.named_children))
        self._resolve(uses, assigned)

    def _declared(
        self,
        node: Node,
        kind: str,
        scopes: tuple[Node, ...],
        assigned: list[tuple[Node, Giver, tuple[Node, ...]]],
    ) -> None:
        field_of = node.child_by_field_name
        if kind == "variable_declarator":
            value, parent = field_of("value"), node.parent
            is_var = parent is not None and parent.type == "variable_declaration"
            scope = (
                next(s for s in reversed(scopes) if s.type in FUNCTIONS or s.type == "program")
                if is_var
                else scopes[-1]
            )
            giver = (
                Giver("unknown", node)
                if value is None and not _is_empty(node)
                else Giver("value", value or node)
            )
            self._pattern(scope, field_of("name"), giver)
        elif kind == "for_in_statement":
            left, right = field_of("left"), field_of("right")
            is_of = any(child.type == "of" for child in node.children)
            giver = Giver("item", right) if is_of and right is not None else Giver("unknown", node)
            if field_of("kind") is not None:
                self._pattern(node, left, giver)
            elif left is not None:
                assigned.extend((name, one, scopes) for name, one, _ in _names(left, giver))
        elif kind in FUNCTIONS:
            for place, parameter in enumerate(parameters(node)):
                self._pattern(node, parameter, Giver("parameter", node, (), place))
            name = field_of("name")
            if kind == "function_expression" and name is not None:
                self._declare(node, name, Giver("function", node))
        elif kind == "catch_clause":
            self._pattern(node, field_of("parameter"), Giver("unknown", node))
        elif kind in ("import_specifier", "import_clause", "namespace_import"):
            for child in node.named_children:
                if child.type == "identifier":
                    self._declare(scopes[-1], child, Giver("unknown", node))
        elif kind in ("assignment_expression", "augmented_assignment_expression", "update_expression"):
            left = field_of("left") or field_of("argument")
            right = field_of("right")
            giver = Giver("value", right) if kind[1] == "s" and right is not None else Giver("unknown", node)
            if left is not None:
                assigned.extend((name, one, scopes) for name, one, _ in _names(left, giver))

    def _pattern(self, scope: Node, pattern: Node | None, giver: Giver) -> None:
        if pattern is None:
            return
        for name, one, has_default in _names(pattern, giver):
            self._declare(scope, name, one, has_default)

    def _declare(self, scope: Node, name: Node, giver: Giver, has_default: bool = False) -> None:
        table = self._tables.setdefault(scope.id, {})
        known = table.get(text(name))
        if known is None:
            known = table[text(name)] = Binding(name, [giver], has_default)
        else:
            known.givers.append(giver)
        self.by_use[name.id] = known

    def _resolve(
        self, uses: list[tuple[Node, tuple[Node, ...]]], assigned: list[tuple[Node, Giver, tuple[Node, ...]]]
    ) -> None:
        for name, giver, scopes in assigned:
            binding = self._lookup(text(name), scopes)
            if binding is not None:
                binding.changed |= giver.kind == "unknown"
                binding.givers.append(giver)
        targets = {name.id for name, _, _ in assigned}
        for node, scopes in uses:
            if node.id in self.by_use:
                continue
            binding = self._lookup(text(node), scopes)
            if binding is not None:
                self.by_use[node.id] = binding
                if node.id not in targets:
                    binding.uses.append(node)

    def _lookup(self, name: str, scopes: tuple[Node, ...]) -> Binding | None:
        for scope in reversed(scopes):
            table = self._tables.get(scope.id)
            if table is not None and name in table:
                return table[name]
        return None


def parameters(function: Node) -> list[Node]:
    """The parameters of a function, each a name, a pattern or a node that holds one."""
    alone = function.child_by_field_name("parameter")
    if alone is not None:
        return [alone]
    listed = function.child_by_field_name("parameters")
    return [] if listed is None else uncommented(listed.named_children)


def _is_empty(declarator: Node) -> bool:
    """`let x;`, whose value comes later."""
    parent = declarator.parent
    return parent is not None and parent.type in ("lexical_declaration", "variable_declaration")


def _names(pattern: Node, giver: Giver, has_default: bool = False) -> Iterator[tuple[Node, Giver, bool]]:
    """The names a pattern binds, each with its own steps into the value."""
    kind = pattern.type
    if kind in ("identifier", "shorthand_property_identifier_pattern"):
        own = (text(pattern),) if kind[0] == "s" else ()
        yield pattern, _into(giver, own), has_default
        return
    if kind in ("required_parameter", "optional_parameter"):
        inner = pattern.child_by_field_name("pattern")
        has_default = pattern.child_by_field_name("value") is not None or kind[0] == "o"
        if inner is not None:
            yield from _names(inner, giver, has_default)
    elif kind in ("assignment_pattern", "object_assignment_pattern"):
        left = pattern.child_by_field_name("left")
        if left is not None:
            yield from _names(left, giver, True)
    elif kind == "object_pattern":
        for child in pattern.named_children:
            if child.type == "pair_pattern":
                key, value = child.child_by_field_name("key"), child.child_by_field_name("value")
                plain = key is not None and key.type == "property_identifier"
                if key is not None and value is not None:
                    yield from _names(value, _into(giver, (text(key),)) if plain else Giver("unknown", child))
            else:
                yield from _names(child, giver)
    elif kind == "array_pattern":
        place = 0
        for child in pattern.children:
            if child.type == ",":
                place += 1
            elif child.is_named:
                yield from _names(child, _into(giver, (place,)))
    elif kind == "rest_pattern":
        for child in pattern.named_children:
            yield from _names(child, Giver("unknown", pattern))


def _into(giver: Giver, steps: tuple[Step, ...]) -> Giver:
    return replace(giver, steps=(*giver.steps, *steps)) if steps else giver
