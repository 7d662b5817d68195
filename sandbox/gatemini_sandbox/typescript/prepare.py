"""Make the text an agent sends a script that the guest can run, with the way back for positions.

In order: parse.py (one parse), erase.py and emit.py (types away, enums and the like written out), shape.py (what gives
the value), facts.py (how backends are used), oxc.py (the second parser, where the first fails), diagnose.py (what is
wrong where that fails too). The same text and backends give the same program; programs are cached.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from gatemini_sandbox.typescript import oxc
from gatemini_sandbox.typescript.diagnosis.diagnose import (
    check_awaits,
    check_characters,
    check_comment,
    syntax_error,
)
from gatemini_sandbox.typescript.diagnosis.returned import Given, returned
from gatemini_sandbox.typescript.facts import Facts, gather
from gatemini_sandbox.typescript.javascript.erase import Eraser
from gatemini_sandbox.typescript.javascript.shape import Kind, Shape, Shaper
from gatemini_sandbox.typescript.nodes import TEXTUAL
from gatemini_sandbox.typescript.parse import BeyondRepair, Parsed, parse
from gatemini_sandbox.typescript.positions import Patch, Patched, SourceText
from gatemini_sandbox.typescript.syntax_error import SandboxSyntaxError

_HEAD = "(async function(){'use strict';"
_TAIL = "\n})"
_DECLARED_ENUM = re.compile(rb"\bdeclare(?=\s+const\s+enum\b)")

# Programs kept, and the largest text worth keeping: together at most some 20 MB.
CACHED_PROGRAMS = 128
CACHED_LENGTH = 64 * 1024

# Nodes whose erasing ends in an error that names them.
_NAMED = ("decorator", "public_field_definition", "using")
# What OXC leaves none of. Where the parse sees some in its print it is mistaken: `abstract = 1` is a field of that name,
# `[a < b, c > -1]` are two comparisons.
_PRINTED_PLAIN = frozenset(
    [
        "type_annotation",
        "type_predicate_annotation",
        "asserts_annotation",
        "type_parameters",
        "type_arguments",
        "implements_clause",
        "accessibility_modifier",
        "override_modifier",
        "abstract_method_signature",
        "method_signature",
        "index_signature",
        "public_field_definition",
        "optional_parameter",
        "non_null_expression",
        "as_expression",
        "satisfies_expression",
        "type_assertion",
        "definite",
    ]
)


class _Positions:
    """Guest position -> submitted text: back over our edits, then over OXC's printing if there was one."""

    def __init__(
        self, submitted: SourceText, patched: Patched, alignment: oxc.Alignment | None = None
    ) -> None:
        self._submitted = submitted
        self._patched = patched
        self._alignment = alignment

    def __call__(self, line: int, byte_column: int) -> tuple[int, int]:
        offset = self._patched.original(self._patched.offset(line, byte_column))
        if self._alignment is not None:
            offset = self._alignment.offset(offset)
        return self._submitted.position(offset)


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
    _positions: _Positions = field(repr=False, compare=False)

    def position(self, line: int, byte_column: int) -> tuple[int, int]:
        """The guest's 1-based line and byte column in `js` -> line and column in the submitted text."""
        return self._positions(line, byte_column)

    def returned(self) -> tuple[Given, ...]:
        """The expressions of the submitted text that may have given its value."""
        return returned(self.source)


_cache: OrderedDict[tuple[str, frozenset[str], frozenset[str]], Program] = OrderedDict()
_cache_lock = threading.Lock()


def prepare(
    source: str,
    backends: Collection[str] = (),
    watched: frozenset[str] = frozenset(),
) -> Program:
    """Make the submitted text runnable; raises SandboxSyntaxError. `backends` are the identifiers of the globals,
    `watched` the names the program's `read` is about (facts.gather)."""
    names = frozenset(backends)
    key = (source, names, watched)
    with _cache_lock:
        known = _cache.get(key)
        if known is not None:
            _cache.move_to_end(key)
            return known
    program = _prepare(source, names, watched)
    if len(source) <= CACHED_LENGTH:
        with _cache_lock:
            _cache[key] = program
            while len(_cache) > CACHED_PROGRAMS:
                _cache.popitem(last=False)
    return program


