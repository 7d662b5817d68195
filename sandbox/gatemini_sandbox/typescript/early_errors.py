"""Where the early errors stand that only the engine finds: it names the rule, and the place some tokens later.

QuickJS reports a broken rule where it has read on to, often a line further, and on the first line at its beginning. The
rule tells which node breaks it: the first one that does is meant, since the engine stops there. Runs only when a chain
has failed. Above: steps.py. Below: names.py, patience.py, tree-sitter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from tree_sitter import Node

from gatemini_sandbox.patience import check
from gatemini_sandbox.typescript.bindings import FUNCTIONS, binding_nodes
from gatemini_sandbox.typescript.parse import parse_tree, text

_GENERATORS: Final = ("generator_function", "generator_function_declaration")
_LOOPS: Final = ("for_statement", "for_in_statement", "while_statement", "do_statement")
_BLOCKS: Final = ("statement_block", "switch_body", "program", *_LOOPS)
_FUNCTIONS: Final = FUNCTIONS | {"class_static_block"}
_SINGLE: Final = (*_LOOPS, "if_statement", "else_clause", "labeled_statement", "with_statement")
_DECLARED: Final = ("function_declaration", "generator_function_declaration", "class_declaration")
_WITH_SUPER: Final = (
    "method_definition",
    "public_field_definition",
    "field_definition",
    "class_static_block",
)
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

Broken = Callable[[Node, list[Node]], Node | None]
"""Of a node that breaks the rule, the part to point at. Asked of every node, with those it stands in, outermost first:
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
    """Every node in the order of the text, with those it stands in, outermost first."""
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


def _around(above: list[Node], *, through_arrows: bool = False) -> Iterator[Node]:
    """What stands around a node, out to the function it belongs to, that function included."""
    for up in reversed(above):
        check()
        yield up
        if up.type in _FUNCTIONS and not (through_arrows and up.type == "arrow_function"):
            return


def _no_value(node: Node, above: list[Node]) -> Node | None:
    if node.type != "variable_declarator" or above[-1].type != "lexical_declaration":
        return None
    name = None if node.child_by_field_name("value") else node.child_by_field_name("name")
    return name if above[-1].children[0].type == "const" or (name and name.type != "identifier") else None


def _reserved_name(node: Node, above: list[Node]) -> Node | None:
    names = binding_nodes(node) if node.type == "variable_declarator" else []
    return next((name for name in names if text(name) in _RESERVED), None) or _no_value(node, above)


def _protected_name(node: Node, above: list[Node]) -> Node | None:
    target = _changed(node)
    is_name = target is not None and target.type == "identifier"
    return target if is_name and target is not None and text(target) in ("eval", "arguments") else None


def _no_target(node: Node, above: list[Node]) -> Node | None:
    target = _changed(node)
    if target is None or (target.type in _TARGETS and not _is_optional(target)):
        return None
    return target


def _changed(node: Node) -> Node | None:
    """What gets another value in `a = 1`, `a += 1` and `a++`."""
    if node.type not in ("assignment_expression", "augmented_assignment_expression", "update_expression"):
        return None
    return node.child_by_field_name("left") or node.child_by_field_name("argument")


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


def _deleted_name(node: Node, above: list[Node]) -> Node | None:
    given = node.child_by_field_name("argument") if node.type == "unary_expression" else None
    return (
        given
        if given is not None and text(node.children[0]) == "delete" and given.type == "identifier"
        else None
    )


def _octal(node: Node, above: list[Node]) -> Node | None:
    return node if node.type == "number" and re.match(r"0[0-9]", text(node)) else None


def _octal_escape(node: Node, above: list[Node]) -> Node | None:
    return node if node.type == "escape_sequence" and re.match(r"\\(?:[1-9]|0[0-9])", text(node)) else None


def _yielded(node: Node, above: list[Node]) -> Node | None:
    if node.child_count or node.end_byte - node.start_byte != len("yield") or text(node) != "yield":
        return None
    function = next((up for up in _around(above) if up.type in _FUNCTIONS), None)
    if function is not None and (
        function.type in _GENERATORS or any(c.type == "*" for c in function.children)
    ):
        return None
    return node


def _super_member(node: Node, above: list[Node]) -> Node | None:
    if node.type != "super":
        return None
    around = _around(above, through_arrows=True)
    return None if any(up.type in _WITH_SUPER for up in around) else node


def _super_call(node: Node, above: list[Node]) -> Node | None:
    if node.type != "super" or above[-1].type != "call_expression":
        return None
    around = list(_around(above, through_arrows=True))
    name = around[-1].child_by_field_name("name") if around[-1].type == "method_definition" else None
    if name is None or text(name) != "constructor":
        return node
    of_class = above[-len(around) - 2]  # around the method is the class's body
    return None if any(child.type == "class_heritage" for child in of_class.children) else node


def _jump(kind: str) -> Broken:
    ends = (*_LOOPS, "switch_statement") if kind == "break_statement" else _LOOPS

    def broken(node: Node, above: list[Node]) -> Node | None:
        if node.type != kind or node.named_child_count:
            return None
        return None if any(up.type in ends for up in _around(above)) else node

    return broken


