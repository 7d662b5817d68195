"""Names in parsed code: what a declaration binds, and which names are used as values."""

from __future__ import annotations

from tree_sitter import Node, Query, QueryCursor

from gatemini_sandbox.typescript.nodes import FUNCTION_DECLARATIONS, descendants, text
from gatemini_sandbox.typescript.parse import LANGUAGE

FUNCTIONS = frozenset(
    {
        "function_expression",
        "function_declaration",
        "arrow_function",
        "method_definition",
        "generator_function",
        "generator_function_declaration",
    }
)


def binding_nodes(node: Node) -> list[Node]:
    """The names bound by a declarator, a pattern or a parameter; default values bind nothing."""
    kind = node.type
    if kind in ("identifier", "shorthand_property_identifier_pattern"):
        return [node]
    if kind == "variable_declarator":
        children = [node.child_by_field_name("name")]
    elif kind in ("required_parameter", "optional_parameter"):
        children = [node.child_by_field_name("pattern")]
    elif kind in ("assignment_pattern", "object_assignment_pattern"):
        children = [node.child_by_field_name("left")]
    elif kind == "pair_pattern":
        children = [node.child_by_field_name("value")]
    elif kind in ("object_pattern", "array_pattern", "rest_pattern"):
        children = list(node.named_children)
    else:
        return []
    return [name for child in children if child is not None for name in binding_nodes(child)]


_BINDERS = ("variable_declarator", "required_parameter", "optional_parameter", "rest_pattern")
_NAMED = (
    *FUNCTION_DECLARATIONS,
    "class_declaration",
    "abstract_class_declaration",
    "internal_module",
    "function_expression",
    "class",
    "enum_declaration",
)
_IMPORTS = ("import_specifier", "import_clause", "namespace_import")
_FIELDS = {"arrow_function": "parameter", "catch_clause": "parameter", "for_in_statement": "left"}


def declarations(root: Node) -> dict[str, list[Node]]:
    """Name -> the nodes that declare it, anywhere in the code."""
    found: dict[str, list[Node]] = {}
    for node in descendants(root):
        bound: list[Node] = []
        if node.type in _BINDERS:
            bound = binding_nodes(node)
        elif node.type in _NAMED:
            bound = [node.child_by_field_name("name") or node]
        elif node.type in _FIELDS:
            inner = node.child_by_field_name(_FIELDS[node.type])
            bound = [] if inner is None else binding_nodes(inner)
        elif node.type in _IMPORTS:
            bound = [child for child in node.named_children if child.type == "identifier"]
        for name in bound:
            found.setdefault(text(name), []).append(node)
    return found


_IDENTIFIERS = Query(LANGUAGE, "[(identifier) (shorthand_property_identifier)] @name")
_NOT_VALUES = (
    "nested_type_identifier",
    "type_query",
    "import_specifier",
    "import_clause",
    "namespace_import",
)


def identifiers(root: Node) -> list[Node]:
    """All names of variables, declared or used."""
    return QueryCursor(_IDENTIFIERS).captures(root).get("name", [])


def value_names(root: Node) -> set[str]:
    """Names that are used as values: not in types, not where an import declares them."""
    return {
        text(node)
        for node in identifiers(root)
        if node.parent is not None and node.parent.type not in _NOT_VALUES
    }
