"""Write the assignments of parameter properties: `constructor(private readonly a: number) {}`."""

from __future__ import annotations

from tree_sitter import Node

from gatemini_sandbox.typescript.nodes import code_end, descendants, text
from gatemini_sandbox.typescript.positions import Patch

_MODIFIERS = ("accessibility_modifier", "override_modifier", "readonly")


class ParameterProperties:
    """Notes the edits for one text: `add` for each parameter, `finish` once at the end."""

    def __init__(self, patch: Patch) -> None:
        self._patch = patch
        # Start of a constructor -> the constructor and its parameter properties.
        self._properties: dict[int, tuple[Node, list[str]]] = {}
        self._seen: set[int] = set()

    def add(self, parameter: Node) -> None:
        if parameter.start_byte in self._seen:
            return
        self._seen.add(parameter.start_byte)
        for child in parameter.children:
            if child.type in _MODIFIERS:
                self._patch.blank(child.start_byte, child.end_byte)
        pattern = parameter.child_by_field_name("pattern")
        constructor = parameter.parent.parent if parameter.parent is not None else None
        if pattern is not None and constructor is not None and constructor.type == "method_definition":
            _, names = self._properties.setdefault(constructor.start_byte, (constructor, []))
            names.append(text(pattern))

    def finish(self) -> None:
        """Constructors are written when all their parameters are known."""
        for constructor, names in self._properties.values():
            body, class_body = constructor.child_by_field_name("body"), constructor.parent
            if body is None or class_body is None or class_body.parent is None:
                continue
            self._patch.insert_after(
                class_body.start_byte + 1, "".join(f"{name};" for name in names).encode()
            )
            assignments = [f"this.{name}={name}" for name in names]
            heritage = [child for child in class_body.parent.children if child.type == "class_heritage"]
            derived = any(child.type == "extends_clause" for part in heritage for child in part.children)
            if not derived:
                self._patch.insert_after(body.start_byte + 1, f"{';'.join(assignments)};".encode())
                continue
            # Usually one; of several, in branches, each must do its part.
            for call in [node for node in descendants(body) if _is_super_call(node)]:
                if not _in_class_inside(call, body):
                    self._assign_behind(call, body, assignments)

    def _assign_behind(self, call: Node, body: Node, assignments: list[str]) -> None:
        """What must be done at once after `super(…)`: there is no `this` before."""
        parent = call.parent
        if parent is not None and parent.type == "expression_statement" and parent.parent == body:
            self._patch.insert_after(code_end(parent), f";{';'.join(assignments)};".encode())
        else:
            self._patch.insert_before(call.start_byte, b"void(")
            self._patch.insert_after(code_end(call), f",{','.join(assignments)})".encode())


def _is_super_call(node: Node) -> bool:
    if node.type != "call_expression":
        return False
    function = node.child_by_field_name("function")
    return function is not None and function.type == "super"


def _in_class_inside(node: Node, top: Node) -> bool:
    inner = node.parent
    while inner is not None and inner != top:
        if inner.type == "class_body":
            return True
        inner = inner.parent
    return False
