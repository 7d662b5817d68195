"""Find the exact place of a run-time error: QuickJS gives only the last place it noted before.

QuickJS notes positions for calls, operators and expression statements. A property read from null or an unknown name is
reported at the last of those before it, or at column 1 of the function's line. The error's text says what to look
for, so the first fitting node after that place, in the same function, is taken. Runs only when a chain has failed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from tree_sitter import Node

from gatemini_sandbox.typescript.bindings import FUNCTIONS
from gatemini_sandbox.typescript.diagnosis.known_values import Values
from gatemini_sandbox.typescript.nodes import arguments_of, descendants, text
from gatemini_sandbox.typescript.parse import parse_tree
from gatemini_sandbox.typescript.parse_deadline import check

Fits = Callable[[Node], Node | None]
"""Of a node that may have failed, the part to point at."""
Frame = tuple[str, int, int]
"""Function, 1-based line, 1-based byte column."""

# What is taken apart is evaluated before the pattern that takes it.
_VALUE_FIRST = frozenset({"variable_declarator", "assignment_expression", "for_in_statement"})
_PATTERNS = frozenset({"object_pattern", "array_pattern"})
_READS = ("member_expression", "subscript_expression")
CALLS = ("new_expression", "call_expression")
_PROPERTY = re.compile(r"cannot (?:read|set) property '(.*)' of (?:null|undefined)$", re.DOTALL)
_OF_NOTHING = re.compile(r" of (null|undefined)$")
_NAME = re.compile(r"(.+) is not (?:defined|initialized)$")
_READ_ONLY = re.compile(r"'(.+)' is read-only$")
_LACKING = re.compile(r"([\w.]+) does not exist in this sandbox")
_TO_OBJECT = "cannot convert undefined or null to object"
_ITERATOR = "Symbol.iterator"
_NOT_ITERABLE = "value is not iterable"
_NO_FUNCTION = "not a function"
# Methods that what they are called on most likely has.
_USUAL = frozenset(
    [
        "at",
        "charAt",
        "concat",
        "entries",
        "filter",
        "find",
        "flat",
        "flatMap",
        "get",
        "has",
        "includes",
        "indexOf",
        "join",
        "keys",
        "map",
        "match",
        "padStart",
        "parse",
        "reduce",
        "repeat",
        "replace",
        "replaceAll",
        "reverse",
        "slice",
        "sort",
        "split",
        "stringify",
        "substring",
        "then",
        "toFixed",
        "toISOString",
        "toLowerCase",
        "toString",
        "toUpperCase",
        "trim",
        "values",
    ]
)


def refine(
    js: str, name: str, message: str, frames: Sequence[Frame], *, tool: str | None = None
) -> tuple[int, int, int]:
    """Which of the frames the error belongs to, and the 1-based line and byte column in it of what failed.

    `tool`: a call of this one failed, and the frames are those of the call."""
    root = parse_tree(js.encode("utf-8", "replace")).root_node
    index = 0
    while index + 1 < len(frames) and _is_error_class(root, frames[index]):
        index += 1  # the place that uses the class says more than its own constructor
    _, line, byte_column = frames[index]
    start = (line - 1, byte_column - 1)
    at = root.descendant_for_point_range(start, start)
    found = None if tool is None else _tool_called(at, tool)
    if found is None:
        fits = _wanted(name, message)
        certain = fits is None and message != _NO_FUNCTION
        found = _made_at(at, {name, *(frame[0] for frame in frames[:index])}, message, certain=certain)
        if found is None and message == _NO_FUNCTION:
            found = _called(at, start, Values(root))
        elif found is None and fits is not None:
            found = _first_fitting(fits, root, at, frames[index:], message)
    return index, *((line, byte_column) if found is None else place_of(found))


def place_of(node: Node) -> tuple[int, int]:
    return node.start_point[0] + 1, node.start_point[1] + 1


def _upwards(node: Node | None) -> Iterator[Node]:
    """The node and what it is in, from the inside out."""
    while node is not None:
        check()
        yield node
        node = node.parent


def first_argument(call: Node) -> Node | None:
    """The first argument."""
    arguments = call.child_by_field_name("arguments")
    return arguments.named_children[0] if arguments is not None and arguments.named_child_count else None


def _first_fitting(
    fits: Fits, root: Node, at: Node | None, frames: Sequence[Frame], message: str
) -> Node | None:
    """The first node that can have failed so; of those that surely have not, only when there is no other."""
    values, passed = Values(root), None
    nothing = _OF_NOTHING.search(message)
    for function, first in _functions_to_search(root, at, frames):
        for node in _inside(function):
            found = fits(node)
            if found is None or found.start_point < first or _argument_of_call_at(node, first):
                continue
            read = node.child_by_field_name("object")
            if read is None or nothing is None or values.known(read) in ("unknown", nothing[1]):
                return found
            passed = passed or found
        if passed is not None:
            return passed
    return None


def _is_error_class(root: Node, frame: Frame) -> bool:
    """Whether the frame is that of a constructor that only calls the one of the class it extends.

    A written one has the place of its `super(…)`; another one, the beginning of its class's line.
    """
    name, line, column = frame
    point = (line - 1, column - 1)
    node = root.descendant_for_point_range(point, point)
    if node is not None and node.type == "super":
        return True
    return any(
        found.start_point[0] == line - 1
        and text(found.child_by_field_name("name") or found) == name
        and any(child.type == "class_heritage" for child in found.children)
        and "constructor" not in text(found)
        for found in descendants(root)
        if found.type in ("class_declaration", "class")
    )


def _called(at: Node | None, place: tuple[int, int], values: Values) -> Node | None:
    """The name of what was called and is no function, None where the place is as good.

    A call gets its place only once it has been made: one that fails is reported at the last thing its arguments
    did. So a place that is the name of a call means that call if its arguments do nothing, else the call around it.
    """
    first = None
    for node in _upwards(at):
        parent = node.parent
        if parent is None or (node.type in FUNCTIONS and node.start_point != place):
            break
        call = parent if parent.type == "call_expression" else parent.parent
        callee = None if call is None else call.child_by_field_name("function")
        if callee is None or callee.type == "call_expression":  # the latter has no name that could be shown
            continue
        name = _callee_name(callee)
        if callee == node:
            failed = name.start_point == place and _is_silent(parent)
        else:
            failed = parent.type == "arguments"
        if failed:
            first = first or name
            if not _is_usual(callee, values):
                return name
    return first


def _tool_called(at: Node | None, tool: str) -> Node | None:
    """The tool's name in the call at this place: the place is that name, what it is a member of, or something in the
    call's arguments. Of calls in one another the one that is spelled like the tool."""
    first = None
    for node in _upwards(at):
        if node.parent is None or node.type in FUNCTIONS:
            break
        callee = node.parent.child_by_field_name("function")
        if node.parent.type == "call_expression" and callee is not None:
            name = _callee_name(callee)
            if tool.endswith(text(name).strip("'\"`")):
                return name
            first = first or name
    return first


