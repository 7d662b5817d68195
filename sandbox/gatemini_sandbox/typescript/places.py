"""Where an error of the engine really stands: QuickJS' coarse position made exact by looking at the code.

QuickJS records positions for calls, operators and expression statements only. A property read from null or an
unknown name is reported where the last of those stood before it, or at column 1 of the function's line. The
error's text says what to look for, so the first fitting node after that place, in the same function, is the one.
Runs only when a chain has failed. Above: steps.py. Below: known.py, tree-sitter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from tree_sitter import Node, Parser

from gatemini_sandbox.patience import check
from gatemini_sandbox.typescript.bindings import FUNCTIONS, binding_nodes
from gatemini_sandbox.typescript.known_values import Values
from gatemini_sandbox.typescript.parse import LANGUAGE, descendants

# What is taken apart is evaluated before the pattern that takes it.
_VALUE_FIRST = frozenset({"variable_declarator", "assignment_expression", "for_in_statement"})
_PATTERNS = frozenset({"object_pattern", "array_pattern"})
_PROPERTY = re.compile(r"cannot (?:read|set) property '(.*)' of (?:null|undefined)$", re.DOTALL)
_NAME = re.compile(r"(.+) is not (?:defined|initialized)$")
_READ_ONLY = re.compile(r"'(.+)' is read-only$")
_MODULE = re.compile(r"^could not load module '(.*)'$", re.DOTALL)
_LACKING = re.compile(r"([\w.]+) does not exist in this sandbox")
_TO_OBJECT = "cannot convert undefined or null to object"
_ITERATOR = "Symbol.iterator"
_NOT_ITERABLE = "value is not iterable"
_PRIVATE = re.compile(r"^undefined private field '(#.+)'$")
_THROWN = re.compile(r" \(thrown as \w+, not as an Error\)$")
_NO_FUNCTION = "not a function"
# Methods that what they are called on most likely has.
_USUAL = frozenset([
    *("at", "charAt", "concat", "entries", "filter", "find", "flat", "flatMap", "get", "has", "includes", "indexOf"),
    *("join", "keys", "map", "match", "padStart", "parse", "reduce", "repeat", "replace", "replaceAll", "reverse"),
    *("slice", "sort", "split", "stringify", "substring", "then", "toFixed", "toISOString", "toLowerCase", "toString"),
    *("toUpperCase", "trim", "values"),
])  # fmt: skip

# Promises of one program that are looked into; each may hold all the others.
MOST_PROMISES = 8

Fits = Callable[[Node], Node | None]
Frame = tuple[str, int, int]
"""Function, 1-based line, 1-based byte column."""


def refine(
    js: str, name: str, message: str, frames: Sequence[Frame], *, tool: str | None = None
) -> tuple[int, int, int]:
    """Which of the frames the error belongs to, and the 1-based line and byte column in it of what failed.

    `tool`: a call of this one failed, and the frames are those of the call."""
    root = Parser(LANGUAGE).parse(js.encode("utf-8", "replace")).root_node
    index = 0
    while index + 1 < len(frames) and _is_error_class(root, frames[index]):
        index += 1  # where the class is used says more than its own constructor
    _, line, byte_column = frames[index]
    start = (line - 1, byte_column - 1)
    at = root.descendant_for_point_range(start, start)
    if tool is not None and (called := _tool_called(at, tool)) is not None:
        return index, called.start_point[0] + 1, called.start_point[1] + 1
    fits = _wanted(name, message)
    made = _made_at(
        at,
        {name, *(frame[0] for frame in frames[:index])},
        message,
        certain=fits is None and message != _NO_FUNCTION,
    )
    if made is not None:
        return index, made.start_point[0] + 1, made.start_point[1] + 1
    if message == _NO_FUNCTION:
        called = _called(at, start, Values(root))
        return index, *(
            (called.start_point[0] + 1, called.start_point[1] + 1) if called else (line, byte_column)
        )
    found = fits and _first_fitting(fits, root, at, frames[index:], message)
    if found:
        return index, found.start_point[0] + 1, found.start_point[1] + 1
    return index, line, byte_column


def find_unplaced(js: str, name: str, message: str) -> tuple[int, int] | None:
    """The 1-based line and byte column of what the engine refuses without a place: an `import("x")`, a regex."""
    module, thrown, private = _MODULE.search(message), _THROWN.search(message), _PRIVATE.match(message)
    if name == "DeadlockError":
        return _only_pending(js)
    if module is None and thrown is None and name != "SyntaxError":
        return None
    if thrown is not None:
        return _only_throw(js, message[: thrown.start()])
    if private is not None:
        return _outside_its_class(js, private[1])
    found: Node | None = None
    for node in descendants(Parser(LANGUAGE).parse(js.encode("utf-8", "replace")).root_node):
        if module is not None:
            call = node.parent if node.type == "import" else None
            if call is not None and _first_argument(call) in (None, module[1]):
                return node.start_point[0] + 1, node.start_point[1] + 1
        elif node.type == "regex" and (found is None or (_is_pattern(found) and not _is_pattern(node))):
            found = node
    return None if found is None else (found.start_point[0] + 1, found.start_point[1] + 1)


def _outside_its_class(js: str, field: str) -> tuple[int, int] | None:
    """The private field read where no class around the place declares it."""
    for node in descendants(Parser(LANGUAGE).parse(js.encode("utf-8", "replace")).root_node):
        if node.type != "private_property_identifier" or _text(node) != field:
            continue
        around = node.parent
        while around is not None and not (around.type == "class_body" and _declares_field(around, field)):
            check()
            around = around.parent
        if around is None:
            return node.start_point[0] + 1, node.start_point[1] + 1
    return None


def _declares_field(body: Node, field: str) -> bool:
    named = [child.child_by_field_name("name") for child in body.named_children]
    return any(name is not None and _text(name) == field for name in named)


def _only_throw(js: str, shown: str) -> tuple[int, int] | None:
    """The one `throw`, or `Promise.reject`, of something that is surely no Error, where but one could be meant.

    `shown` is the text of what was thrown: a literal that reads otherwise was not it."""
    found: list[tuple[Node, Node]] = []
    for node in descendants(Parser(LANGUAGE).parse(js.encode("utf-8", "replace")).root_node):
        given: Node | None = None
        if node.type == "throw_statement" and node.named_children:
            given = node.named_children[0]
        elif node.type == "call_expression" and _text(node.children[0]) in ("Promise.reject", "reject"):
            arguments = node.child_by_field_name("arguments")
            given = (
                arguments.named_children[0] if arguments is not None and arguments.named_children else None
            )
        if given is not None and given.type not in ("new_expression", "call_expression"):
            found.append((node, given))
    told = [node for node, given in found if _reads(given, shown) is True]
    meant = told or [node for node, given in found if _reads(given, shown) is None]
    return (meant[0].start_point[0] + 1, meant[0].start_point[1] + 1) if len(meant) == 1 else None


def _reads(given: Node, shown: str) -> bool | None:
    """Whether a literal has this text; None where only running the code tells."""
    if given.type == "string":
        return None if "\\" in _text(given) else _text(given)[1:-1] == shown
    if given.type == "template_string":
        parts = [_text(part) for part in given.named_children if part.type == "string_fragment"]
        return None if all(part in shown for part in parts) else False
    return _text(given) == shown if given.type in ("number", "true", "false", "null", "undefined") else None


def _only_pending(js: str) -> tuple[int, int] | None:
    """The one `new Promise(…)` that nothing can settle: its function names no way to, or it is the only one."""
    made = [
        node
        for node in descendants(Parser(LANGUAGE).parse(js.encode("utf-8", "replace")).root_node)
        if node.type == "new_expression" and _text(node.children[1]) == "Promise"
    ]
    meant = [node for node in made[:MOST_PROMISES] if _never_settles(node)] or made
    return (meant[0].start_point[0] + 1, meant[0].start_point[1] + 1) if len(meant) == 1 else None


def _never_settles(promise: Node) -> bool:
    """Whether the function given to it does not use what it is given."""
    arguments = promise.child_by_field_name("arguments")
    function = arguments.named_children[0] if arguments is not None and arguments.named_children else None
    if function is None or function.type not in FUNCTIONS:
        return False
    names = {_text(name) for child in _parameters(function) for name in binding_nodes(child)}
    body = function.child_by_field_name("body")
    used = {_text(node) for node in descendants(body) if node.type == "identifier"} if body else set()
    return not names & used


def _parameters(function: Node) -> list[Node]:
    several, one = function.child_by_field_name("parameters"), function.child_by_field_name("parameter")
    return list(several.named_children) if several is not None else [one] if one is not None else []


def _is_pattern(regex: Node) -> bool:
    """Whether the literal would do as a pattern; as near as Python's own grammar of patterns comes."""
    pattern = regex.child_by_field_name("pattern")
    text = "" if pattern is None else _text(pattern)
    try:
        re.compile(re.sub(r"\(\?<(?![=!])", "(?P<", text).replace("\\/", "/"))
    except (re.error, OverflowError):
        return False
    return True


