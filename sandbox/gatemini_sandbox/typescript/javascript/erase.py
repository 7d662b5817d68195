"""Erase types: type-only code becomes blanks of the same length, so that positions stay.

What TypeScript emits code for (enums, namespaces, parameter properties) is written by the second parser (oxc.py);
imports, exports and the shape of the whole are in shape.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from tree_sitter import Node

from gatemini_sandbox.typescript.line_breaks import continues
from gatemini_sandbox.typescript.nodes import code_end, text
from gatemini_sandbox.typescript.parse import Parsed
from gatemini_sandbox.typescript.parse_deadline import check
from gatemini_sandbox.typescript.positions import Patch, SourceText
from gatemini_sandbox.typescript.syntax_error import SandboxSyntaxError

NEAR_BYTES = 4096
"""How far in front of an annotation a parenthesis is looked for."""

_STATEMENTS = frozenset(
    [
        "expression_statement",
        "lexical_declaration",
        "variable_declaration",
        "return_statement",
        "throw_statement",
        "public_field_definition",
        "export_statement",
    ]
)
_ERASED_MODIFIERS = frozenset(
    ["accessibility_modifier", "override_modifier", "readonly", "abstract", "declare"]
)
# With a name behind it on the same line; otherwise `accessor` is a name itself.
_ACCESSOR = re.compile(
    rb"(?:(?:static|public|private|protected|override|declare|readonly)\s+)*(accessor)[ \t]+[\w$#\[\"'\x80-\xff]"
)


class Eraser:
    """Walks the collected nodes once and notes the edits."""

    def __init__(self, parsed: Parsed, source: SourceText, patch: Patch) -> None:
        self._data = parsed.data
        self._source = source
        self._patch = patch
        self._gone_until = 0
        # The block and the first name of each namespace.
        self._namespaces: set[tuple[int, str]] = set()
        blank = self._blank
        remove = self._remove
        self._handlers: dict[str, Callable[[Node], None]] = {
            "type_annotation": self._annotation,
            "type_predicate_annotation": self._annotation,
            "asserts_annotation": self._annotation,
            "type_parameters": self._type_parameters,
            "type_arguments": blank,
            "implements_clause": blank,
            "hash_bang_line": blank,
            "definite": blank,
            "accessibility_modifier": self._modifier,
            "override_modifier": self._modifier,
            "interface_declaration": remove,
            "type_alias_declaration": remove,
            "ambient_declaration": remove,
            "function_signature": remove,
            "abstract_method_signature": self._signature,
            "method_signature": self._signature,
            "index_signature": self._signature,
            "public_field_definition": self._field,
            "abstract_class_declaration": self._abstract_class,
            "optional_parameter": self._optional_parameter,
            "this_parameter": self._this_parameter,
            "non_null_expression": self._non_null,
            "as_expression": self._as,
            "satisfies_expression": self._as,
            "internal_module": self._namespace,
            "module": self._namespace,
            "decorator": self._decorator,
            "using": self._using,
            "import": self._dynamic_import,
        }

    def run(self, nodes: list[tuple[str, Node]]) -> None:
        handlers = self._handlers
        for kind, node in nodes:
            check()
            if node.start_byte < self._gone_until:
                continue
            handler = handlers.get(kind)
            if handler is not None:
                handler(node)

    def error(
        self, node: Node, message: str, hint: str | None = None, at: int | None = None
    ) -> SandboxSyntaxError:
        line, column = self._source.position(node.start_byte if at is None else at)
        return SandboxSyntaxError(
            message,
            line=line,
            column=column,
            source_line=self._source.line(line),
            hint=hint,
            kind="unsupported",
        )

    def _blank(self, node: Node) -> None:
        self._patch.blank(node.start_byte, node.end_byte)

    def _remove(self, node: Node) -> None:
        """A whole statement or member goes; the semicolon keeps what is around it apart."""
        parent = node.parent
        if parent is not None and parent.type == "export_statement":
            node = parent
        self._patch.blank(node.start_byte, node.end_byte, b";")
        self._gone_until = node.end_byte

    def _namespace(self, node: Node) -> None:
        """OXC writes no namespace that exports what changes, and no name from one block of a namespace in another."""
        body, name = node.child_by_field_name("body"), node.child_by_field_name("name")
        first = "" if name is None else text(name).split(".")[0]
        scope = next((up.id for up in _around(node) if up.type in ("statement_block", "program")), 0)
        if (scope, first) in self._namespaces:
            message = f"the namespace {first} is declared in several blocks"
            raise self.error(node, message, "write it as one block, with dotted names as blocks inside it")
        self._namespaces.add((scope, first))
        for child in body.named_children if body is not None else ():
            declared = child.child_by_field_name("declaration") if child.type == "export_statement" else None
            if declared is not None and declared.children[0].type in ("let", "var"):
                raise self.error(
                    declared,
                    f"a namespace cannot export a variable (`export {text(declared.children[0])}`)",
                    "export a const, or functions that read and set the variable",
                )

    def _annotation(self, node: Node) -> None:
        start, end = node.start_byte, node.end_byte
        # A node finds its parent from the root on: that is looked up only where it can matter.
        parent = (
            node.parent if self._breaks_near(start, end) or continues(self._data, code_end(node)) else None
        )
        if parent is not None and parent.type == "arrow_function":
            parameters = parent.child_by_field_name("parameters")
            if parameters is not None and b"\n" in self._data[parameters.end_byte : end]:
                # No line break may be before `=>`: the closing parenthesis moves to the end of the type.
                close = parameters.end_byte - 1
                blanks = re.sub(rb"[^\n]", b" ", self._data[close : end - 1])
                self._patch.replace(close, end, blanks + b")")
                return
        lead = b""
        if parent is not None and parent.type in ("variable_declarator", "public_field_definition"):
            lead = self._separator(node)
        self._patch.blank(start, end, lead)

    def _breaks_near(self, start: int, end: int) -> bool:
        """Whether a line may break between the parenthesis in front of an annotation and its end."""
        close = self._data.rfind(b")", max(0, start - NEAR_BYTES), start)
        if close < 0:
            return start > NEAR_BYTES
        between = self._data[close + 1 : start].strip()
        if between:  # anything but a comment, and the parenthesis belongs to something else
            return between.startswith(b"/")
        return b"\n" in self._data[close:end]

    def _separator(self, node: Node) -> bytes:
        """A semicolon if the statement ends with this node and the next line could continue it."""
        end = code_end(node)
        if not continues(self._data, end):
            return b""
        current: Node | None = node
        while current is not None and code_end(current) == end:
            if current.type in _STATEMENTS:
                return b";"
            current = current.parent
        return b""

    def _type_parameters(self, node: Node) -> None:
        parent = node.parent
        if parent is not None and parent.type == "arrow_function":
            parameters = parent.child_by_field_name("parameters")
            if parameters is not None and b"\n" in self._data[node.start_byte : parameters.start_byte]:
                # `async` and `return` must see the parenthesis on their own line.
                end = parameters.start_byte + 1
                blanks = re.sub(rb"[^\n]", b" ", self._data[node.start_byte + 1 : end])
                self._patch.replace(node.start_byte, end, b"(" + blanks)
                return
        self._blank(node)

    def _modifier(self, node: Node) -> None:
        parent = node.parent
        lead = b""
        if parent is not None and parent.start_byte == node.start_byte:
            lead = self._member_separator(parent)
        self._patch.blank(node.start_byte, node.end_byte, lead)

    def _member_separator(self, member: Node) -> bytes:
        """`x = 1` newline `private [y] = 2`: without the modifier the bracket would index the 1."""
        if member.type not in ("method_definition", "public_field_definition"):
            return b""
        kept = next((child for child in member.children if child.type not in _ERASED_MODIFIERS), None)
        return b";" if kept is not None and kept.type in ("computed_property_name", "*") else b""

    def _signature(self, node: Node) -> None:
        parent = node.parent
        if parent is not None and parent.type == "class_body":
            self._patch.blank(node.start_byte, node.end_byte, b";")
            self._gone_until = node.end_byte

    def _field(self, node: Node) -> None:
        children = node.children
        kinds = {child.type for child in children}
        accessor = _ACCESSOR.match(self._data, node.start_byte)
        if accessor is not None:
            raise self.error(
                node,
                "`accessor` fields are not supported",
                "write a getter and a setter, or a plain field",
                accessor.start(1),
            )
        if "declare" in kinds or "abstract" in kinds:
            self._patch.blank(node.start_byte, node.end_byte, b";")
            self._gone_until = node.end_byte
            return
        for child in children:
            if child.type in ("readonly", "?", "!"):
                lead = self._member_separator(node) if child.start_byte == node.start_byte else b""
                if child.type != "readonly":
                    lead = self._separator(child)
                self._patch.blank(child.start_byte, child.end_byte, lead)

    def _abstract_class(self, node: Node) -> None:
        self._patch.blank(node.start_byte, node.start_byte + len(b"abstract"))

    def _optional_parameter(self, node: Node) -> None:
        for child in node.children:
            if child.type == "?":
                self._blank(child)

    def _this_parameter(self, node: Node) -> None:
        following = node.next_sibling
        while following is not None and following.type == "comment":
            following = following.next_sibling
        end = following.end_byte if following is not None and following.type == "," else node.end_byte
        self._patch.blank(node.start_byte, end)

    def _non_null(self, node: Node) -> None:
        self._patch.blank(node.end_byte - 1, node.end_byte)

    def _as(self, node: Node) -> None:
        operand = node.child(0)
        if operand is not None:
            self._patch.blank(operand.end_byte, node.end_byte, self._separator(node))

    def _using(self, node: Node) -> None:
        raise self.error(
            node, "`using` declarations are not supported", "use const and release in a finally block"
        )

    def _dynamic_import(self, node: Node) -> None:
        """`import("fs")`: a function of the guest's says what there is instead."""
        if node.parent is not None and node.parent.type == "call_expression":
            self._patch.replace(node.start_byte, node.end_byte, b"__import")

    def _decorator(self, node: Node) -> None:
        name = text(node).split("(")[0].strip()
        raise self.error(
            node,
            f"decorators are not supported ({name})",
            "call a function on the class or wrap the method instead",
        )


def _around(node: Node) -> Iterator[Node]:
    while node.parent is not None:
        node = node.parent
        yield node