def _callee_name(callee: Node) -> Node:
    return callee.child_by_field_name("property") or callee.child_by_field_name("index") or callee


def _is_silent(call: Node) -> bool:
    """Whether evaluating its arguments leaves no place behind, as literals do not."""
    first = first_argument(call)
    loud = (*FUNCTIONS, "identifier", "class", "call_expression", "member_expression")
    return first is None or first.type not in loud


def _is_usual(callee: Node, values: Values) -> bool:
    if callee.type == "identifier":
        return values.known(callee) == "something"
    return text(_callee_name(callee)) in _USUAL


def _made_at(at: Node | None, classes: set[str], message: str, *, certain: bool) -> Node | None:
    """The `new X(…)` or `Error(…)` that made the error: QuickJS points at its class, or at a call in its arguments.

    Not `certain`: the message is one of the engine's own, and a `new` is just the last place it noted before it."""
    found: Node | None = None
    for node in _upwards(at):
        if node.type in FUNCTIONS:
            break
        if node.type in CALLS:
            made = node.child_by_field_name("constructor") or node.child_by_field_name("function")
            of_class = made is not None and text(made) in classes
            given = first_argument(node)
            if of_class and given is not None and text(given)[1:-1] == message:
                return node
            if of_class or (certain and node.type == "new_expression" and at is not None and at == made):
                found = node
    return found


def _functions_to_search(
    root: Node, at: Node | None, frames: Sequence[Frame]
) -> Iterator[tuple[Node, tuple[int, int]]]:
    """Functions to look in, and from where: those that begin on the line when that is all we know."""
    name, line, column = frames[0]
    start, inner = (line - 1, column - 1), len(frames) > 1
    if inner and frames[1][1:] == (line, column):
        # A callback that has come to nothing with a place of its own has that of the call it is given to.
        for function in _given_to_call(at):
            yield function, (function.start_point[0], function.start_point[1])
    functions = [node for node in descendants(root) if node.type in FUNCTIONS]
    if start[1] == (1 if start[0] == 0 else 0):
        starting = [node for node in functions if node.start_point[0] == start[0]]
        if inner and len(starting) > 1 and starting[0].start_byte <= 1:
            starting = starting[1:]  # not the program's own function: it is the caller
        for function in starting:
            yield function, (function.start_point[0], function.start_point[1])
    # A place that is a function's very beginning was left by making it, so it belongs to the function around it; unless
    # that very function is the one that runs.
    begun = next((node for node in functions if node.start_point == start), None)
    named = None if begun is None else begun.child_by_field_name("name")
    if begun is not None and named is not None and text(named) == name:
        yield begun, start
    # Its closing brace is the place of a call of it.
    behind = (start[0], start[1] + 1)
    around = (
        node
        for node in _upwards(at)
        if node.type in FUNCTIONS and node.start_point != start and node.end_point != behind
    )
    yield next(around, root), start
    if begun is not None and named is None:
        yield begun, start


