"""Find what code reads from the results of tool calls."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import msgspec
from tree_sitter import Node

from gatemini_sandbox.messages import OF_A_KIND, Read, ReadKind, Source
from gatemini_sandbox.typescript.nodes import arguments_of, text
from gatemini_sandbox.typescript.parse import parse
from gatemini_sandbox.typescript.positions import SourceText
from gatemini_sandbox.typescript.reads.certainty import Certainty, Uncertain
from gatemini_sandbox.typescript.reads.method_calls import PAIRED, called, member_name
from gatemini_sandbox.typescript.reads.origins import Origins
from gatemini_sandbox.typescript.reads.parts import Origin, values_in
from gatemini_sandbox.typescript.reads.scopes import Scopes
from gatemini_sandbox.typescript.reads.uses import Use, Uses

MOST_CODE: Final = 32 * 1024
"""Characters of code that are read for this."""
MOST_READS: Final = 200
SHOWN: Final = 60
_IDENTITY = re.compile(r"\.filter\(\s*(?:Boolean|\(?(\w+)\)?\s*=>\s*(?:!!)?\1)\s*\)")
_CHANGED_AS_A_WHOLE = re.compile(
    r"\bObject\s*\.\s*(?:assign|definePropert|setPrototypeOf)\w*\(\s*(?!\{)|\bReflect\s*\.\s*set|\bnew\s+Proxy\b|\bwith\s*\("
)


def find_reads(source: str, backends: frozenset[str]) -> list[Read]:
    """The reads in the order of the text; `backends` are the globals that are backends."""
    if len(source) > MOST_CODE or _CHANGED_AS_A_WHOLE.search(source):
        return []
    submitted = SourceText(source)
    root = parse(submitted.data).root
    return [] if root.has_error else _Finder(Scopes(root), submitted, backends).run()


class _Finder:
    def __init__(self, scopes: Scopes, submitted: SourceText, backends: frozenset[str]) -> None:
        self._scopes = scopes
        self._submitted = submitted
        self._origins = Origins(scopes, backends)
        self._uses = Uses(self._origins)
        self._certainty = Certainty(self._origins)
        self._maybe_sifted = _IDENTITY.search(submitted.text) is not None
        self._whole = self._asked_whole()

    def run(self) -> list[Read]:
        seen = [*self._accesses(), *self._patterns(), *self._loops()]
        elsewhere = self._asked()
        asked = {name for _, name, _, use in seen if use == "asked"} | elsewhere
        found: list[Read] = []
        for node, name, origin, use in seen:
            if not use or name in (elsewhere if use == "asked" else asked) or len(found) == MOST_READS:
                continue
            read = self._read(node, name, origin, use)
            if read is not None:
                found.append(read)
                if use in OF_A_KIND:
                    found.append(msgspec.structs.replace(read, kind=use))
        return sorted(found, key=lambda read: (read.line, read.column))

    # -- candidates -----------------------------------------------------------------------------------

    def _accesses(self) -> Iterator[tuple[Node, str, Origin, Use]]:
        """`x.name` and `x["name"]`."""
        for kind in ("member_expression", "subscript_expression"):
            for node in self._scopes.nodes.get(kind, []):
                owner, name = node.child_by_field_name("object"), member_name(node)
                if owner is None or name is None:
                    continue
                if _is_written(node):
                    yield node, name, None, "asked"
                    continue
                use = self._uses.of(node)
                if node.child_by_field_name("optional_chain") is not None or (
                    use == "taken" and self._maybe_sifted and _is_item(node)
                ):
                    use = "asked"
                if use == "called" and name in ("includes", "indexOf") and _looks_for_text(node):
                    use = "held"
                yield node, name, self._origins.of(owner) if use else None, use

    def _patterns(self) -> Iterator[tuple[Node, str, Origin, Use]]:
        """`const { name } = x`, also as a parameter."""
        for binding in dict.fromkeys(self._scopes.by_use.values()):
            giver = binding.givers[0]
            if len(binding.givers) != 1 or not giver.steps or not isinstance(giver.steps[-1], str):
                continue
            name, use = giver.steps[-1], self._uses.of_name(binding.node)
            whole = replace(giver, steps=giver.steps[:-1])
            yield binding.node, name, self._origins.given(whole), use

    def _loops(self) -> Iterator[tuple[Node, str, Origin, Use]]:
        """`for (… of x)`; `[...x]` and `const [a] = x`, which is all that text is taken apart by on purpose."""
        found: list[tuple[Node | None, Use]] = []
        for node in self._scopes.nodes.get("for_in_statement", []):
            if any(child.type == "of" for child in node.children):
                found.append((node.child_by_field_name("right"), "looped"))
        for node in self._scopes.nodes.get("spread_element", []):
            if node.parent is not None and node.parent.type != "object":
                found.append((node.named_children[0], "called"))
        for node in self._scopes.nodes.get("variable_declarator", []):
            name = node.child_by_field_name("name")
            if name is not None and name.type == "array_pattern":
                found.append((node.child_by_field_name("value"), "called"))
        for value, use in found:
            if value is not None:
                yield value, "", self._origins.of(value), use

    def _asked(self) -> set[str]:
        """Names that code asks for in other ways, or gives to objects itself."""
        found: set[str] = set()
        for node in self._scopes.nodes.get("binary_expression", []):
            operator, left = node.child_by_field_name("operator"), node.child_by_field_name("left")
            if operator is not None and left is not None and operator.type == "in":
                found.add(text(left).strip("\"'`"))
        for node in self._scopes.nodes.get("call_expression", []):
            if called(node)[1] in ("hasOwn", "hasOwnProperty", "get", "has"):
                found |= {text(argument).strip("\"'`") for argument in arguments_of(node)}
        for kind in ("object_assignment_pattern", "assignment_pattern"):
            for node in self._scopes.nodes.get(kind, []):
                left = node.child_by_field_name("left")
                found |= {text(left)} if left is not None else set()
                pair = node.parent
                if pair is not None and pair.type == "pair_pattern":
                    key = pair.child_by_field_name("key")
                    found |= {text(key)} if key is not None else set()
        return found

    def _asked_whole(self) -> set[tuple[str, str]]:
        """Tools whose whole MCP result the code asks for, or that it handles as values."""
        found: set[tuple[str, str]] = set()
        for node in self._scopes.nodes.get("member_expression", []):
            owner = node.child_by_field_name("object")
            if (
                owner is not None
                and owner.type in ("member_expression", "subscript_expression")
                and member_name(node) == "raw"
            ):
                backend = owner.child_by_field_name("object")
                found.add((text(backend) if backend is not None else "", member_name(owner) or ""))
        return found

    # -- one read -------------------------------------------------------------------------------------

    def _read(self, node: Node, name: str, origin: Origin, use: Use) -> Read | None:
        values = values_in(origin)
        if not values:
            return None
        sources: list[Source] = []
        for value in values:
            if (value.site.backend, value.site.tool) in self._whole:
                return None
            try:
                path = self._certainty.path(value, node)
            except Uncertain:
                return None
            sources.append(Source(value.site.backend, value.site.tool, path))
        place = node.child_by_field_name("property") if use in ("called", "held") else node
        line, column = self._submitted.position((place or node).start_byte)
        kind: ReadKind = "paired" if _is_paired(node) else "plain"
        if use in ("asked", "entered", "sifted", "called", "held", "looped"):
            kind = use
        return Read(line, column, " ".join(text(node).split())[:SHOWN], name, kind, sources)


def _looks_for_text(access: Node) -> bool:
    """Whether the method gets text or a number that is written there."""
    given = arguments_of(access.parent) if access.parent is not None else []
    return bool(given) and given[0].type in ("string", "template_string", "number")


def _is_written(node: Node) -> bool:
    """Whether the member is a target, or deleted."""
    parent = node.parent
    if parent is None:
        return False
    if parent.type in ("assignment_expression", "augmented_assignment_expression"):
        return parent.child_by_field_name("left") == node
    return parent.type in ("update_expression", "array_pattern", "pair_pattern", "rest_pattern")


def _is_item(node: Node) -> bool:
    """Whether it may be what a list that is sifted later has as an item."""
    parent = node.parent
    return parent is not None and parent.type in (
        "arrow_function",
        "return_statement",
        "arguments",
        "array",
        "pair",
    )


def _is_paired(node: Node) -> bool:
    """Whether it is in a callback that runs only where there are two items."""
    up = node.parent
    while up is not None:
        if up.type == "arguments" and up.parent is not None and called(up.parent)[1] in PAIRED:
            return True
        up = up.parent
    return False
