"""Decide where the value of a submitted text comes from.

The text ends up as the body of one async function; this file decides, from the parse alone, what that body returns: an explicit return, the default export, the last expression, or the only
function. It also takes away imports and exports, which such a body cannot hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from tree_sitter import Node

from gatemini_sandbox.typescript.bindings import identifiers, value_names
from gatemini_sandbox.typescript.nodes import (
    ANY_FUNCTION,
    FUNCTION_DECLARATIONS,
    code_end,
    descendants,
    last_statement,
    text,
    with_functions,
)
from gatemini_sandbox.typescript.parse import Parsed
from gatemini_sandbox.typescript.positions import Patch, SourceText
from gatemini_sandbox.typescript.syntax_error import SandboxSyntaxError

Kind = Literal["statements", "expression", "function", "main", "module", "commonjs", "empty"]
"""statements: value by `return`, or none; expression: the last one; function: a lone function, called; main: a declared
one, called; module: the default export; commonjs: module.exports; empty: nothing to run."""

# Holds the default export of an anonymous function or an expression.
_DEFAULT = "__gatemini_default"
# Called by name when nothing else gives a value.
_ENTRY_NAMES = ("main", "run")
_FUNCTIONS = ("function_declaration", "function_expression", "arrow_function")
_TYPES = ("interface_declaration", "type_alias_declaration", "ambient_declaration", "function_signature")
_DECLARATIONS = frozenset(
    [
        "lexical_declaration",
        "variable_declaration",
        "class_declaration",
        "abstract_class_declaration",
        "import_statement",
        *_TYPES,
        *FUNCTION_DECLARATIONS,
    ]
)
_COMPOUND = (
    "if_statement",
    "else_clause",
    "statement_block",
    "try_statement",
    "for_statement",
    "for_in_statement",
)
_WITH_EFFECT = (
    "await_expression",
    "call_expression",
    "assignment_expression",
    "augmented_assignment_expression",
    "update_expression",
)


@dataclass
class Shape:
    """`prefix` and `suffix` go around the body, inside the async function."""

    kind: Kind = "statements"
    prefix: str = ""
    suffix: str = ""
    declared_never_called: str | None = None
    lost_value: tuple[int, int, str] | None = None


class Shaper:
    def __init__(self, parsed: Parsed, source: SourceText, patch: Patch, backends: frozenset[str]) -> None:
        self._parsed = parsed
        self._source = source
        self._patch = patch
        self._backends = backends
        self._shape = Shape()
        # The name of the default export.
        self._default: str | None = None
        self._default_class = False

    def run(self) -> Shape:
        statements = self._parsed.root.named_children
        for statement in statements:
            if statement.type == "import_statement":
                self._import(statement)
            elif statement.type == "export_statement":
                self._export(statement)
        self._choose(
            [node for node in statements if node.type not in ("comment", "html_comment", "hash_bang_line")]
        )
        return self._shape

    # --- imports and exports

    def _error(self, node: Node, message: str, hint: str) -> SandboxSyntaxError:
        line, column = self._source.position(node.start_byte)
        return SandboxSyntaxError(
            message, line=line, column=column, source_line=self._source.line(line), hint=hint, kind="module"
        )

    def _no_modules(self, node: Node, module: str) -> SandboxSyntaxError:
        backends = ", ".join(sorted(self._backends)) or "none"
        return self._error(
            node,
            f"cannot import {module}: this sandbox has no module system, no files and no packages",
            f"backends are globals, nothing to import; available: {backends}. `import type` is allowed.",
        )

    def _import(self, node: Node) -> None:
        kinds = [child.type for child in node.children]
        if "import_require_clause" in kinds:
            clause = node.named_children[0]
            if "type" in kinds:
                self._patch.blank(node.start_byte, node.end_byte, b";")
            else:
                equals = next(child for child in clause.children if child.type == "=")
                head = f"const {text(clause.named_children[0])}"
                self._patch.replace(node.start_byte, equals.start_byte, head.encode())
            return
        names = _imported(node)
        module = next((text(child) for child in node.named_children if child.type == "string"), "a module")
        if "type" not in kinds and not (names is not None and self._only_types(names)):
            raise self._no_modules(node, module)
        self._patch.blank(node.start_byte, node.end_byte, b";")

    def _only_types(self, names: list[str]) -> bool:
        """The compiler drops imports that only types use; one that nothing uses is more likely meant as a value."""
        if not names:
            return True
        as_values, as_types = self._used
        return not as_values.intersection(names) and not as_types.isdisjoint(names)

    @cached_property
    def _used(self) -> tuple[set[str], set[str]]:
        """The names used as values, and those used as types."""
        as_types = set()
        for node in descendants(self._parsed.root):
            if node.type == "type_identifier":
                as_types.add(text(node))
            elif node.type == "nested_type_identifier":
                as_types.add(text(node.named_children[0]))
        return value_names(self._parsed.root), as_types

    def _export(self, node: Node) -> None:
        kinds = [child.type for child in node.children]
        declaration = node.child_by_field_name("declaration")
        if "type" in kinds or text(node.children[1]) == "type" or kinds[1:3] == ["as", "namespace"]:
            self._patch.blank(node.start_byte, node.end_byte, b";")
        elif node.child_by_field_name("source") is not None:
            raise self._no_modules(node, text(node.child_by_field_name("source") or node))
        elif declaration is not None and declaration.type in _TYPES:
            return
        elif "default" in kinds or "=" in kinds:
            self._export_default(node)
        elif "export_clause" in kinds:
            for specifier in node.named_children[0].named_children:
                alias = specifier.child_by_field_name("alias")
                if alias is not None and text(alias) == "default":
                    self._default = text(specifier.named_children[0])
            self._patch.blank(node.start_byte, node.end_byte, b";")
        else:
            self._patch.blank(node.start_byte, node.start_byte + len(b"export"))

    def _export_default(self, node: Node) -> None:
        value = next((c for c in node.named_children if c.type not in ("comment", "decorator")), None)
        if value is None:
            return
        name = value.child_by_field_name("name")
        if (
            value.type in (*FUNCTION_DECLARATIONS, "class_declaration", "abstract_class_declaration")
            and name is not None
        ):
            self._patch.blank(node.start_byte, value.start_byte)
            self._default = text(name)
        else:
            self._patch.replace(node.start_byte, value.start_byte, f"{_DEFAULT}=".encode())
            self._patch.insert_after(code_end(node), b";")
            self._shape.prefix += f"let {_DEFAULT};"
            self._default = _DEFAULT
        self._default_class = "class" in value.type

    # --- the value

    def _choose(self, statements: list[Node]) -> None:
        shape = self._shape
        last = last_statement(self._parsed.root)
        trailing = _expression(last)
        if self._default is not None and not self._called_at_top(statements, self._default):
            shape.kind = "module"
            if not self._default_class:  # a class is neither a value nor called
                shape.suffix = f"\nreturn {_called(self._default)};"
            return
        if self._is_commonjs(statements):
            shape.kind = "commonjs"
            shape.prefix += "let module={exports:{}},exports=module.exports;"
            pick = "const{default:d,main:m,run:r}=Object(e),f=[e,d,m,r].find((x)=>typeof x==='function');"
            shape.suffix = f"\nreturn await(async(e)=>{{{pick}return f?f():e}})(module.exports);"
            return
        returns = self._returns()
        entry = None if returns else self._entry(statements, trailing)
        if entry is not None:
            shape.kind = "main"
            shape.suffix = f"\nreturn await {entry}();"
        elif trailing is not None:
            self._return_expression(trailing)
        elif not statements or all(node.type in ("empty_statement", *_TYPES) for node in statements):
            shape.kind = "empty"
        elif not returns and last is not None:
            shape.lost_value = self._lost(last)

    def _return_expression(self, expression: Node) -> None:
        function = _without_parentheses(expression)
        if function.type in ("arrow_function", "function_expression") and not _required_parameters(function):
            self._shape.kind = "function"
            self._patch.insert_before(expression.start_byte, b"return await(")
            self._patch.insert_after(code_end(expression), b")()")
            return
        self._shape.kind = "expression"
        self._patch.insert_before(expression.start_byte, b"return ")

    def _returns(self) -> bool:
        """Whether a `return` belongs to the text itself and not to a function in it."""
        return any(
            kind == "return_statement" and function is None
            for kind, _node, function in with_functions(self._parsed.nodes)
        )

    def _called_at_top(self, statements: list[Node], name: str) -> bool:
        """`main()` written out beside `export default … main`: it must not run twice."""
        return any(
            node.type == "call_expression" and text(node.children[0]) == name
            for statement in statements
            if statement.type in ("expression_statement", "lexical_declaration", "return_statement")
            for node in _outside_functions(statement)
        )

    def _is_commonjs(self, statements: list[Node]) -> bool:
        for statement in statements:
            expression = _expression(statement)
            while expression is not None and expression.type == "assignment_expression":
                left = expression.child_by_field_name("left")
                if left is not None and _is_exports(left):
                    declared = {text(node) for node in identifiers(self._parsed.root) if _declares(node)}
                    return not declared & {"module", "exports"}
                expression = expression.child_by_field_name("right")
        return False

    def _entry(self, statements: list[Node], trailing: Node | None) -> str | None:
        """The function to call because the text only declares it."""
        functions = _top_functions(statements)
        if not functions:
            return None
        uses: dict[str, list[int]] = {}
        for node in identifiers(self._parsed.root):
            uses.setdefault(text(node), []).append(node.start_byte)
        unused = {
            name: function
            for name, (function, declared) in functions.items()
            if all(declared.start_byte <= offset < declared.end_byte for offset in uses.get(name, ()))
        }
        if not unused:
            return None
        named = next((name for name in _ENTRY_NAMES if name in unused), None)
        chosen = named if named is not None else (next(iter(unused)) if len(unused) == 1 else None)
        if chosen is None:
            self._shape.declared_never_called = list(unused)[-1] if trailing is None else None
            return None
        others = [node for node in statements if _unwrapped(node).type not in _DECLARATIONS]
        after = trailing is not None and trailing.start_byte > unused[chosen].start_byte
        if after or (others and named is None) or _required_parameters(unused[chosen]):
            self._shape.declared_never_called = chosen
            return None
        return chosen

    def _lost(self, statement: Node) -> tuple[int, int, str] | None:
        """A value at the end that is not returned: of `if (x) { "yes" }` in its block, of `const total = …` in its name."""
        declared = _unwrapped(statement)
        if declared.type in ("lexical_declaration", "variable_declaration"):
            name = declared.named_children[-1].child_by_field_name("name")
            if name is None or name.type != "identifier":
                return None
            line, column = self._source.position(name.start_byte)
            return line, column, text(name)
        node: Node | None = statement
        while node is not None and node.type in _COMPOUND:
            node = next((c for c in reversed(node.named_children) if c.type != "comment"), None)
        expression = _expression(node)
        if node is statement or expression is None or expression.type in _WITH_EFFECT:
            return None
        line, column = self._source.position(expression.start_byte)
        return line, column, text(expression)


def _called(name: str) -> str:
    return f"await(typeof {name}==='function'?{name}():{name})"


def _unwrapped(statement: Node) -> Node:
    if statement.type == "export_statement":
        return statement.child_by_field_name("declaration") or statement
    return statement


def _expression(statement: Node | None) -> Node | None:
    """The expression of an expression statement."""
    if statement is None or statement.type != "expression_statement" or not statement.named_child_count:
        return None
    return next((child for child in statement.named_children if child.type != "comment"), None)


def _without_parentheses(node: Node) -> Node:
    while node.type == "parenthesized_expression":
        inner = next((child for child in node.named_children if child.type != "comment"), None)
        if inner is None:
            break
        node = inner
    return node


def _required_parameters(function: Node) -> bool:
    parameters = function.child_by_field_name("parameters")
    if parameters is None:
        return function.child_by_field_name("parameter") is not None
    return any(
        child.type == "required_parameter"
        and child.child_by_field_name("value") is None
        and (pattern := child.child_by_field_name("pattern")) is not None
        and pattern.type not in ("rest_pattern", "this")
        for child in parameters.named_children
    )


def _top_functions(statements: list[Node]) -> dict[str, tuple[Node, Node]]:
    """Name -> the function and what declares it, for what the text declares at its top level."""
    found: dict[str, tuple[Node, Node]] = {}
    for statement in statements:
        inner = _unwrapped(statement)
        if inner.type == "function_declaration":
            name = inner.child_by_field_name("name")
            if name is not None:
                found[text(name)] = inner, inner
        elif inner.type in ("lexical_declaration", "variable_declaration"):
            for declarator in inner.named_children:
                name, value = declarator.child_by_field_name("name"), declarator.child_by_field_name("value")
                if name is not None and value is not None and value.type in _FUNCTIONS:
                    found[text(name)] = value, declarator
    return found


def _outside_functions(node: Node) -> list[Node]:
    found, stack = [], [node]
    while stack:
        current = stack.pop()
        found.append(current)
        stack.extend(child for child in current.named_children if child.type not in ANY_FUNCTION)
    return found


def _is_exports(left: Node) -> bool:
    words = text(left).replace(" ", "")
    return words == "module.exports" or words.startswith(("module.exports.", "exports."))


def _declares(node: Node) -> bool:
    parent = node.parent
    return parent is not None and parent.child_by_field_name("name") == node


def _imported(node: Node) -> list[str] | None:
    """Local names an import binds as possible values; None for an import for its effects."""
    clause = next((child for child in node.named_children if child.type == "import_clause"), None)
    if clause is None:
        return None
    names = []
    for child in clause.named_children:
        if child.type == "identifier":
            names.append(text(child))
        elif child.type == "namespace_import":
            names.append(text(child.named_children[0]))
        else:
            for specifier in child.named_children:
                if specifier.type == "import_specifier" and specifier.children[0].type != "type":
                    names.append(text(specifier.named_children[-1]))
    return names
