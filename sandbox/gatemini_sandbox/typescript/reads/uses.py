"""What code does with a value that may be undefined: whether it asks for that on purpose, or goes on with it."""

from __future__ import annotations

from typing import Final, Literal

from tree_sitter import Node

from gatemini_sandbox.messages import OF_A_KIND, OfAKind
from gatemini_sandbox.typescript.bindings import FUNCTIONS
from gatemini_sandbox.typescript.nodes import WRAPPERS, arguments_of, text
from gatemini_sandbox.typescript.reads.method_calls import EACH, callback_of, called, member_name
from gatemini_sandbox.typescript.reads.origins import Origins

Use = Literal["asked", "taken", "entered", "sifted", "called", "held", "looped", "", OfAKind]
"""As the kinds of a `Read`; "taken": as if it were there; "": nothing that matters. "entered" throws where it is not there."""
_SAME: Final[dict[str, Use]] = {"number": "as number", "string": "as text"}

_BY_WEIGHT: Final[tuple[Use, ...]] = ("asked", *sorted(OF_A_KIND), "taken", "entered")
MOST_NAMES: Final = 8
_ASKING: Final = frozenset(["Boolean", "isNaN", "isFinite"])
_TAKING: Final = frozenset(["String", "Number", "parseInt", "parseFloat", "BigInt"])
_ASKING_METHODS: Final = frozenset(
    ["isArray", "isInteger", "isFinite", "isNaN", "isSafeInteger", "is", "hasOwn"]
)
_TAKING_METHODS: Final = frozenset(
    [
        "push",
        "unshift",
        "add",
        "has",
        "get",
        "set",
        "includes",
        "indexOf",
        "localeCompare",
        "stringify",
        "log",
    ]
)
_MADE_FROM: Final = frozenset(["Date", "Set", "Map", "Error"])
_ARITHMETIC: Final = frozenset(["+", "-", "*", "/", "%", "**", "<", "<=", ">", ">=", "&", "|", "^"])
_EQUAL: Final = frozenset(["===", "!==", "==", "!="])
_DECIDING: Final = frozenset(["filter", "find", "findLast", "findIndex", "findLastIndex", "every"])


