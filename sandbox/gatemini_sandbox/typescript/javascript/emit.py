"""Write the JavaScript of TypeScript that has code: enums, namespaces and import aliases.

The code is written in place, on the lines of the construct, so that expressions inside it keep their positions. The
result is what the
TypeScript compiler emits for ES2022 (fields are defined, not assigned), with two shortcuts that show only to code that
reassigns an exported `const` from outside: exported names of a namespace stay local bindings beside their property.
"""

from __future__ import annotations

import json
from functools import cached_property

from tree_sitter import Node

from gatemini_sandbox.typescript.bindings import (
    CLASSES,
    NAMESPACES,
    bound_inside,
    declared_names,
    unwrapped,
    value_names,
)
from gatemini_sandbox.typescript.nodes import FUNCTION_DECLARATIONS, code_end, descendants, text
from gatemini_sandbox.typescript.parse import Parsed
from gatemini_sandbox.typescript.positions import Patch

_TYPE_ONLY = frozenset(
    [
        "interface_declaration",
        "type_alias_declaration",
        "ambient_declaration",
        "function_signature",
        "comment",
    ]
)
_CONSTANT = frozenset(
    [
        "number",
        "string",
        "string_fragment",
        "escape_sequence",
        "template_string",
        "template_substitution",
        "unary_expression",
        "binary_expression",
        "parenthesized_expression",
        "identifier",
        "member_expression",
        "property_identifier",
    ]
)


