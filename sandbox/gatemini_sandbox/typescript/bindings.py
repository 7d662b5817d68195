"""Names in parsed code: what a declaration binds, and which names are used as values."""

from __future__ import annotations

from tree_sitter import Node, Query, QueryCursor

from gatemini_sandbox.typescript.nodes import FUNCTION_DECLARATIONS, descendants, text
from gatemini_sandbox.typescript.parse import LANGUAGE

CLASSES = ("class_declaration", "abstract_class_declaration")
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
NAMESPACES = ("internal_module", "module")


def binding_names(node: Node) -> list[str]:
    """Names bound by a declarator, a pattern or a parameter; default values bind nothing."""
    return [text(name) for name in binding_nodes(node)]


def binding_nodes(node: Node) -> list[Node]:
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
    *CLASSES,
    *NAMESPACES[:1],
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
    """Names that are used as values: not in types, not where an import or an alias declares them."""
    found = set()
    for node in identifiers(root):
        parent = node.parent
        if parent is not None and parent.type in _NOT_VALUES:
            continue
        if parent is not None and parent.type == "import_alias" and parent.named_child(0) == node:
            continue
        if parent is not None and parent.type in ("member_expression", "nested_identifier"):
            top = parent
            while top.parent is not None and top.parent.type == top.type:
                top = top.parent
            if top.parent is not None and top.parent.type in _NOT_VALUES:
                continue
        found.add(text(node))
    return found


def unwrapped(statement: Node) -> Node:
    while statement.type in ("export_statement", "expression_statement") and statement.named_child_count:
        statement = statement.named_children[-1]
    return statement


def declared_names(statement: Node) -> list[str]:
    """Names a statement declares as values."""
    inner = unwrapped(statement)
    if inner.type in ("lexical_declaration", "variable_declaration"):
        return [name for child in inner.named_children for name in binding_names(child)]
    if inner.type in (*CLASSES, *FUNCTION_DECLARATIONS, "enum_declaration", *NAMESPACES):
        name = inner.child_by_field_name("name")
        return [text(name).split(".")[0]] if name is not None else []
    if inner.type == "import_alias":
        return [text(inner.named_children[0])]
    return []


def bound_inside(node: Node, name: str, top: Node, known: dict[int, frozenset[str]]) -> bool:
    """Whether something between `top` and the use of the name at `node` declares it anew: a parameter, a variable of
    a block, the binding of a loop or a catch clause. `known` keeps what each of them declares."""
    scope = node.parent
    while scope is not None and scope != top:
        if scope.id not in known:
            known[scope.id] = frozenset(_declared_by(scope))
        if name in known[scope.id]:
            return True
        scope = scope.parent
    return False


def _declared_by(scope: Node) -> list[str]:
    kind = scope.type
    if kind == "statement_block":
        return [name for statement in scope.named_children for name in declared_names(statement)]
    if kind == "for_in_statement":
        left = scope.child_by_field_name("left")
        return binding_names(left) if left is not None and scope.child_by_field_name("kind") else []
    if kind == "for_statement":
        first = scope.child_by_field_name("initializer")
        return declared_names(first) if first is not None else []
    if kind == "catch_clause":
        caught = scope.child_by_field_name("parameter")
        return binding_names(caught) if caught is not None else []
    parameters, only = scope.child_by_field_name("parameters"), scope.child_by_field_name("parameter")
    if parameters is not None:
        return [name for child in parameters.named_children for name in binding_names(child)]
    return binding_names(only) if only is not None else []
