"""Whether code is certain to run once a call has its result, and under which conditions on results.

Conditions are data for the gateway, which has the results: lists that begin with an operator. A condition that cannot
be said makes the code uncertain.
"""

from __future__ import annotations

from typing import Any, Final

from tree_sitter import Node

from gatemini_sandbox.typescript.bindings import FUNCTIONS
from gatemini_sandbox.typescript.nodes import WRAPPERS, text
from gatemini_sandbox.typescript.reads.method_calls import callback_of, called
from gatemini_sandbox.typescript.reads.origins import Origins
from gatemini_sandbox.typescript.reads.parts import (
    Filtered,
    Fixed,
    Items,
    Keyed,
    Listed,
    Origin,
    Parsed,
    Put,
    Site,
    Step,
    Value,
    values_in,
)
from gatemini_sandbox.typescript.reads.scopes import parameters

Condition = list[Any]
MOST_NESTED: Final = 12
MOST_CLIMBED: Final = 200
_COMPARING: Final = frozenset(["===", "!==", "==", "!=", "<", "<=", ">", ">="])
_CONSTANTS: Final = {"true": True, "false": False, "null": None}
_ENDLESS: Final = ("(true)", "(1)", ";")
_LOOPS: Final = ("for_statement", "for_in_statement", "while_statement", "do_statement")
_LEAVES: Final = ("return_statement", "throw_statement", "break_statement", "continue_statement")


class Uncertain(Exception):
    """The code may not run, or under a condition that cannot be said."""


