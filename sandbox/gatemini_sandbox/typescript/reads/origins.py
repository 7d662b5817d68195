"""RecordedCalls an expression back to the tool calls that its value comes from.

What is not certain has no origin (None): a member read of it is not looked at.
"""

from __future__ import annotations

from typing import Final

from tree_sitter import Node

from gatemini_sandbox.typescript.bindings import FUNCTIONS
from gatemini_sandbox.typescript.nodes import WRAPPERS, arguments_of, is_async, text, uncommented
from gatemini_sandbox.typescript.reads.filled import Filled
from gatemini_sandbox.typescript.reads.method_calls import (
    EACH,
    ONE_ITEM,
    SAME_ITEMS,
    SIFTING,
    callback_of,
    called,
    member_name,
)
from gatemini_sandbox.typescript.reads.parts import (
    Filtered,
    Fixed,
    Keyed,
    Listed,
    Literal,
    Origin,
    Parsed,
    Part,
    Pending,
    Sifted,
    Site,
    Value,
    awaited,
    each,
    is_array,
    items_of,
    pending,
    settled,
    stepped,
    union,
)
from gatemini_sandbox.typescript.reads.scopes import Binding, Giver, Scopes

_NOTHING: Final = frozenset(["null", "undefined", "number", "string", "true", "false", "template_string"])
MOST_DEEP: Final = 60


