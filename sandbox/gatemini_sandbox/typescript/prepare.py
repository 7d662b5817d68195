"""Make the text an agent sends a script that the guest can run, with the way back for positions.

In order: parse.py (one parse), erase.py (types away), shape.py (what gives
the value), facts.py (how backends are used), oxc.py (the second parser, for enums and the like and where the first fails), diagnose.py (what is
wrong where that fails too). The same text and backends give the same program; programs are cached.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

from tree_sitter import Node

from gatemini_sandbox.messages import Read
from gatemini_sandbox.typescript.diagnosis.diagnose import (
    check_awaits,
    check_characters,
    check_comment,
    syntax_error,
)
from gatemini_sandbox.typescript.diagnosis.regexes import check_regexes
from gatemini_sandbox.typescript.diagnosis.returned import Given, returned
from gatemini_sandbox.typescript.facts import Facts, gather
from gatemini_sandbox.typescript.javascript.erase import Eraser
from gatemini_sandbox.typescript.javascript.shape import Kind, Shape, Shaper
from gatemini_sandbox.typescript.nodes import with_functions
from gatemini_sandbox.typescript.parse import BeyondRepair, Parsed, parse
from gatemini_sandbox.typescript.positions import Patch, Patched, SourceText
from gatemini_sandbox.typescript.reads.find_reads import find_reads
from gatemini_sandbox.typescript.second_parser import oxc
from gatemini_sandbox.typescript.syntax_error import SandboxSyntaxError

_HEAD = "(async function(){'use strict';"
_TAIL = "\n})"

# Programs kept, and the largest text worth keeping: together at most some 20 MB.
CACHED_PROGRAMS = 128
CACHED_LENGTH = 64 * 1024

# Nodes whose erasing ends in an error that names them; what is in an ambient declaration goes with it.
_NAMED = ("ambient_declaration", "decorator", "public_field_definition", "using", "internal_module", "module")
# What TypeScript writes code for, and casts in front, which may leave an operand that reads as a block: these go
# through OXC.
_NAMESPACES = ("internal_module", "module")
_EMITTED = ("enum_declaration", "type_assertion", "property_parameter", "import_alias", *_NAMESPACES)
# OXC exports enums in this form, and takes from a namespace only constants.
_EXPORTED_ENUM = re.compile(r"export let (?=(\w+) = /\* @__PURE__ \*/ function\(\1\))")
# What OXC leaves to do, types that are exported among it. Other types that the parse sees in its print are none: `[a < b, c > -1]` are two comparisons.
_LEFT_BY_OXC = (
    "decorator",
    "using",
    "import",
    "interface_declaration",
    "type_alias_declaration",
    "ambient_declaration",
)


Positions = Callable[[int, int], tuple[int, int]]
"""1-based line and byte column in the guest's text -> line and column in the submitted text."""


def _positions(submitted: SourceText, patched: Patched, alignment: oxc.Alignment | None = None) -> Positions:
    """Back over our edits, then over OXC's printing if there was one."""

    def back(line: int, byte_column: int) -> tuple[int, int]:
        offset = patched.original(patched.offset(line, byte_column))
        return submitted.position(offset if alignment is None else alignment.offset(offset))

    return back


@dataclass(frozen=True)
class Program:
    """`js` is a script whose completion value is an async function; what that function returns is the chain's value.

    Positions are 1-based (line, column in code points) in the submitted text.
    """

    source: str
    js: str
    shape: Kind
    exact: bool
    needs_catalog: bool
    interface_literals: frozenset[str]
    needs_interfaces: bool
    shadowed: Mapping[str, tuple[int, int]]
    declared_never_called: str | None
    lost_value: tuple[int, int, str] | None
    read: frozenset[str]
    rounded: tuple[tuple[int, int, str], ...]
    backends: frozenset[str]
    position: Positions = field(repr=False, compare=False)

    def reads(self) -> tuple[Read, ...]:
        """The members that the submitted text reads from results of calls."""
        return _reads(self.source, self.backends)

    def returned(self) -> tuple[Given, ...]:
        """The expressions of the submitted text that may have given its value."""
        return returned(self.source)


@lru_cache(CACHED_PROGRAMS)
def _reads(source: str, backends: frozenset[str]) -> tuple[Read, ...]:
    return tuple(find_reads(source, backends))


def prepare(source: str, backends: Collection[str] = (), watched: frozenset[str] = frozenset()) -> Program:
    """Make the submitted text runnable; raises SandboxSyntaxError. `backends` are the identifiers of the globals,
    `watched` the names the program's `read` is about (facts.gather)."""
    make = _kept if len(source) <= CACHED_LENGTH else _prepare
    return make(source, frozenset(backends), watched)


def _prepare(source: str, backends: frozenset[str], watched: frozenset[str]) -> Program:
    submitted = SourceText(source)
    check_comment(submitted)
    parsed = _parsed(submitted)
    emitted = parsed is not None and _is_emitted(parsed)
    if parsed is None or parsed.doubtful or emitted:
        if parsed is not None:  # named errors first: OXC leaves these as they are, or words them worse
            Eraser(parsed, submitted, Patch(parsed.data)).run([n for n in parsed.nodes if n[0] in _NAMED])
        try:
            printed = _printed(submitted, parsed)
        except oxc.Refused as refusal:
            if parsed is None or parsed.root.has_error or emitted:
                raise syntax_error(str(refusal), submitted, parsed) from None
        else:
            known = parsed if parsed is not None and not parsed.root.has_error else None
            return _reprinted(source, submitted, known, printed, backends, watched)
    patched, shape = _erased(parsed, submitted, backends)
    facts = gather(parsed, submitted, backends, watched)
    return _program(source, backends, patched, shape, facts, _positions(submitted, patched), exact=True)