class Certainty:
    """Answers for one program."""

    def __init__(self, origins: Origins) -> None:
        self._origins = origins

    def path(self, value: Value, read: Node) -> list[Any]:
        """The steps from the call's result to the value as it is where `read` is. Raises Uncertain."""
        wired: list[Any] = []
        for at, step in enumerate(value.path):
            wired += self._wired(value, at, step)
        return [*wired, *self._guards(read, value, len(value.path))]

    def _wired(self, value: Value, at: int, step: Step) -> list[Any]:
        if isinstance(step, str):
            return [step]
        if isinstance(step, Items):
            return [["items"]]
        if isinstance(step, Parsed):
            return [["json"]]
        if isinstance(step, Put):
            return self._guards(step.node, value, at)
        body = step.function.child_by_field_name("body")
        given = parameters(step.function)
        if body is None or body.type == "statement_block" or len(given) != 1:
            raise Uncertain
        return [["if", self._condition(body, value.path[:at], _name(given[0]))]]

    # -- what has to be true --------------------------------------------------------------------------

    def _guards(self, node: Node, value: Value, at: int) -> list[Any]:
        """Conditions under which the node runs after the value's call was answered."""
        found: list[Any] = []
        site, before, child = value.site.node, value.path[:at], node
        for _ in range(MOST_CLIMBED):
            parent = child.parent
            if parent is None:
                return found
            if parent.type in FUNCTIONS:
                if _holds(parent, site):
                    return found
                child = self._caller(parent, value, before)
                continue
            if parent.type in ("while_statement", "for_statement", "for_in_statement") and not _holds(
                parent, site
            ):
                self._check_loop(parent, child, value, before)
            for test, wanted in self._tests(parent, child):
                condition = self._condition(test, before)
                found.append(["if", condition if wanted else ["not", condition]])
            if parent.type in ("program", "statement_block", "switch_case", "switch_default"):
                found += self._ways_out(parent, child, site, before)
            if _holds(parent, site):
                return found
            child = parent
        raise Uncertain

    def _tests(self, parent: Node, child: Node) -> list[tuple[Node, bool]]:
        """The tests that a branch stands under, each with the outcome it needs."""
        field_of, kind = parent.child_by_field_name, parent.type
        if kind in ("if_statement", "ternary_expression"):
            test = field_of("condition")
            if test is None or child == test:
                return []
            return [(test, child == field_of("consequence"))]
        if kind == "binary_expression" and child == field_of("right"):
            operator, left = field_of("operator"), field_of("left")
            if operator is not None and left is not None and operator.type in ("&&", "||"):
                return [(left, operator.type == "&&")]
            if operator is not None and operator.type == "??":
                raise Uncertain
        if kind == "switch_case" and child != field_of("value"):
            return [(parent, True)]
        if kind in ("catch_clause", "class_body", "switch_default"):
            raise Uncertain
        return []

    def _ways_out(self, block: Node, child: Node, site: Node, before: tuple[Step, ...]) -> list[Any]:
        """Conditions under which the statements before this one let the code come to it."""
        found: list[Any] = []
        for statement in block.named_children:
            if statement == child:
                return found
            if _holds(block, site) and statement.end_byte < site.start_byte:
                continue  # the call was made after it
            if not _leaves(statement):
                continue
            test, alternative = (
                statement.child_by_field_name("condition"),
                statement.child_by_field_name("alternative"),
            )
            if statement.type != "if_statement" or test is None or alternative is not None:
                raise Uncertain
            if _holds(statement, site):
                raise Uncertain
            found.append(["if", ["not", self._condition(test, before)]])
        return found

    # -- loops and functions --------------------------------------------------------------------------

    def _check_loop(self, loop: Node, child: Node, value: Value, before: tuple[Step, ...]) -> None:
        """A loop's body runs where there is an item to run it with."""
        test = loop.child_by_field_name("condition")
        if child != loop.child_by_field_name("body") or (test is not None and text(test) in _ENDLESS):
            return
        if loop.type == "for_in_statement":
            right = loop.child_by_field_name("right")
            if Items(loop.id) in before or (right is not None and self._has_items(right, value)):
                return
        elif loop.type == "for_statement":
            over = self._counted(test)
            if over is not None and over.site == value.site:
                to_array, behind = before[: len(over.path)], before[len(over.path) :]
                if to_array == over.path and behind and isinstance(behind[0], Items):
                    return
        raise Uncertain

    def _counted(self, test: Node | None) -> Value | None:
        """The array that a loop counts through: `rows` in `i < rows.length`."""
        while test is not None and test.type != "binary_expression" and test.named_children:
            test = test.named_children[0]
        bound = test.child_by_field_name("right") if test is not None else None
        owner = bound.child_by_field_name("object") if bound is not None else None
        if bound is None or owner is None or not text(bound).endswith(".length"):
            return None
        return self._only_value(owner)

    def _only_value(self, node: Node) -> Value | None:
        """The value in a result that an expression is for certain."""
        values = values_in(self._origins.of(node)) or ()
        return values[0] if len(values) == 1 else None

    def _has_items(self, array: Node, value: Value) -> bool:
        """Whether an array has items for certain: it is written so, or made of results of the value's call."""
        origin = self._origins.of(array)
        return bool(origin) and all(_is_full(part, value.site) for part in origin or ())

    def _caller(self, function: Node, value: Value, before: tuple[Step, ...]) -> Node:
        """Where a function runs: the call that it is given to, or the one that calls it."""
        call = callback_of(function)
        if call is not None:
            return self._running(call, value, before)
        parent = function.parent
        while parent is not None and parent.type in ("parenthesized_expression", "export_statement"):
            function, parent = parent, parent.parent
        if parent is None or (parent.type == "program" and function.type == "export_statement"):
            return function
        if parent.type == "call_expression" and parent.child_by_field_name("function") == function:
            return parent
        uses = self._origins.uses_of(function)
        if len(uses) != 1:
            raise Uncertain
        use, up = uses[0], uses[0].parent
        if up is not None and up.type == "call_expression" and up.child_by_field_name("function") == use:
            return up
        call = callback_of(use)
        if call is None:
            raise Uncertain
        return self._running(call, value, before)

    def _running(self, call: Node, value: Value, before: tuple[Step, ...]) -> Node:
        owner, method = called(call)
        if (
            method == "then"
            or Items(call.id) in before
            or (owner is not None and self._has_items(owner, value))
        ):
            return call
        raise Uncertain

    # -- conditions as data ---------------------------------------------------------------------------

    def _condition(self, node: Node, before: tuple[Step, ...], it: str = "", deep: int = 0) -> Condition:
        """`before` are the steps to the value at hand; `it` is the name that stands for that value itself."""
        if deep > MOST_NESTED:
            raise Uncertain
        field_of, kind = node.child_by_field_name, node.type
        if kind in WRAPPERS:
            return self._condition(node.named_children[0], before, it, deep + 1)
        if kind == "switch_case":
            body = node.parent
            switch, case = body.parent if body is not None else None, field_of("value")
            subject = switch.child_by_field_name("value") if switch is not None else None
            if subject is None or case is None:
                raise Uncertain
            return [
                "===",
                self._condition(subject, before, it, deep + 1),
                self._condition(case, before, it, deep + 1),
            ]
        if kind == "unary_expression":
            operator, argument = field_of("operator"), field_of("argument")
            if operator is not None and argument is not None and operator.type in ("!", "typeof"):
                inner = self._condition(argument, before, it, deep + 1)
                return ["not" if operator.type == "!" else "typeof", inner]
            raise Uncertain
        if kind == "binary_expression":
            operator, left, right = field_of("operator"), field_of("left"), field_of("right")
            if operator is None or left is None or right is None:
                raise Uncertain
            if operator.type not in _COMPARING and operator.type not in ("&&", "||"):
                raise Uncertain
            return [operator.type, *(self._condition(side, before, it, deep + 1) for side in (left, right))]
        if kind == "call_expression":
            return self._called(node, before, it, deep)
        return self._operand(node, before, it, deep)

    def _called(self, node: Node, before: tuple[Step, ...], it: str, deep: int) -> Condition:
        owner, method = called(node)
        listed = node.child_by_field_name("arguments")
        arguments = [] if listed is None else listed.named_children
        if owner is None:
            raise Uncertain
        if (text(owner), method) == ("Array", "isArray") and len(arguments) == 1:
            return ["isArray", self._condition(arguments[0], before, it, deep + 1)]
        if method in ("includes", "startsWith", "endsWith") and len(arguments) == 1:
            return [method, *(self._condition(one, before, it, deep + 1) for one in (owner, arguments[0]))]
        if method in ("toLowerCase", "toUpperCase", "trim") and not arguments:
            return [method, self._condition(owner, before, it, deep + 1)]
        raise Uncertain

    def _operand(self, node: Node, before: tuple[Step, ...], it: str, deep: int) -> Condition:
        kind = node.type
        if kind in _CONSTANTS:
            return ["is", _CONSTANTS[kind]]
        if kind == "number":
            try:
                return ["is", float(text(node))]
            except ValueError:
                raise Uncertain from None
        if kind == "string":
            if any(part.type != "string_fragment" for part in node.named_children):
                raise Uncertain
            return ["is", "".join(text(part) for part in node.named_children)]
        if kind == "undefined" or text(node) == "undefined":
            return ["undefined"]
        if kind == "array":
            return ["list", *(self._operand(child, before, it, deep + 1) for child in node.named_children)]
        names, root = _plain_path(node)
        if root is None:
            raise Uncertain
        if it and text(root) == it:
            return ["at", -1, *names]
        constant = self._constant(root) if not names else None
        if constant is not None:
            return self._condition(constant, before, it, deep + 1)
        return self._located(root, names, before)

    def _located(self, root: Node, names: list[str], before: tuple[Step, ...]) -> Condition:
        """Where on the way to the value at hand another value branches off."""
        branch = self._only_value(root)
        if branch is None:
            raise Uncertain
        path = branch.path
        shared = 0
        while shared < min(len(path), len(before)) and path[shared] == before[shared]:
            shared += 1
        rest = path[shared:]
        if not all(isinstance(step, str) for step in rest):
            raise Uncertain
        passed = sum(isinstance(step, (str, Items, Parsed)) for step in path[:shared])
        return ["at", passed, *(step for step in rest if isinstance(step, str)), *names]

    def _constant(self, name: Node) -> Node | None:
        binding = self._origins.scopes.by_use.get(name.id)
        if binding is None or len(binding.givers) != 1 or binding.givers[0].steps:
            return None
        giver = binding.givers[0]
        plain = giver.kind == "value" and giver.node.type in ("string", "number", *_CONSTANTS)
        return giver.node if plain else None