class Emitter:
    """Notes the edits for one text; nodes come outermost first."""

    def __init__(self, parsed: Parsed, patch: Patch) -> None:
        self._parsed = parsed
        self._data = parsed.data
        self._patch = patch
        # Members of enums by enum name: later declarations of the same enum may use them unqualified.
        self._members: dict[str, set[str]] = {}
        # What each scope declares, by its node.
        self._scopes: dict[int, frozenset[str]] = {}
        # Constant enums that were moved up: only they have their values before their place in the text.
        self._hoisted: set[str] = set()
        # Start of a namespace's body -> (name of its object inside it, dotted path).
        self._bodies: dict[int, tuple[str, str]] = {}
        # Dotted path -> names exported so far: later blocks of the same namespace may use them unqualified.
        self._exports: dict[str, set[str]] = {}
        self._declared_here: set[tuple[int, str]] = set()
        # Start of a block -> where each class and function in it is first declared.
        self._merging: dict[int, dict[str, int]] = {}

    # --- enums

    def enumeration(self, node: Node) -> bool:
        """True when nothing of the declaration is left in place (a constant one was moved up)."""
        name_node, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name_node is None or body is None:
            return False
        statement = _statement(node)
        if node.children[0].type == "const" and self.hoisted_enum(node, statement):
            return True
        name = text(name_node)
        members = self._members.setdefault(name, set())
        head = f"{self._declaration(statement, name)}(function({name}){{"
        self._patch.replace(node.start_byte, body.start_byte + 1, head.encode())
        previous: str | int | None = -1
        for member in body.named_children:
            previous = self._member(member, name, members, previous)
        for child in body.children:
            if child.type == ",":
                self._patch.blank(child.start_byte, child.end_byte)
        self._close(body, f"}})({self._target(statement, name)});")
        return False

    def _member(
        self, member: Node, enum: str, members: set[str], previous: str | int | None
    ) -> str | int | None:
        """Write one member; gives what the next one without a value counts from (a number or a key)."""
        if member.type == "comment":
            return previous
        name_node = member.child(0) if member.type == "enum_assignment" else member
        value = member.named_children[-1] if member.type == "enum_assignment" else None
        if name_node is None:
            return previous
        key = _key(name_node)
        if value is None:
            number = _next(enum, previous)
            self._patch.replace(
                member.start_byte, member.end_byte, f"{enum}[{enum}[{key}]={number}]={key};".encode()
            )
            members.add(text(name_node))
            return previous + 1 if isinstance(previous, int) else key
        if value.type in ("string", "template_string"):
            before, after = f"{enum}[{key}]=", ";"
        elif _integer(value) is not None:
            before, after = f"{enum}[{enum}[{key}]=", f"]={key};"
        else:
            # Only the value tells: numbers get the way back from value to name, strings do not.
            before = f"typeof({enum}[{key}]=("
            after = f'))=="string"||({enum}[{enum}[{key}]]={key});'
        self._patch.replace(name_node.start_byte, value.start_byte, before.encode())
        self._qualify(value, members, enum)
        self._patch.insert_after(code_end(value), after.encode())
        members.add(text(name_node))
        number_value = _integer(value)
        return number_value if number_value is not None else key

    def hoisted_enum(self, node: Node, statement: Node) -> bool:
        """A `const enum` of constants is usable above its declaration: write it at the top of its block."""
        name_node, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        block = statement.parent
        if name_node is None or body is None or block is None:
            return False
        if block.type not in ("program", "statement_block") or self._owner(statement) is not None:
            return False
        name = text(name_node)
        known = set(self._members.get(name, ()))
        pieces: list[str] = []
        previous: str | int | None = -1
        for member in body.named_children:
            if member.type == "comment":
                continue
            assigned = member.type == "enum_assignment"
            name_of = member.children[0] if assigned else member
            key = _key(name_of)
            if assigned:
                value = member.named_children[-1]
                constant = self._constant(value, known, name)
                if constant is None:
                    return False
                integer = _integer(value)
                previous = integer if integer is not None else key
                pieces.append(f'typeof({name}[{key}]=({constant}))=="string"||({name}[{name}[{key}]]={key});')
            else:
                pieces.append(f"{name}[{name}[{key}]={_next(name, previous)}]={key};")
                previous = previous + 1 if isinstance(previous, int) else key
            known.add(text(name_of))
        self._members[name] = known
        self._hoisted.add(name)
        code = f"{self._declaration(statement, name)}(function({name}){{{''.join(pieces)}}})({name}||({name}={{}}));"
        if block.type == "program":
            self._patch.insert_before(0, code.encode())
        else:
            self._patch.insert_after(block.start_byte + 1, code.encode())
        self._patch.blank(statement.start_byte, statement.end_byte, b";")
        return True

    def _constant(self, value: Node, members: set[str], enum: str) -> str | None:
        """The value as one line of code if it depends on nothing that runs, else None."""
        edits = Patch(self._data[value.start_byte : value.end_byte].replace(b"\n", b" "))
        for node in descendants(value):
            if node.is_named and node.type not in _CONSTANT:
                return None
            if node.type == "identifier":
                name = text(node)
                if name in members:
                    edits.insert_before(node.start_byte - value.start_byte, f"{enum}.".encode())
                elif name != enum and name not in self._hoisted:
                    return None
        return edits.apply().data.decode("utf-8", "replace")

    def _qualify(self, value: Node, names: set[str], owner: str) -> None:
        """Plain uses of `names` inside a value become members of `owner`."""
        for node in descendants(value):
            if node.type not in ("identifier", "shorthand_property_identifier"):
                continue
            name = text(node)
            if name not in names or bound_inside(node, name, value, self._scopes):
                continue
            shorthand = f"{name}:" if node.type == "shorthand_property_identifier" else ""
            self._patch.insert_before(node.start_byte, f"{shorthand}{owner}.".encode())

    # --- namespaces

    def namespace(self, node: Node) -> int | None:
        """The end of the removed text when the namespace holds only types, else None."""
        name_node, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        statement = _statement(node)
        if name_node is None or body is None or not _instantiated(node):
            self._patch.blank(statement.start_byte, statement.end_byte, b";")
            return statement.end_byte
        parts = [
            text(part)
            for part in descendants(name_node)
            if part.type in ("identifier", "property_identifier")
        ]
        taken = {name for child in body.named_children for name in declared_names(child)}
        owner = self._owner(statement)
        path = f"{owner[1]}.{parts[0]}" if owner else parts[0]
        objects = [f"{part}_1" if part in taken else part for part in parts]
        head = f"{self._declaration(statement, parts[0])}(function({objects[0]}){{"
        tail = ""
        for above, part, local in zip(objects, parts[1:], objects[1:], strict=False):
            head += f"let {part};(function({local}){{"
            tail = f"}})({part}={above}.{part}||({above}.{part}={{}}));" + tail
            self._exports.setdefault(path, set()).add(part)
            path = f"{path}.{part}"
        tail += f"}})({self._target(statement, parts[0])});"
        self._patch.replace(node.start_byte, body.start_byte + 1, head.encode())
        self._bodies[body.start_byte] = objects[-1], path
        self._merge(body, path, objects, taken)
        for child in body.named_children:
            if child.type == "export_statement":
                self._export(child, objects[-1], path)
        self._close(body, tail)
        return None

    def _merge(self, body: Node, path: str, objects: list[str], declared: set[str]) -> None:
        """Names that earlier blocks of this namespace exported are seen in this block too."""
        known = self._exports.setdefault(path, set())
        if known - declared:
            self._qualify(body, known - declared, objects[-1])

    def _export(self, statement: Node, owner: str, path: str) -> None:
        declaration = statement.child_by_field_name("declaration") or statement.named_children[-1]
        inner = declaration.named_child(0) if declaration.type == "expression_statement" else declaration
        if inner is None or inner.type in _TYPE_ONLY:
            return
        names = declared_names(statement)
        self._exports[path].update(names)
        if inner.type in NAMESPACES and not _instantiated(inner):
            return
        self._patch.blank(statement.start_byte, statement.start_byte + len(b"export"))
        if inner.type in ("enum_declaration", *NAMESPACES):
            return
        live = inner.type == "variable_declaration" or (
            inner.type == "lexical_declaration" and inner.children[0].type == "let"
        )
        if live:
            code = "".join(
                f"Object.defineProperty({owner},{json.dumps(name)},"
                f"{{enumerable:true,configurable:true,get(){{return {name}}},set(_){{{name}=_}}}});"
                for name in names
            )
        else:
            code = "".join(f"{owner}.{name}={name};" for name in names)
        self._patch.insert_after(code_end(statement), f";{code}".encode())

    def import_alias(self, node: Node) -> None:
        """`import X = A.B` is a constant if anything uses X as a value, and nothing otherwise."""
        name_node = node.named_child(0)
        statement = _statement(node)
        if name_node is None or any(child.type == "type" for child in node.children):
            self._patch.blank(statement.start_byte, statement.end_byte, b";")
            return
        exported = self._owner(statement) is not None and statement.type == "export_statement"
        if not exported and text(name_node) not in self._value_names:
            self._patch.blank(statement.start_byte, statement.end_byte, b";")
            return
        self._patch.replace(node.start_byte, node.start_byte + len(b"import"), b"const")

    @cached_property
    def _value_names(self) -> set[str]:
        return value_names(self._parsed.root)

    # --- shared

    def _owner(self, statement: Node) -> tuple[str, str] | None:
        """The namespace an exported statement belongs to: its object's name and its path."""
        block = statement.parent
        return (
            self._bodies.get(block.start_byte)
            if block is not None and block.type == "statement_block"
            else None
        )

    def _target(self, statement: Node, name: str) -> str:
        owner = self._owner(statement)
        if owner is not None and statement.type == "export_statement":
            return f"{name}={owner[0]}.{name}||({owner[0]}.{name}={{}})"
        return f"{name}||({name}={{}})"

    def _declaration(self, statement: Node, name: str) -> str:
        """`var`/`let` for the first declaration of the name in its block, nothing for one that merges."""
        block = statement.parent
        if block is None:
            return ""
        key = block.start_byte, name
        if key in self._declared_here:
            return ""
        self._declared_here.add(key)
        merging = self._merging.get(block.start_byte)
        if merging is None:
            merging = self._merging[block.start_byte] = _first_places(block)
        if merging.get(name, statement.start_byte) < statement.start_byte:
            return ""
        return f"var {name};" if block.type == "program" else f"let {name};"

    def _close(self, body: Node, code: str) -> None:
        end = code_end(body)
        self._patch.replace(end - 1, end, code.encode())


