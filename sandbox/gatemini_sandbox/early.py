"""Where the early errors stand that only the engine finds: it names the rule, and the place some tokens later.

QuickJS reports a broken rule where it has read on to, often a line further, and on the first line at its beginning. The
rule tells which node breaks it: the first one that does is meant, since the engine stops there. Runs only when a chain
has failed. Above: steps.py. Below: names.py, tree-sitter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from tree_sitter import Node, Parser

from gatemini_sandbox.names import FUNCTIONS, binding_nodes
from gatemini_sandbox.parse import LANGUAGE, descendants, text

_GENERATORS: Final = ("generator_function", "generator_function_declaration")
_LOOPS: Final = ("for_statement", "for_in_statement", "while_statement", "do_statement")
_SINGLE: Final = (*_LOOPS, "if_statement", "else_clause", "labeled_statement", "with_statement")
_DECLARED: Final = ("function_declaration", "generator_function_declaration", "class_declaration")
_TARGETS: Final = (
    "identifier",
    "member_expression",
    "subscript_expression",
    "object_pattern",
    "array_pattern",
    "parenthesized_expression",
)
_RESERVED: Final = frozenset(
    word
    for line in (
        "await break case catch class const continue debugger default delete do else enum export extends false finally",
        "for function if implements import in instanceof interface let new null package private protected public return",
        "static super switch this throw true try typeof var void while with yield",
    )
    for word in line.split()
)

Broken = Callable[[Node], Node | None]
"""Of a node that breaks the rule, the part to point at."""


def find_early(js: str, message: str, line: int, byte_column: int) -> tuple[int, int]:
    """The 1-based line and byte column of what breaks the rule of the message; of a rule that is not known the beginning
    of the statement the engine had come to."""
    root = Parser(LANGUAGE).parse(js.encode("utf-8", "replace")).root_node
    broken = next((rule for words, rule in _RULES if message.startswith(words)), None)
    if broken is not None:
        found = next((part for node in descendants(root) if (part := broken(node)) is not None), None)
    else:
        found = _declared_twice(root) if message.startswith("invalid redefinition") else None
    found = found or (_statement(root, line - 1, byte_column - 2) if line > 1 else None)
    return (line, byte_column) if found is None else (found.start_point[0] + 1, found.start_point[1] + 1)


def _statement(root: Node, row: int, column: int) -> Node | None:
    """The innermost statement that holds what the engine read last."""
    node = root.descendant_for_point_range((row, max(column, 0)), (row, max(column, 0)))
    while node is not None and not node.type.endswith(("_statement", "_declaration")):
        node = node.parent
    return node if node is not None and node.start_point[0] > 0 else None


def _around(node: Node, *, through_arrows: bool = False) -> Iterator[Node]:
    """What stands around a node, out to the function it belongs to, that function included."""
    up = node.parent
    while up is not None:
        yield up
        if up.type in FUNCTIONS and not (through_arrows and up.type == "arrow_function"):
            return
        up = up.parent


def _no_value(node: Node) -> Node | None:
    declared = node.type == "variable_declarator" and node.child_by_field_name("value") is None
    if not declared or node.parent is None or node.parent.type != "lexical_declaration":
        return None
    name = node.child_by_field_name("name")
    return name if node.parent.children[0].type == "const" or (name and name.type != "identifier") else None


def _reserved_name(node: Node) -> Node | None:
    names = binding_nodes(node) if node.type == "variable_declarator" else []
    return next((name for name in names if text(name) in _RESERVED), None) or _no_value(node)


def _protected_name(node: Node) -> Node | None:
    target = node.child_by_field_name("left") or node.child_by_field_name("argument")
    changes = node.type in ("assignment_expression", "augmented_assignment_expression", "update_expression")
    return target if changes and target is not None and text(target) in ("eval", "arguments") else None


def _no_target(node: Node) -> Node | None:
    if node.type not in ("assignment_expression", "augmented_assignment_expression", "update_expression"):
        return None
    target = node.child_by_field_name("left") or node.child_by_field_name("argument")
    if target is None or (target.type in _TARGETS and not _is_optional(target)):
        return None
    return target


def _is_optional(node: Node) -> bool:
    inner: Node | None = node
    while inner is not None and inner.type in (
        "member_expression",
        "subscript_expression",
        "call_expression",
    ):
        if any(child.type == "optional_chain" for child in inner.children):
            return True
        inner = inner.child_by_field_name("object") or inner.child_by_field_name("function")
    return False


def _deleted_name(node: Node) -> Node | None:
    given = node.child_by_field_name("argument") if node.type == "unary_expression" else None
    return (
        given
        if given is not None and text(node.children[0]) == "delete" and given.type == "identifier"
        else None
    )


def _octal(node: Node) -> Node | None:
    return node if node.type == "number" and re.match(r"0[0-9]", text(node)) else None


def _octal_escape(node: Node) -> Node | None:
    return node if node.type == "escape_sequence" and re.match(r"\\(?:[1-9]|0[0-9])", text(node)) else None


def _yielded(node: Node) -> Node | None:
    if text(node) != "yield" or node.child_count:
        return None
    function = next((up for up in _around(node) if up.type in FUNCTIONS), None)
    if function is not None and (
        function.type in _GENERATORS or any(c.type == "*" for c in function.children)
    ):
        return None
    return node


def _super_member(node: Node) -> Node | None:
    inside = any(
        up.type in ("method_definition", "public_field_definition", "field_definition", "class_static_block")
        for up in _around(node, through_arrows=True)
    )
    return node if node.type == "super" and not inside else None


def _super_call(node: Node) -> Node | None:
    if node.type != "super" or node.parent is None or node.parent.type != "call_expression":
        return None
    method = next((up for up in _around(node, through_arrows=True) if up.type == "method_definition"), None)
    name = None if method is None else method.child_by_field_name("name")
    body = None if method is None else method.parent
    of_class = None if body is None else body.parent
    if name is not None and text(name) == "constructor" and of_class is not None:
        return None if any(child.type == "class_heritage" for child in of_class.children) else node
    return node


def _jump(kind: str) -> Broken:
    ends = (*_LOOPS, "switch_statement") if kind == "break_statement" else _LOOPS

    def broken(node: Node) -> Node | None:
        if node.type != kind or node.named_child_count:
            return None
        return None if any(up.type in ends for up in _around(node)) else node

    return broken


def _lost_label(node: Node) -> Node | None:
    if node.type not in ("break_statement", "continue_statement") or not node.named_child_count:
        return None
    label = node.named_children[0]
    labels = (up.child_by_field_name("label") for up in _around(node) if up.type == "labeled_statement")
    return None if any(found is not None and text(found) == text(label) for found in labels) else label


def _label_twice(node: Node) -> Node | None:
    label = node.child_by_field_name("label") if node.type == "labeled_statement" else None
    if label is None:
        return None
    outer = (up.child_by_field_name("label") for up in _around(node) if up.type == "labeled_statement")
    return label if any(found is not None and text(found) == text(label) for found in outer) else None


def _parameter_twice(node: Node) -> Node | None:
    seen: set[str] = set()
    for name in _parameters(node) if node.type in FUNCTIONS else []:
        if text(name) in seen:
            return name
        seen.add(text(name))
    return None


def _parameters(function: Node) -> list[Node]:
    several, one = function.child_by_field_name("parameters"), function.child_by_field_name("parameter")
    given = several.named_children if several is not None else [] if one is None else [one]
    return [name for child in given for name in binding_nodes(child)]


def _no_handler(node: Node) -> Node | None:
    complete = node.child_by_field_name("handler") or node.child_by_field_name("finalizer")
    return node if node.type == "try_statement" and complete is None else None


def _no_name(node: Node) -> Node | None:
    if node.type not in ("function_expression", "generator_function") or node.parent is None:
        return None
    return (
        node if node.parent.type == "expression_statement" and not node.child_by_field_name("name") else None
    )


def _constructor_twice(node: Node) -> Node | None:
    made = [
        name
        for child in (node.named_children if node.type == "class_body" else [])
        if child.type == "method_definition" and (name := child.child_by_field_name("name")) is not None
        if text(name) == "constructor"
    ]
    return made[1] if len(made) > 1 else None


def _thrown_below(node: Node) -> Node | None:
    broken = node.type == "throw_statement" and node.child_count > 1
    return node if broken and node.children[1].start_point[0] > node.start_point[0] else None


def _declared_alone(node: Node) -> Node | None:
    if node.type not in ("lexical_declaration", *_DECLARED) or node.parent is None:
        return None
    if node.parent.type not in _SINGLE or node == node.parent.child_by_field_name("initializer"):
        return None
    return node


def _second_default(node: Node) -> Node | None:
    defaults = [child for child in node.named_children if child.type == "switch_default"]
    return defaults[1] if node.type == "switch_body" and len(defaults) > 1 else None


def _powered(node: Node) -> Node | None:
    operator, left = node.child_by_field_name("operator"), node.child_by_field_name("left")
    broken = node.type == "binary_expression" and operator is not None and operator.type == "**"
    return left if broken and left is not None and left.type == "unary_expression" else None


def _not_ended(node: Node) -> Node | None:
    """What the engine can only take for a statement whose end is missing: `=> { a: 1, b: 2 }` and `a ?? b || c`."""
    if node.type == "arrow_function":
        body = node.child_by_field_name("body")
        return body if body is not None and body.type == "object" else None
    operator = node.child_by_field_name("operator")
    if node.type != "binary_expression" or operator is None or operator.type not in ("??", "||", "&&"):
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
    """The second declaration of a name in one scope; a `var` counts in each scope it passes on its way up."""
    lexical, others = dict[int, set[str]](), dict[int, set[str]]()
    for node in descendants(root):
        for name, scopes, is_lexical in _declarations(node):
            word = text(name)
            if any(word in lexical.get(scope, ()) for scope in scopes):
                return name
            if is_lexical and word in others.get(scopes[0], ()):
                return name
            for scope in scopes:
                (lexical if is_lexical else others).setdefault(scope, set()).add(word)
    return None


def _declarations(node: Node) -> list[tuple[Node, list[int], bool]]:
    """What a node declares, in which scopes, and whether nothing else there may have the name."""
    body = node.child_by_field_name("body")
    if body is not None and (node.type in FUNCTIONS or node.type == "catch_clause"):
        caught = node.child_by_field_name("parameter") if node.type == "catch_clause" else None
        taken = _parameters(node) if caught is None else binding_nodes(caught)
        inside = [(name, [body.id], False) for name in taken]
        return inside if node.type not in _DECLARED else [*inside, *_named(node)]
    kind = node.child_by_field_name("kind") if node.type == "for_in_statement" else None
    if kind is not None and (left := node.child_by_field_name("left")) is not None:
        scopes = [node.id, *_scopes(node)] if kind.type == "var" else [node.id]
        return [(name, scopes, kind.type != "var") for name in binding_nodes(left)]
    if node.type in ("lexical_declaration", "variable_declaration"):
        is_lexical = node.type == "lexical_declaration"
        scopes = _scopes(node)[: 1 if is_lexical else None]
        names = [name for child in node.named_children for name in binding_nodes(child)]
        return [(name, scopes, is_lexical) for name in names]
    return _named(node) if node.type == "class_declaration" else []


def _named(node: Node) -> list[tuple[Node, list[int], bool]]:
    """The name of a class or function. In a function's own body functions may share theirs, also with a `var`."""
    name, block = node.child_by_field_name("name"), node.parent
    shares = node.type != "class_declaration" and (
        block is None or block.parent is None or block.parent.type in FUNCTIONS
    )
    return [] if name is None else [(name, _scopes(node)[:1], not shares)]