def _plain_path(node: Node) -> tuple[list[str], Node | None]:
    """`o`, `o.a.b`: the names behind the first one, and that one."""
    names: list[str] = []
    while node.type == "member_expression" or node.type in WRAPPERS:
        if node.type in WRAPPERS:
            node = node.named_children[0]
            continue
        owner, name = node.child_by_field_name("object"), node.child_by_field_name("property")
        if owner is None or name is None:
            return [], None
        names.insert(0, text(name))
        node = owner
    return names, node if node.type == "identifier" else None


def _name(parameter: Node) -> str:
    inner = parameter.child_by_field_name("pattern") if parameter.type.endswith("_parameter") else parameter
    return text(inner) if inner is not None and inner.type == "identifier" else ""


def _holds(node: Node, inner: Node) -> bool:
    return node.start_byte <= inner.start_byte and inner.end_byte <= node.end_byte


def _is_full(part: Any, site: Site) -> bool:
    if isinstance(part, Fixed):
        return bool(part.parts)
    if isinstance(part, Listed):
        return _comes_from(part.items, site)
    return isinstance(part, Filtered) and _is_full(part.of, site)


def _comes_from(origin: Origin, site: Site) -> bool:
    """Whether an array's items are results of the call, so that there are some if it has answered."""
    for part in origin or ():
        if isinstance(part, Value) and part.site == site:
            return True
        inner = part.items if isinstance(part, Listed) else part.values if isinstance(part, Keyed) else None
        if _comes_from(inner, site):
            return True
        if isinstance(part, Fixed) and any(_comes_from(one, site) for one in part.parts):
            return True
    return False


def _leaves(statement: Node) -> bool:
    """Whether the statement may leave the block that it is in."""
    stack = [(statement, False)]
    while stack:
        node, in_loop = stack.pop()
        if node.type in _LEAVES and not (in_loop and node.type in _LEAVES[2:]):
            return True
        if node.type in FUNCTIONS:
            continue
        inside = in_loop or node.type in (*_LOOPS, "switch_statement")
        stack.extend((child, inside) for child in node.named_children)
    return False