class Origins:
    """The origins of one program's expressions; `backends` are the globals that are backends."""

    def __init__(self, scopes: Scopes, backends: frozenset[str]) -> None:
        self.scopes = scopes
        self.backends = backends
        self._known: dict[int, Origin] = {}
        self._bound: dict[int, Origin] = {}
        self._deep = 0
        self._filled = Filled(self.of)

    def of(self, node: Node) -> Origin:
        if node.id in self._known:
            return self._known[node.id]
        if self._deep > MOST_DEEP:
            return None
        self._known[node.id] = ()  # what leads back to itself adds nothing
        self._deep += 1
        found = self._of(node)
        self._deep -= 1
        self._known[node.id] = found
        return found

    def _of(self, node: Node) -> Origin:
        kind = node.type
        if kind in WRAPPERS:
            return self.of(node.named_children[0]) if node.named_children else None
        if kind == "await_expression":
            return awaited(self.of(node.named_children[0])) if node.named_children else None
        if kind in ("identifier", "shorthand_property_identifier"):
            binding = self.scopes.by_use.get(node.id)
            if binding is None:
                return () if text(node) == "undefined" else None
            return self.bound(binding)
        if kind in ("member_expression", "subscript_expression"):
            return self._member(node)
        if kind == "call_expression":
            return self._call(node)
        if kind == "new_expression":
            return self._made(node)
        if kind == "array":
            return self._array(node)
        if kind == "object":
            return (Literal(node),)
        return () if kind in _NOTHING else self._either(node)

    def _either(self, node: Node) -> Origin:
        """One of two: `a ?? b`, `a || b`, `test ? a : b`."""
        field_of = node.child_by_field_name
        if node.type == "ternary_expression":
            sides = (field_of("consequence"), field_of("alternative"))
        elif node.type == "binary_expression":
            operator = field_of("operator")
            if operator is None or operator.type not in ("??", "||", "&&"):
                return None
            sides = (None if operator.type == "&&" else field_of("left"), field_of("right"))
        else:
            return None
        return union(self.of(side) for side in sides if side is not None)

    # -- names ----------------------------------------------------------------------------------------

    def bound(self, binding: Binding) -> Origin:
        key = binding.node.id
        if key in self._bound:
            return self._bound[key]
        self._bound[key] = ()
        found = None if binding.changed else union(self.given(giver) for giver in binding.givers)
        self._bound[key] = found = self._filled.filled(binding, found)
        return found

    def given(self, giver: Giver) -> Origin:
        if giver.kind == "value":
            # `let x;` has no value of its own.
            origin = () if giver.node.type == "variable_declarator" else self.of(giver.node)
        elif giver.kind == "item":
            owner = giver.node.parent
            origin = each(self.of(giver.node), owner.id if owner is not None else 0)
        elif giver.kind == "parameter":
            origin = self._parameter(giver.node, giver.place)
        else:
            return None
        for step in giver.steps:
            origin = self.into(origin, step)
        return origin

    def into(self, origin: Origin, step: str | int) -> Origin:
        if origin is None:
            return None
        if isinstance(step, str):
            return union(self._into(part, step) for part in origin)
        fixed = [part for part in origin if isinstance(part, Fixed)]
        if fixed:
            if len(fixed) < len(origin):
                return None
            return union(part.parts[step] if step < len(part.parts) else () for part in fixed)
        return each(origin, f"[{step}]")

    def _into(self, part: Part, name: str) -> Origin:
        if isinstance(part, Value):
            return None if name == "length" else (Value(part.site, (*part.path, name)),)
        if isinstance(part, Keyed):
            return part.values
        if isinstance(part, Literal):
            return self._of_literal(part.node, name)
        return None

    def _of_literal(self, node: Node, name: str) -> Origin:
        for child in node.named_children:
            if child.type == "pair":
                key, value = child.child_by_field_name("key"), child.child_by_field_name("value")
                if key is not None and value is not None and text(key).strip("\"'") == name:
                    return self.of(value)
            elif child.type == "shorthand_property_identifier" and text(child) == name:
                return self.of(child)
        return None

    # -- functions ------------------------------------------------------------------------------------

    def _parameter(self, function: Node, place: int) -> Origin:
        call = callback_of(function)
        if call is not None:
            return self._passed(call, place)
        uses = self.uses_of(function)
        if not uses:
            return None
        found: list[Origin] = []
        for use in uses:
            up = use.parent
            if up is not None and up.type == "call_expression" and up.child_by_field_name("function") == use:
                arguments = arguments_of(up)
                if any(one.type == "spread_element" for one in arguments):
                    return None
                found.append(self.of(arguments[place]) if place < len(arguments) else ())
            elif up is not None and up.type == "arguments" and (call := callback_of(use)) is not None:
                found.append(self._passed(call, place))
            else:
                return None
        return union(found)

    def uses_of(self, function: Node) -> list[Node]:
        """Where a function with a name of its own is used."""
        parent = function.parent
        is_value = parent is not None and parent.type == "variable_declarator"
        name = (parent if is_value and parent is not None else function).child_by_field_name("name")
        binding = self.scopes.by_use.get(name.id) if name is not None else None
        return [] if binding is None or len(binding.givers) != 1 else binding.uses

    def _passed(self, call: Node, place: int) -> Origin:
        """What a method gives to its callback as its first, second, … parameter."""
        owner, method = called(call)
        if owner is None:
            return None
        receiver = arguments_of(call)[0] if text(owner) in ("Object", "Map", "Array") else owner
        if method in ("sort", "toSorted") and place < 2:
            return each(self.of(receiver), call.id)
        if method == "reduce":
            return each(self.of(receiver), call.id) if place == 1 else None
        if method == "then":
            return awaited(self.of(owner)) if place == 0 else None
        if place == 0 and (method in EACH or method in ("groupBy", "from")):
            return each(self.of(receiver), call.id)
        return None

    def returned(self, function: Node) -> Origin:
        """What a call of the function gives: a promise where it is async."""
        body = function.child_by_field_name("body")
        if body is None or any(child.type == "*" for child in function.children):
            return None
        given = self.of(body) if body.type != "statement_block" else self._of_returns(body)
        return pending(awaited(given)) if is_async(function) else given

    def _of_returns(self, body: Node) -> Origin:
        found: list[Origin] = []
        stack = list(body.named_children)
        while stack:
            node = stack.pop()
            if node.type == "return_statement":
                values = uncommented(node.named_children)
                found += [self.of(values[0])] if values else []
            elif node.type not in FUNCTIONS:
                stack.extend(node.named_children)
        return union(found)

    def _function(self, node: Node) -> Node | None:
        """The function an expression is."""
        while node.type in WRAPPERS and node.named_children:
            node = node.named_children[0]
        if node.type in FUNCTIONS:
            return node
        binding = self.scopes.by_use.get(node.id) if node.type == "identifier" else None
        if binding is None or len(binding.givers) != 1 or binding.givers[0].steps:
            return None
        giver = binding.givers[0]
        is_function = giver.kind == "function" or (giver.kind == "value" and giver.node.type in FUNCTIONS)
        return giver.node if is_function else None

    # -- expressions ----------------------------------------------------------------------------------

    def site(self, call: Node) -> Site | None:
        """The tool that is called, where the code names it."""
        function = call.child_by_field_name("function")
        owner = function.child_by_field_name("object") if function is not None else None
        if (
            function is None
            or owner is None
            or owner.type != "identifier"
            or text(owner) not in self.backends
        ):
            return None
        if owner.id in self.scopes.by_use:
            return None
        tool = member_name(function)
        return None if tool is None or tool in ("readResource", "call") else Site(call, text(owner), tool)

    def _member(self, node: Node) -> Origin:
        owner = node.child_by_field_name("object")
        if owner is None:
            return None
        name = member_name(node)
        if name is not None:
            return self.into(self.of(owner), name)
        index = node.child_by_field_name("index")
        if index is not None and index.type == "number" and text(index).isdecimal():
            return self.into(self.of(owner), int(text(index)))
        if index is None:
            return None
        origin = self.of(owner)
        if origin is not None and all(isinstance(part, Keyed) for part in origin):
            return union(part.values for part in origin if isinstance(part, Keyed))
        return each(origin, f"[{text(index)}]")

    def _call(self, node: Node) -> Origin:
        site = self.site(node)
        if site is not None:
            return (Pending((Value(site),)),)
        owner, method = called(node)
        arguments = arguments_of(node)
        if owner is None:
            function = node.child_by_field_name("function")
            made = None if function is None else self._function(function)
            return None if made is None else self.returned(made)
        if text(owner) in ("Promise", "Object", "Map", "Array", "JSON"):
            return self._built_in(text(owner), method, arguments, node)
        origin = self.of(owner)
        if origin is None:
            return None
        if method in ("map", "flatMap"):
            return self._mapped(arguments, flat=method == "flatMap")
        if method in SIFTING and arguments:
            return self._sifted(origin, method, arguments[0], node)
        if method == "concat":
            others = (
                o if all(isinstance(p, (Value, Listed, Fixed)) for p in o or ()) else None
                for o in map(self.of, arguments)
            )
            return (Listed(union(each(one, node.id) for one in (origin, *others))),)
        if method in SAME_ITEMS:
            return origin
        if method in ONE_ITEM:
            return each(origin, node.id)
        if method == "get" and all(isinstance(part, Keyed) for part in origin):
            return union(part.values for part in origin if isinstance(part, Keyed))
        if method == "then" and arguments and (function := self._function(arguments[0])) is not None:
            return pending(awaited(self.returned(function)))
        if method == "catch" and arguments:
            function = self._function(arguments[0])
            return None if function is None else union((origin, awaited(self.returned(function))))
        return origin if method == "finally" else None

    def _mapped(self, arguments: list[Node], *, flat: bool) -> Origin:
        function = self._function(arguments[0]) if arguments else None
        if function is None:
            return None
        items = self.returned(function)
        if flat:
            items = each(items, function.id)
        return None if items is None else (Listed(items),)

    def _sifted(self, origin: tuple[Part, ...], method: str, argument: Node, call: Node) -> Origin:
        function = self._function(argument)
        if function is None or is_async(function) or not is_array(origin):
            return None
        if method == "filter":
            return tuple(Filtered(part, function) for part in origin)
        return stepped(each(origin, call.id), Sifted(function))

    def _built_in(self, owner: str, method: str, arguments: list[Node], call: Node) -> Origin:
        if not arguments:
            return None
        origin = self.of(arguments[0])
        if owner == "Promise":
            return pending(settled(origin)) if method == "all" else None
        if method == "groupBy":
            items = each(origin, call.id)
            return None if items is None else (Keyed((Listed(items),)),)
        if (owner, method) == ("JSON", "parse"):
            return stepped(origin, Parsed())
        if (owner, method) == ("Array", "from"):
            if len(arguments) > 1:
                return self._mapped(arguments[1:], flat=False)
            return origin if is_array(origin) else None
        if owner == "Object" and method in ("values", "entries") and origin is not None:
            values_of = union(
                part.values
                if isinstance(part, Keyed)
                else items_of(part, call.id)
                if isinstance(part, Value)
                else None
                for part in origin
            )
            if values_of is None:
                return None
            return (Listed(values_of if method == "values" else (Fixed(((), values_of)),)),)
        return None

    def _made(self, node: Node) -> Origin:
        """`new Map(pairs)`, `new Set(items)`, and empty ones."""
        name, arguments = node.child_by_field_name("constructor"), arguments_of(node)
        if name is None or text(name) not in ("Map", "Set"):
            return None
        origin = self.of(arguments[0]) if arguments else ()
        if text(name) == "Set":
            return None if origin is None else (Listed(each(origin, node.id)),)
        pairs = each(origin, node.id)
        return None if pairs is None else (Keyed(self.into(pairs, 1)),)

    def _array(self, node: Node) -> Origin:
        children = uncommented(node.named_children)
        if not any(child.type == "spread_element" for child in children):
            return (Fixed(tuple(self.of(child) for child in children)),)
        items = (
            each(self.of(child.named_children[0]), child.id)
            if child.type == "spread_element"
            else self.of(child)
            for child in children
        )
        return (Listed(union(items)),)