def _first_fitting(
    fits: Fits, root: Node, at: Node | None, frames: Sequence[Frame], message: str
) -> Node | None:
    """The first node that can have failed so; of those that surely have not, only when there is no other."""
    values, passed = Values(root), None
    for function, first in _places(root, at, frames):
        for node in _inside(function):
            found = fits(node)
            if found is None or found.start_point < first or _argument_of_call_at(node, first):
                continue
            if _may_be_nothing(node, values, message):
                return found
            passed = passed or found
        if passed is not None:
            return passed
    return None


def _may_be_nothing(node: Node, values: Values, message: str) -> bool:
    """Whether what the node reads from may have been the null or undefined of the message."""
    read = node.child_by_field_name("object")
    nothing = re.search(r" of (null|undefined)$", message)
    return read is None or nothing is None or values.known(read) in ("unknown", nothing[1])


def _is_error_class(root: Node, frame: Frame) -> bool:
    """Whether the frame is that of a constructor which only hands on to the class it extends.

    One that is written has the place of its `super(…)`; one that is not, the beginning of its class's line.
    """
    name, line, column = frame
    point = (line - 1, column - 1)
    node = root.descendant_for_point_range(point, point)
    if node is not None and node.type == "super":
        return True
    return any(
        found.start_point[0] == line - 1
        and _text(found.child_by_field_name("name") or found) == name
        and any(child.type == "class_heritage" for child in found.children)
        and b"constructor" not in (found.text or b"")
        for found in descendants(root)
        if found.type in ("class_declaration", "class")
    )