def _scopes(node: Node) -> list[int]:
    """The scopes around a declaration, from its own out to its function's."""
    blocks = ("statement_block", "switch_body", "program", "class_static_block", *_LOOPS)
    return [up.id for up in _around(node) if up.type in blocks]


def _whole(kind: str) -> Broken:
    return lambda node: node if node.type == kind else None


_RULES: Final[tuple[tuple[str, Broken], ...]] = (
    ("missing initializer for variable", _no_value),
    ("variable name expected", _reserved_name),
    ("invalid destructuring target", _reserved_name),
    ("invalid lvalue in strict mode", _protected_name),
    ("invalid assignment left-hand side", _no_target),
    ("invalid increment/decrement operand", _no_target),
    ("cannot delete a direct reference", _deleted_name),
    ("Octal literals", _octal),
    ("Octal escape sequences", _octal_escape),
    ("invalid keyword: with", _whole("with_statement")),
    ("unexpected 'yield' keyword", _yielded),
    ("'super' is only valid", _super_member),
    ("super() is only valid", _super_call),
    ("break must be inside", _jump("break_statement")),
    ("continue must be inside", _jump("continue_statement")),
    ("break/continue label not found", _lost_label),
    ("duplicate label name", _label_twice),
    ("Duplicate parameter name", _parameter_twice),
    ("expecting catch or finally", _no_handler),
    ("function name expected", _no_name),
    ("property constructor appears more than once", _constructor_twice),
    ("line terminator not allowed after throw", _thrown_below),
    ("lexical declarations can't appear", _declared_alone),
    ("class declarations can't appear", _declared_alone),
    ("function declarations can't appear", _declared_alone),
    ("duplicate default", _second_default),
    ("unparenthesized unary expression", _powered),
    ("import.meta only valid", _whole("meta_property")),
    ("unsupported keyword: export", _whole("export_statement")),
    ("expecting ';'", _not_ended),
    ("cannot mix ??", _not_ended),
)
