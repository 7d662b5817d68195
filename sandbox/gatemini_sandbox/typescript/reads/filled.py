"""What code puts into an array, object or Map after it has made it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tree_sitter import Node

from gatemini_sandbox.typescript.nodes import WRAPPERS, arguments_of, text
from gatemini_sandbox.typescript.reads.parts import (
    Fixed,
    Keyed,
    Listed,
    Literal,
    Origin,
    Put,
    each,
    stepped,
    union,
)
from gatemini_sandbox.typescript.reads.scopes import Binding

_LOOKING: Final = frozenset(["Object", "console", "JSON", "Array", "Promise", "Math"])
"""Built-in objects whose functions change no argument."""


class Filled:
    """Answers for one program; `of` gives the origin of an expression."""

    def __init__(self, of: Callable[[Node], Origin]) -> None:
        self._of = of

    def filled(self, binding: Binding, origin: Origin) -> Origin:
        """The origin of an array, object or Map that the code fills after it has made it."""
        if origin is None or not all(isinstance(part, (Fixed, Keyed, Literal, Listed)) for part in origin):
            return origin
        if len(binding.givers) != 1 or not origin:
            return origin
        added: list[Origin] = []
        for use in binding.uses:
            put = self._put(use)
            if put is None:
                return None
            added += put
        if not added:
            return origin
        part = origin[0]
        if isinstance(part, Fixed):
            return (Listed(union([*part.parts, *added])),)
        if isinstance(part, Listed):
            return (Listed(union([part.items, *added])),)
        if isinstance(part, Keyed):
            return (Keyed(union([part.values, *added])),)
        if isinstance(part, Literal) and not part.node.named_children:
            return (Keyed(union(added)),)
        return None

    def _put(self, use: Node) -> list[Origin] | None:
        """What this use of a collection puts into it; None where it may put in what is not seen."""
        parent = use.parent
        while parent is not None and parent.type in WRAPPERS:
            use, parent = parent, parent.parent
        if parent is None:
            return None
        if parent.type == "arguments":
            function = parent.parent.child_by_field_name("function") if parent.parent is not None else None
            owner = function.child_by_field_name("object") if function is not None else None
            return [] if owner is not None and text(owner) in _LOOKING else None
        if parent.type == "subscript_expression" and parent.child_by_field_name("object") == use:
            return self._put_by_key(parent)
        if parent.type != "member_expression" or parent.child_by_field_name("object") != use:
            return []
        name, call = text(parent.child_by_field_name("property") or parent), parent.parent
        if call is None or call.type != "call_expression" or call.child_by_field_name("function") != parent:
            return self._put_by_key(parent)
        arguments = arguments_of(call)
        if name in ("push", "unshift", "add"):
            return [self._put_in(argument, call) for argument in arguments]
        if name == "set" and len(arguments) == 2:
            return [self._put_in(arguments[1], call)]
        return None if name in ("splice", "fill", "copyWithin", "set") else []

    def _put_by_key(self, access: Node) -> list[Origin] | None:
        up = access.parent
        if up is not None and up.type == "assignment_expression" and up.child_by_field_name("left") == access:
            right = up.child_by_field_name("right")
            return None if right is None else [self._put_in(right, up)]
        if (
            up is not None
            and up.type == "augmented_assignment_expression"
            and up.child_by_field_name("left") == access
        ):
            return None
        if up is not None and up.type == "parenthesized_expression":
            return None  # `(groups[key] ??= []).push(x)` and the like
        if up is not None and up.type == "member_expression" and up.child_by_field_name("object") == access:
            called = up.child_by_field_name("property")
            return None if called is not None and text(called) in ("push", "unshift", "add", "set") else []
        return []

    def _put_in(self, value: Node, by: Node) -> Origin:
        spread = value.type == "spread_element"
        origin = each(self._of(value.named_children[0]), value.id) if spread else self._of(value)
        return stepped(origin, Put(by))