def _called(at: Node | None, place: tuple[int, int], values: Values) -> Node | None:
    """The name of what was called and is no function, None where the place is as good.

    A call gets its place only once it has been made: one that fails is reported at the last thing its arguments
    did. So a place that is the name of a call means that call if its arguments do nothing, else the call around it.
    """
    node, first = at, None
    while node is not None and node.parent is not None:
        check()
        parent = node.parent
        if node.type in FUNCTIONS and node.start_point != place:
            break
        call = parent if parent.type == "call_expression" else parent.parent
        callee = None if call is None else call.child_by_field_name("function")
        if callee is not None and callee == node:
            name = _callee_name(callee)
            if name.start_point == place and not _is_silent(parent):
                callee = None
        elif parent.type != "arguments":
            callee = None
        if callee is not None and callee.type == "call_expression":
            callee = None  # has no name that could be shown
        if callee is not None and (callee != node or _callee_name(callee).start_point == place):
            first = first or _callee_name(callee)
            if not _is_usual(callee, values):
                return _callee_name(callee)
        node = parent
    return first


def _tool_called(at: Node | None, tool: str) -> Node | None:
    """The tool's name in the call at this place: the place is that name, what it is a member of, or something in the
    call's arguments. Of calls in one another the one that is spelled like the tool."""
    node, first = at, None
    while node is not None and node.parent is not None and node.type not in FUNCTIONS:
        check()
        callee = node.parent.child_by_field_name("function")
        if node.parent.type == "call_expression" and callee is not None:
            name = _callee_name(callee)
            if tool.endswith(_text(name).strip("'\"`")):
                return name
            first = first or name
        node = node.parent
    return first


def _callee_name(callee: Node) -> Node:
    return callee.child_by_field_name("property") or callee.child_by_field_name("index") or callee


def _is_silent(call: Node) -> bool:
    """Whether evaluating its arguments leaves no place behind, as literals do not."""
    arguments = call.child_by_field_name("arguments")
    named = arguments.named_children if arguments is not None else []
    return not named or named[0].type not in (
        *FUNCTIONS,
        "identifier",
        "class",
        "call_expression",
        "member_expression",
    )


def _is_usual(callee: Node, values: Values) -> bool:
    if callee.type == "identifier":
        return values.known(callee) == "something"
    return _text(_callee_name(callee)) in _USUAL


def _made_at(at: Node | None, classes: set[str], message: str, *, certain: bool) -> Node | None:
    """The `new X(…)` or `Error(…)` that made the error: QuickJS points at its class, or at a call in its arguments.

    Not `certain`: the message is one of the engine's own, and a `new` is just the last place it noted before it."""
    found: Node | None = None
    node = at
    while node is not None and node.type not in FUNCTIONS:
        check()
        if node.type in ("new_expression", "call_expression"):
            made = node.child_by_field_name("constructor") or node.child_by_field_name("function")
            of_class = made is not None and _text(made) in classes
            if of_class and _first_argument(node) == message:
                return node
            if of_class or (certain and node.type == "new_expression" and at is not None and at == made):
                found = node
        node = node.parent
    return found


def _first_argument(call: Node) -> str | None:
    """The text of a string given first."""
    arguments = call.child_by_field_name("arguments")
    first = arguments.named_children[0] if arguments is not None and arguments.named_child_count else None
    return _text(first)[1:-1] if first is not None and first.type in ("string", "template_string") else None