_kept = lru_cache(CACHED_PROGRAMS)(_prepare)


def _parsed(submitted: SourceText) -> Parsed | None:
    """What the first parser makes of the text; None where it gives up on the text's errors."""
    try:
        parsed = parse(submitted.data)
    except BeyondRepair:
        return None
    if not parsed.data.isascii():
        check_characters(parsed, submitted)
    check_regexes(parsed, submitted)
    return parsed


def _is_emitted(parsed: Parsed) -> bool:
    """Whether TypeScript writes code for something in the text; for ambient declarations it writes none."""
    ambient_until = 0
    for kind, node in parsed.nodes:
        if kind == "ambient_declaration":
            ambient_until = node.end_byte
        elif kind in _EMITTED and node.start_byte >= ambient_until:
            return True
    return False


def _printed(submitted: SourceText, parsed: Parsed | None) -> str:
    """What OXC makes of the text. It takes a `return` only in a function, and namespaces only outside of one: where it
    has left namespaces, the text's own returns become marked throws for a second run."""
    code = submitted.text
    if parsed is not None and not parsed.root.has_error:
        patch = Patch(parsed.data)
        for offset in parsed.breaks:
            patch.insert_after(offset, b";")
        code = patch.apply().data.decode("utf-8", "replace")
    printed = oxc.transform(code)
    again = parse(_EXPORTED_ENUM.sub("export const ", printed).encode())
    if not any(kind in _NAMESPACES for kind, _ in again.nodes):
        return printed
    patch = Patch(again.data)
    for kind, node, function in with_functions(again.nodes):
        if kind == "return_statement" and function is None:
            value = b"" if node.named_child_count else b" void 0"
            patch.replace(
                node.start_byte, node.start_byte + len(b"return"), oxc.MARKED_RETURN.encode() + value
            )
    return oxc.transform_namespaces(patch.apply().data.decode())


def _erased(
    parsed: Parsed, text: SourceText, backends: frozenset[str], nodes: list[tuple[str, Node]] | None = None
) -> tuple[Patched, Shape]:
    """The steps that note edits, in order, and their result."""
    patch = Patch(parsed.data)
    for offset in parsed.breaks:
        patch.insert_after(offset, b";")
    check_awaits(parsed, text)
    Eraser(parsed, text, patch).run(parsed.nodes if nodes is None else nodes)
    shape = Shaper(parsed, text, patch, backends).run()
    return patch.apply((_HEAD + shape.prefix).encode(), (shape.suffix + _TAIL).encode()), shape


def _reprinted(
    source: str,
    submitted: SourceText,
    known: Parsed | None,
    printed: str,
    backends: frozenset[str],
    watched: frozenset[str],
) -> Program:
    """The same steps on what OXC printed; the facts are those of the submitted text where its parse is `known`."""
    text = SourceText(printed)
    parsed = parse(text.data)
    alignment = oxc.Alignment(text.data, submitted.data)

    def back(line: int, column: int) -> tuple[int, int]:
        return submitted.position(alignment.offset(text.offset(line, column)))

    nodes = [entry for entry in parsed.nodes if entry[0] in _LEFT_BY_OXC]
    try:
        patched, shape = _erased(parsed, text, backends, nodes)
    except SandboxSyntaxError as error:
        line, column = back(error.line, error.column)
        raise SandboxSyntaxError(
            error.message,
            line=line,
            column=column,
            source_line=submitted.line(line),
            hint=error.hint,
            kind=error.kind,
        ) from None
    if shape.lost_value is not None:
        shape.lost_value = *back(*shape.lost_value[:2]), shape.lost_value[2]
    if known is not None:
        facts = gather(known, submitted, backends, watched)
    else:
        facts = gather(parsed, text, backends, watched)
        facts.shadowed = {name: back(*place) for name, place in facts.shadowed.items()}
        facts.rounded = [(*back(line, column), digits) for line, column, digits in facts.rounded]
    position = _positions(submitted, patched, alignment)
    return _program(source, backends, patched, shape, facts, position, exact=False)


def _program(
    source: str,
    backends: frozenset[str],
    patched: Patched,
    shape: Shape,
    facts: Facts,
    position: Positions,
    *,
    exact: bool,
) -> Program:
    return Program(
        source=source,
        js=patched.data.decode("utf-8", "replace"),
        shape=shape.kind,
        exact=exact,
        needs_catalog=facts.needs_catalog,
        interface_literals=frozenset(facts.interface_literals),
        needs_interfaces=facts.needs_interfaces,
        shadowed=MappingProxyType(facts.shadowed),
        declared_never_called=shape.declared_never_called,
        lost_value=shape.lost_value,
        read=frozenset(facts.read),
        rounded=tuple(facts.rounded),
        backends=backends,
        position=position,
    )
