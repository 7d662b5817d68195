"""Find the calls that code makes of names it does not declare: the backends it needs."""

from __future__ import annotations

from dataclasses import dataclass

from tree_sitter import Node

from gatemini_sandbox.typescript.bindings import declarations, identifiers
from gatemini_sandbox.typescript.nodes import text
from gatemini_sandbox.typescript.parse import parse
from gatemini_sandbox.typescript.positions import SourceText


@dataclass(frozen=True, slots=True)
class OutsideCall:
    """`name.member(…)` where nothing in the code declares `name`; `line` is 1-based."""

    name: str
    member: str
    line: int


def outside_calls(source: str) -> list[OutsideCall]:
    """The calls in the order of the text; a name that the code declares anywhere counts as its own."""
    submitted = SourceText(source)
    root = parse(submitted.data).root
    own = declarations(root)
    found: list[OutsideCall] = []
    for node in sorted(identifiers(root), key=lambda node: node.start_byte):
        member = _called_member(node)
        name = text(node)
        if member is not None and name not in own:
            found.append(OutsideCall(name, member, submitted.position(node.start_byte)[0]))
    return found


def _called_member(node: Node) -> str | None:
    """`add` for the `demo` of `demo.add(…)`, `demo["add"](…)` and `demo.add.raw(…)`."""
    access = node.parent
    if access is None or access.child_by_field_name("object") != node:
        return None
    if access.type == "member_expression":
        key = access.child_by_field_name("property")
        member = None if key is None else text(key)
    elif access.type == "subscript_expression":
        key = access.child_by_field_name("index")
        parts = key.named_children if key is not None and key.type == "string" else []
        member = text(parts[0]) if len(parts) == 1 and parts[0].type == "string_fragment" else None
    else:
        return None
    outer: Node | None = access
    while outer is not None and outer.parent is not None and outer.parent.type == "member_expression":
        outer = outer.parent
    call = outer.parent if outer is not None else None
    called = (
        call is not None and call.type == "call_expression" and call.child_by_field_name("function") == outer
    )
    return member if called else None