def _places(root: Node, at: Node | None, frames: Sequence[Frame]) -> Iterator[tuple[Node, tuple[int, int]]]:
    """Functions to look in, and from where: those that begin on the line when that is all we know."""
    name, line, column = frames[0]
    start, inner = (line - 1, column - 1), len(frames) > 1
    if inner and frames[1][1:] == (line, column):
        # A callback that has come to nothing with a place of its own has that of the call it is given to.
        for function in _given_to_call(at):
            yield function, (function.start_point[0], function.start_point[1])
    if start[1] == (1 if start[0] == 0 else 0):
        starting = [node for node in _functions(root) if node.start_point[0] == start[0]]
        if inner and len(starting) > 1 and starting[0].start_byte <= 1:
            starting = starting[1:]  # not the program's own function: it is the caller
        for function in starting:
            yield function, (function.start_point[0], function.start_point[1])
    # A place that is a function's very beginning was left by making it, so it belongs to the function around it; unless
    # that very function is the one that runs.
    begun = next((node for node in _functions(root) if node.start_point == start), None)
    named = None if begun is None else begun.child_by_field_name("name")
    if begun is not None and named is not None and _text(named) == name:
        yield begun, start
    while at is not None and (at.type not in FUNCTIONS or at.start_point == start):
        check()
        at = at.parent
    yield (at or root), start
    if begun is not None and named is None:
        yield begun, start


def _given_to_call(at: Node | None) -> list[Node]:
    """The functions among the arguments of the call at this place."""
    node = at
    while node is not None and node.type not in FUNCTIONS:
        check()
        if node.type in ("call_expression", "new_expression"):
            arguments = node.child_by_field_name("arguments")
            return [] if arguments is None else [n for n in arguments.named_children if n.type in FUNCTIONS]
        node = node.parent
    return []


def _functions(node: Node) -> Iterator[Node]:
    stack = [node]
    while stack:
        check()
        node = stack.pop()
        if node.type in FUNCTIONS:
            yield node
        stack.extend(reversed(node.named_children))


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
    """Arguments are evaluated before the call's position is recorded: what stands in them has not failed."""
    up = node.parent
    while up is not None and up.start_point >= (place[0], 0):
        check()
        if up.type == "arguments" and up.parent is not None:
            callee = up.parent.child_by_field_name("function")
            name = None if callee is None else callee.child_by_field_name("property") or callee
            if name is not None and name.start_point == place:
                return True
        up = up.parent
    return False


def _wanted(name: str, message: str) -> Fits | None:
    if name not in ("TypeError", "ReferenceError"):
        return None
    match = _PROPERTY.match(message)
    if match:
        return _iterated if match.group(1) == _ITERATOR else _property(match.group(1))
    match = _NAME.match(message)
    if match:
        return _identifier(match.group(1).strip("'"))
    match = _READ_ONLY.match(message)
    if match:
        return _assigned(match.group(1))
    match = _LACKING.match(message)
    if match:
        return _member(match.group(1))
    if message == _NOT_ITERABLE:
        return _looped
    return _taken_apart if message.lower() == _TO_OBJECT else None


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def _is_optional(node: Node) -> bool:
    """`a?.b` itself never fails for a that is null."""
    return any(child.type == "optional_chain" for child in node.children)


def _property(wanted: str) -> Fits:
    def fits(node: Node) -> Node | None:
        match node.type:
            case "member_expression" | "subscript_expression" if _is_optional(node):
                return None
            case "member_expression":
                found = node.child_by_field_name("property")
                return found if found is not None and _text(found) == wanted else None
            case "subscript_expression":
                index = node.child_by_field_name("index")
                if index is None:
                    return None
                literal = index.type in ("string", "number")
                return index if not literal or _text(index).strip("'\"") == wanted else None
            case "pair_pattern":
                key = node.child_by_field_name("key")
                return key if key is not None and _text(key) == wanted else None
            case "shorthand_property_identifier_pattern":
                return node if _text(node) == wanted else None
        return None

    return fits


def _identifier(wanted: str) -> Fits:
    kinds = ("identifier", "shorthand_property_identifier")
    return lambda node: node if node.type in kinds and _text(node) == wanted else None


def _member(wanted: str) -> Fits:
    return lambda node: (
        node.child_by_field_name("property")
        if node.type == "member_expression" and _text(node) == wanted
        else None
    )


def _assigned(wanted: str) -> Fits:
    def fits(node: Node) -> Node | None:
        if node.type in ("assignment_expression", "augmented_assignment_expression"):
            target = node.child_by_field_name("left")
        elif node.type == "update_expression":
            target = node.child_by_field_name("argument")
        else:
            return None
        return target if target is not None and _text(target) == wanted else None

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
    if node.type == "array_pattern":
        return node
    return None


def _taken_apart(node: Node) -> Node | None:
    return node if node.type == "object_pattern" else None