def _statement(node: Node) -> Node:
    """The whole statement around a declaration."""
    while node.parent is not None and node.parent.type in ("export_statement", "expression_statement"):
        node = node.parent
    return node


def _first_places(block: Node) -> dict[str, int]:
    """Where each class and function of a block is first declared: enums and namespaces behind it merge with it.

    So they do with the variable that the second parser has made of an enum."""
    places: dict[str, int] = {}
    for sibling in block.named_children:
        inner = unwrapped(sibling)
        if inner.type in (*CLASSES, *FUNCTION_DECLARATIONS, "lexical_declaration"):
            for name in declared_names(inner):
                places.setdefault(name, sibling.start_byte)
    return places


def _instantiated(node: Node) -> bool:
    """Whether a namespace holds anything that exists at run time."""
    body = node.child_by_field_name("body")
    for child in body.named_children if body is not None else ():
        inner = unwrapped(child)
        if inner.type in NAMESPACES:
            if _instantiated(inner):
                return True
        elif inner.type not in _TYPE_ONLY:
            return True
    return False


def _key(name: Node) -> str:
    """The member name as a JavaScript expression."""
    if name.type == "computed_property_name":
        return text(name)[1:-1].strip()
    return text(name) if name.type == "string" else json.dumps(text(name), ensure_ascii=False)


def _next(enum: str, previous: str | int | None) -> str:
    return str(previous + 1) if isinstance(previous, int) else f"{enum}[{previous}]+1"


def _integer(value: Node) -> int | None:
    """The value of a plain integer literal, signed or not."""
    raw = text(value).replace(" ", "").replace("_", "")
    digits = raw.removeprefix("-")
    if (
        digits.isdecimal()
        and digits.isascii()
        and (digits == "0" or not digits.startswith("0"))
        and len(digits) < 15
    ):
        return int(raw)
    return None