def _prepare(source: str, backends: frozenset[str], watched: frozenset[str]) -> Program:
    submitted = SourceText(source)
    check_comment(submitted)
    parsed = _parsed(submitted)
    if parsed is None or parsed.doubtful:
        if parsed is not None:  # named errors first: OXC leaves these as they are, or words them worse
            Eraser(parsed, submitted, Patch(parsed.data)).run([n for n in parsed.nodes if n[0] in _NAMED])
        try:
            printed = oxc.transform(submitted.text if parsed is None else _with_constants(parsed))
        except oxc.Refused as refusal:
            if parsed is None or parsed.root.has_error:
                raise syntax_error(str(refusal), submitted, parsed) from None
        else:
            return _reprinted(source, submitted, printed, backends, watched)
    patched, shape = _erased(parsed, submitted, backends)
    facts = gather(parsed, submitted, backends, watched)
    return _program(source, patched, shape, facts, _Positions(submitted, patched), exact=True)


def _parsed(submitted: SourceText) -> Parsed | None:
    """What the first parser makes of the text; None where it gives up on the text's errors."""
    try:
        parsed = parse(submitted.data)
    except BeyondRepair:
        return None
    if not parsed.data.isascii():
        check_characters(parsed, submitted)
    return parsed


def _with_constants(parsed: Parsed) -> str:
    """The text with `declare const enum` as `const enum`: TypeScript writes its members where they are used, OXC drops it."""
    data = bytearray(parsed.data)
    for match in _DECLARED_ENUM.finditer(parsed.data):
        node = parsed.root.descendant_for_byte_range(match.start(), match.end())
        if node is None or node.type not in (*TEXTUAL, "comment"):
            data[match.start() : match.end()] = b" " * len(match[0])
    return data.decode("utf-8", "replace")


def _erased(parsed: Parsed, text: SourceText, backends: frozenset[str]) -> tuple[Patched, Shape]:
    """The steps that note edits, in order, and their result."""
    patch = Patch(parsed.data)
    for offset in parsed.breaks:
        patch.insert_after(offset, b";")
    check_awaits(parsed, text)
    Eraser(parsed, text, patch).run(parsed.nodes)
    shape = Shaper(parsed, text, patch, backends).run()
    return patch.apply((_HEAD + shape.prefix).encode(), (shape.suffix + _TAIL).encode()), shape


def _reprinted(
    source: str, submitted: SourceText, printed: str, backends: frozenset[str], watched: frozenset[str]
) -> Program:
    """The same steps on what OXC printed: enums and types are gone, namespaces and the shape are still to do."""
    text = SourceText(printed)
    parsed = parse(text.data)
    alignment = oxc.Alignment(text.data, submitted.data)

    def back(line: int, column: int) -> tuple[int, int]:
        return submitted.position(alignment.offset(text.offset(line, column)))

    nodes = [entry for entry in parsed.nodes if entry[0] not in _PRINTED_PLAIN]
    try:
        patched, shape = _erased(replace(parsed, nodes=nodes), text, backends)
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
    facts = gather(parsed, text, backends, watched)
    facts.shadowed = {name: back(*place) for name, place in facts.shadowed.items()}
    facts.rounded = [(*back(line, column), digits) for line, column, digits in facts.rounded]
    positions = _Positions(submitted, patched, alignment)
    return _program(source, patched, shape, facts, positions, exact=False)


def _program(
    source: str, patched: Patched, shape: Shape, facts: Facts, positions: _Positions, *, exact: bool
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
        _positions=positions,
    )