class Uses:
    """Answers for one program."""

    def __init__(self, origins: Origins) -> None:
        self._origins = origins

    def of(self, node: Node, names: int = MOST_NAMES) -> Use:
        """The use of an expression's value."""
        child = node
        while (parent := child.parent) is not None:
            kind = parent.type
            if kind in WRAPPERS and not _is_tested(parent):
                child = parent
                continue
            if kind == "await_expression":
                child = parent
                continue
            if kind == "ternary_expression" and child != parent.child_by_field_name("condition"):
                child = parent
                continue
            break
        if parent is None:
            return ""
        kind, field_of = parent.type, parent.child_by_field_name
        if kind in ("member_expression", "subscript_expression"):
            if child == field_of("index"):
                return "taken"
            return "asked" if field_of("optional_chain") is not None else "entered"
        if kind == "call_expression":
            return "called"
        if kind == "binary_expression":
            return self._operand(parent, child, names)
        if kind == "unary_expression":
            return "taken" if parent.children[0].type in ("-", "+") else "asked"
        if (
            kind in ("if_statement", "while_statement", "do_statement", "ternary_expression")
            or kind in WRAPPERS
        ):
            return "asked"
        if kind in ("variable_declarator", "assignment_expression"):
            return self._named(parent, child, names)
        if kind == "augmented_assignment_expression":
            return self._calculated(parent, child) if child == field_of("right") else "asked"
        if kind in ("template_substitution", "pair", "object", "array", "spread_element", "switch_statement"):
            return self._in_list(parent) if kind == "array" else "taken"
        if kind == "arguments":
            return self._passed(parent, child)
        if kind in ("return_statement", "arrow_function"):
            return self._returned(parent, names)
        return ""

    def _operand(self, parent: Node, child: Node, names: int) -> Use:
        operator = parent.child_by_field_name("operator")
        sign = "" if operator is None else operator.type
        if sign in ("&&", "||", "??"):
            is_left = child == parent.child_by_field_name("left")
            if sign == "&&" and self._decides(parent):
                return "sifted"
            return "asked" if is_left or sign != "??" else self.of(parent, names)
        if sign in _EQUAL:
            sides = (parent.child_by_field_name("left"), parent.child_by_field_name("right"))
            other = next((side for side in sides if side is not None and side != child), None)
            if other is None or text(other) in ("null", "undefined", "void 0", "'undefined'"):
                return "asked"
            return _SAME.get(other.type, "taken") if len(sign) == len("===") else "taken"
        if sign in ("in", "instanceof"):
            return "asked"
        return self._calculated(parent, child) if sign in _ARITHMETIC else ""

    def _calculated(self, parent: Node, child: Node) -> Use:
        """`a - b`, `a += b` and the like: what is taken for a number surely."""
        sides = (parent.child_by_field_name("left"), parent.child_by_field_name("right"))
        other = next((side for side in sides if side is not None and side != child), None)
        operator = parent.child_by_field_name("operator")
        sign = "" if operator is None else operator.type.removesuffix("=") or operator.type
        if sign in ("-", "*", "/", "%", "**"):
            return "number"
        if other is None or not self._is_number(other):
            return "taken"
        return "added" if sign == "+" else "number"

    def _is_number(self, node: Node) -> bool:
        """Whether an expression surely is a number or a date: written so, or a sum that begins as one."""
        if node.type == "number" or (node.type == "new_expression" and text(node).startswith("new Date")):
            return True
        binding = self._origins.scopes.by_use.get(node.id) if node.type == "identifier" else None
        if binding is None or not binding.givers:
            return False
        giver = binding.givers[0]
        if giver.kind == "parameter" and giver.place == 0 and (call := callback_of(giver.node)) is not None:
            given = arguments_of(call)
            return called(call)[1] == "reduce" and len(given) == 2 and given[1].type == "number"
        return giver.kind == "value" and giver.node.type == "number"

    def _decides(self, node: Node) -> bool:
        """Whether all of `a && b && c` is what a filter decides by."""
        parent = node.parent
        while parent is not None and (parent.type in WRAPPERS or parent.type == "binary_expression"):
            operator = parent.child_by_field_name("operator")
            if operator is not None and operator.type != "&&":
                return False
            node, parent = parent, parent.parent
        return parent is not None and parent.type == "arrow_function" and self._returned(parent) == "sifted"

    def _named(self, parent: Node, child: Node, names: int) -> Use:
        """What becomes of the names that it is given to."""
        target = parent.child_by_field_name("name") or parent.child_by_field_name("left")
        if target is None or target == child or target.type != "identifier" or not names:
            return ""
        return self.of_name(target, names)

    def of_name(self, name: Node, names: int = MOST_NAMES) -> Use:
        binding = self._origins.scopes.by_use.get(name.id)
        if binding is None or binding.changed:
            return ""
        if binding.has_default:
            return "asked"
        found = {self.of(use, names - 1) for use in binding.uses}
        return next((use for use in _BY_WEIGHT if use in found), "")

    def _in_list(self, array: Node) -> Use:
        """An item of a list that is sifted next, `[a, b].filter(Boolean)`, may be missing."""
        owner = array.parent
        return "" if owner is not None and owner.type == "member_expression" else "taken"

    def _passed(self, arguments: Node, child: Node) -> Use:
        call = arguments.parent
        if call is None:
            return ""
        if call.type == "new_expression":
            made = call.child_by_field_name("constructor")
            if made is not None and text(made) == "Date" and len(arguments_of(call)) == 1:
                return "dated"
            return "taken" if made is not None and text(made) in _MADE_FROM else ""
        function = call.child_by_field_name("function")
        if function is None:
            return ""
        if function.type == "identifier":
            name = text(function)
            if function.id in self._origins.scopes.by_use:
                return ""
            return "asked" if name in _ASKING else "taken" if name in _TAKING else ""
        owner, method = called(call)
        if method in _ASKING_METHODS:
            return "asked"
        if owner is not None and text(owner) in ("Math", "console") and method != "assert":
            return "taken"
        return "taken" if method in _TAKING_METHODS else ""

    def _returned(self, statement: Node, names: int = MOST_NAMES) -> Use:
        """What a function's caller does with it."""
        function: Node | None = statement
        while function is not None and function.type not in FUNCTIONS:
            function = function.parent
        if function is None:
            return "taken"
        call = callback_of(function)
        if call is not None:
            return self._called_back(call)
        uses = self._origins.uses_of(function)
        if not uses:
            return "taken" if self._is_main(function) else ""
        found = {self._given_by(use, names) for use in uses}
        return "asked" if "asked" in found else next(iter(found)) if len(found) == 1 else ""

    def _given_by(self, use: Node, names: int) -> Use:
        """What becomes of the value of a function, at one use of the function."""
        call = callback_of(use)
        if call is not None:
            return self._called_back(call)
        parent = use.parent
        if parent is None or parent.type != "call_expression" or not names:
            return ""
        return self.of(parent, names - 1)

    def _called_back(self, call: Node) -> Use:
        """What the method that calls a function does with its value."""
        _, method = called(call)
        if method in _DECIDING:
            return "sifted"
        if method == "some":
            return "asked"
        after = call.parent
        if method in EACH and after is not None and after.type == "member_expression":
            next_one = member_name(after)
            if next_one in ("filter", "find", "some", "every", "flat"):
                return "asked"
        return "taken"

    def _is_main(self, function: Node) -> bool:
        parent = function.parent
        return parent is not None and parent.type in ("program", "export_statement")


def _is_tested(node: Node) -> bool:
    """The parentheses of `if (x)`, `while (x)` and the like."""
    parent = node.parent
    return (
        node.type == "parenthesized_expression"
        and parent is not None
        and parent.type in ("if_statement", "while_statement", "do_statement")
    )