def _given_to_call(at: Node | None) -> list[Node]:
    """The functions among the arguments of the call at this place."""
    for node in _upwards(at):
        if node.type in FUNCTIONS:
            break
        if node.type in CALLS:
            return [argument for argument in arguments_of(node) if argument.type in FUNCTIONS]
    return []


def _inside(function: Node) -> Iterator[Node]:
    """Nodes of a function in the order they are evaluated, without those of functions inside it."""
    stack = [function]
    while stack:
        check()
        node = stack.pop()
        yield node
        if node is function or node.type not in FUNCTIONS:
            children = node.named_children
            if node.type in _VALUE_FIRST:
                children = sorted(children, key=lambda child: child.type in _PATTERNS)
            stack.extend(reversed(children))


def _argument_of_call_at(node: Node, place: tuple[int, int]) -> bool:
    """Arguments are evaluated before the call's position is noted: what is inside of them has not failed."""
    for up in _upwards(node.parent):
        if up.start_point < (place[0], 0):
            break
        callee = up.parent.child_by_field_name("function") if up.type == "arguments" and up.parent else None
        if callee is not None and (callee.child_by_field_name("property") or callee).start_point == place:
            return True
    return False


def _wanted(name: str, message: str) -> Fits | None:
    """What to look for, by the engine's message."""
    if name not in ("TypeError", "ReferenceError"):
        return None
    if match := _PROPERTY.match(message):
        return _iterated if match[1] == _ITERATOR else _property(match[1])
    if match := _NAME.match(message):
        kinds, wanted = ("identifier", "shorthand_property_identifier"), match[1].strip("'")
        return lambda node: node if node.type in kinds and text(node) == wanted else None
    if match := _READ_ONLY.match(message):
        return _assigned(match[1])
    if match := _LACKING.match(message):
        member = match[1]
        return lambda node: (
            node.child_by_field_name("property")
            if node.type == "member_expression" and text(node) == member
            else None
        )
    if message == _NOT_ITERABLE:
        return _looped
    if message.lower() == _TO_OBJECT:
        return lambda node: node if node.type == "object_pattern" else None
    return None


def _property(wanted: str) -> Fits:
    def fits(node: Node) -> Node | None:
        if node.type in _READS and any(child.type == "optional_chain" for child in node.children):
            return None  # `a?.b` itself never fails for a that is null
        key: Node | None = None
        if node.type == "member_expression":
            key = node.child_by_field_name("property")
        elif node.type == "subscript_expression":
            key = node.child_by_field_name("index")
            if key is not None and key.type not in ("string", "number"):
                return key
        elif node.type == "pair_pattern":
            key = node.child_by_field_name("key")
        elif node.type == "shorthand_property_identifier_pattern":
            key = node
        return key if key is not None and text(key).strip("'\"") == wanted else None

    return fits


def _assigned(wanted: str) -> Fits:
    fields = {
        "assignment_expression": "left",
        "augmented_assignment_expression": "left",
        "update_expression": "argument",
    }

    def fits(node: Node) -> Node | None:
        target = node.child_by_field_name(fields[node.type]) if node.type in fields else None
        return target if target is not None and text(target) == wanted else None

    return fits


def _looped(node: Node) -> Node | None:
    """What is looped over or spread here, unless it is surely a list or a text."""
    if node.type == "for_in_statement" and not any(child.type == "of" for child in node.children):
        return None
    if node.type == "spread_element" and node.parent is not None and node.parent.type == "object":
        return None
    found = _iterated(node)
    return None if found is None or found.type in ("array", "string", "template_string") else found


def _iterated(node: Node) -> Node | None:
    if node.type == "for_in_statement":
        return node.child_by_field_name("right")
    if node.type == "spread_element":
        return node.named_children[0] if node.named_children else None
    return node if node.type == "array_pattern" else None