def _lost_label(node: Node, above: list[Node]) -> Node | None:
    if node.type not in ("break_statement", "continue_statement") or not node.named_child_count:
        return None
    label = node.named_children[0]
    labels = (up.child_by_field_name("label") for up in _around(above) if up.type == "labeled_statement")
    return None if any(found is not None and text(found) == text(label) for found in labels) else label


def _label_twice(node: Node, above: list[Node]) -> Node | None:
    label = node.child_by_field_name("label") if node.type == "labeled_statement" else None
    if label is None:
        return None
    outer = (up.child_by_field_name("label") for up in _around(above) if up.type == "labeled_statement")
    return label if any(found is not None and text(found) == text(label) for found in outer) else None


def _parameter_twice(node: Node, above: list[Node]) -> Node | None:
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


def _no_handler(node: Node, above: list[Node]) -> Node | None:
    if node.type != "try_statement":
        return None
    complete = node.child_by_field_name("handler") or node.child_by_field_name("finalizer")
    return node if complete is None else None


def _no_name(node: Node, above: list[Node]) -> Node | None:
    if node.type not in ("function_expression", "generator_function"):
        return None
    begins = above[-1].type == "expression_statement"
    return node if begins and not node.child_by_field_name("name") else None


def _constructor_twice(node: Node, above: list[Node]) -> Node | None:
    made = [
        name
        for child in (node.named_children if node.type == "class_body" else [])
        if child.type == "method_definition" and (name := child.child_by_field_name("name")) is not None
        if text(name) == "constructor"
    ]
    return made[1] if len(made) > 1 else None


def _thrown_below(node: Node, above: list[Node]) -> Node | None:
    broken = node.type == "throw_statement" and node.child_count > 1
    return node if broken and node.children[1].start_point[0] > node.start_point[0] else None


def _declared_alone(node: Node, above: list[Node]) -> Node | None:
    if node.type not in ("lexical_declaration", *_DECLARED) or above[-1].type not in _SINGLE:
        return None
    return None if node == above[-1].child_by_field_name("initializer") else node


def _second_default(node: Node, above: list[Node]) -> Node | None:
    cases = node.named_children if node.type == "switch_body" else []
    defaults = [child for child in cases if child.type == "switch_default"]
    return defaults[1] if len(defaults) > 1 else None


def _powered(node: Node, above: list[Node]) -> Node | None:
    if node.type != "binary_expression":
        return None
    operator, left = node.child_by_field_name("operator"), node.child_by_field_name("left")
    powers = operator is not None and operator.type == "**"
    return left if powers and left is not None and left.type == "unary_expression" else None


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
    """The second declaration of a name in one scope; a `var` counts in each scope it passes on its way up."""
    lexical, others = set[tuple[int, str]](), set[tuple[int, str]]()
    last_var = dict[tuple[int, str], int]()  # of a function and a name: one that stands in a scope passes it
    for node, above in _walk(root):
        for name, kind, own in _declarations(node, above):
            word, function = text(name), next((up for up in _around(above) if up.type in _FUNCTIONS), root)
            scopes = [own, *_scopes(above)] if kind == "var" else [own]
            if any((scope.id, word) in lexical for scope in scopes):
                return name
            if kind == "lexical" and (own.id, word) in others:
                return name
            if kind == "lexical" and last_var.get((function.id, word), -1) >= own.start_byte:
                return name
            if kind == "var":
                last_var[function.id, word] = name.start_byte
            else:
                (lexical if kind == "lexical" else others).add((own.id, word))
    return None


def _declarations(node: Node, above: list[Node]) -> list[tuple[Node, str, Node]]:
    """What a node declares, how (`var`; `lexical`, beside nothing else of that name; `shared`), in which scope."""
    if node.type in FUNCTIONS or node.type == "catch_clause":
        body = node.child_by_field_name("body")
        caught = node.child_by_field_name("parameter") if node.type == "catch_clause" else None
        taken = _parameters(node) if caught is None else binding_nodes(caught)
        inside = [] if body is None else [(name, "shared", body) for name in taken]
        return inside if node.type not in _DECLARED else [*inside, *_named(node, above)]
    if node.type == "for_in_statement":
        kind, left = node.child_by_field_name("kind"), node.child_by_field_name("left")
        if kind is None or left is None:
            return []
        return [(name, "var" if kind.type == "var" else "lexical", node) for name in binding_nodes(left)]
    if node.type in ("lexical_declaration", "variable_declaration"):
        how, own = "var" if node.type == "variable_declaration" else "lexical", _own(above)
        return [(name, how, own) for child in node.named_children for name in binding_nodes(child)]
    return _named(node, above) if node.type == "class_declaration" else []


def _named(node: Node, above: list[Node]) -> list[tuple[Node, str, Node]]:
    """The name of a class or function. In a function's own body functions may share theirs, also with a `var`."""
    name = node.child_by_field_name("name")
    shares = node.type != "class_declaration" and (len(above) < 2 or above[-2].type in _FUNCTIONS)
    return [] if name is None else [(name, "shared" if shares else "lexical", _own(above))]


def _scopes(above: list[Node]) -> Iterator[Node]:
    """The scopes around a declaration, from its own out to its function's."""
    return (up for up in _around(above) if up.type in _BLOCKS)


def _own(above: list[Node]) -> Node:
    return next(_scopes(above), above[0])


def _whole(kind: str) -> Broken:
    return lambda node, _above: node if node.type == kind else None


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
