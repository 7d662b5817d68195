"""From the text an agent sends to a script the guest can run, with the way back for positions.

Above: session.py and the gateway's chain. Below, in reading order: parse.py (one parse), typescript.py and emit.py
(types away, enums and the like written out), shape.py (what gives the value), facts.py (how backends are used), oxc.py
(the second opinion where the parse fails). Pure: same text, same backends, same program; results are kept.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from types import MappingProxyType

from tree_sitter import Node

from gatemini_sandbox import oxc
from gatemini_sandbox.facts import Facts, gather
from gatemini_sandbox.parse import Parsed, offending_offset, parse, text
from gatemini_sandbox.positions import Patch, Patched, SourceText
from gatemini_sandbox.shape import Kind, Shape, Shaper, enclosing_function
from gatemini_sandbox.syntax import SandboxSyntaxError
from gatemini_sandbox.typescript import Eraser

_HEAD = "(async function(){'use strict';"
_TAIL = "\n})"

# Programs kept, and the largest text worth keeping: together at most some 20 MB.
CACHED_PROGRAMS = 128
CACHED_LENGTH = 64 * 1024


class _Positions:
    """Guest position -> submitted text, over one or two steps of editing."""

    def __init__(
        self, source: SourceText, last: Patched, before: tuple[Patched, oxc.Alignment] | None = None
    ) -> None:
        self._source = source
        self._last = last
        self._before = before

    def __call__(self, line: int, byte_column: int) -> tuple[int, int]:
        offset = self._last.original(self._last.offset(line, byte_column))
        if self._before is not None:
            first, alignment = self._before
            offset = first.original(alignment.offset(offset))
        return self._source.position(offset)


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
    unawaited: tuple[tuple[int, int, str], ...]
    declared_never_called: str | None
    lost_value: tuple[int, int, str] | None
    dropped_imports: tuple[str, ...]
    _positions: _Positions = field(repr=False, compare=False)

    def position(self, line: int, byte_column: int) -> tuple[int, int]:
        """The guest's 1-based line and byte column in `js` -> line and column in the submitted text."""
        return self._positions(line, byte_column)


_cache: OrderedDict[bytes, Program] = OrderedDict()
_cache_lock = threading.Lock()


def prepare(source: str, backends: Collection[str] = ()) -> Program:
    """Make the submitted text runnable; raises SandboxSyntaxError. `backends` are the identifiers of the globals."""
    names = frozenset(backends)
    digest = blake2b("\0".join(sorted(names)).encode("utf-8", "replace"), digest_size=16)
    digest.update(b"\0\0" + source.encode("utf-8", "surrogatepass"))
    key = digest.digest()
    with _cache_lock:
        known = _cache.get(key)
        if known is not None:
            _cache.move_to_end(key)
            return known
    program = _prepare(source, names)
    if len(source) <= CACHED_LENGTH:
        with _cache_lock:
            _cache[key] = program
            while len(_cache) > CACHED_PROGRAMS:
                _cache.popitem(last=False)
    return program


def _prepare(source: str, backends: frozenset[str]) -> Program:
    submitted = SourceText(source)
    parsed = parse(submitted.data)
    patch = _patch(parsed)
    if parsed.root.has_error:
        return _second_opinion(source, submitted, parsed, backends)
    _check_awaits(parsed, submitted)
    Eraser(parsed, submitted, patch).run(parsed.nodes)
    shape = Shaper(parsed, submitted, patch, backends).run()
    patched = patch.apply((_HEAD + shape.prefix).encode(), (shape.suffix + _TAIL).encode())
    facts = gather(parsed, submitted, backends)
    return _program(source, patched, shape, facts, _Positions(submitted, patched), exact=True)


def _patch(parsed: Parsed) -> Patch:
    patch = Patch(parsed.data)
    for offset in parsed.breaks:
        patch.insert_after(offset, b";")
    return patch


def _second_opinion(source: str, submitted: SourceText, parsed: Parsed, backends: frozenset[str]) -> Program:
    """The grammar does not take the text: run what OXC makes of it, or say where the text is wrong."""
    for kind, node in parsed.nodes:
        if kind in ("decorator", "public_field_definition"):
            Eraser(parsed, submitted, Patch(parsed.data)).run([(kind, node)])
    patch = _patch(parsed)
    shape = Shaper(parsed, submitted, patch, backends).run()
    first = patch.apply((_HEAD + shape.prefix).encode(), (shape.suffix + _TAIL).encode())
    try:
        printed = oxc.transform(first.data.decode("utf-8", "replace"))
    except oxc.Refused as refusal:
        raise _syntax_error(str(refusal), submitted, parsed) from None
    again = parse(printed.encode())
    if not again.root.has_error and not _is_one_function(again.root):
        raise _syntax_error("Unexpected token", submitted, parsed)
    repatch = Patch(again.data)
    if not again.root.has_error:
        Eraser(again, SourceText(printed), repatch).run(again.nodes)
    last = repatch.apply()
    positions = _Positions(submitted, last, (first, oxc.Alignment(again.data, first.data)))
    return _program(source, last, shape, gather(parsed, submitted, backends), positions, exact=False)


def _is_one_function(root: Node) -> bool:
    """Whether the text stayed inside the function around it: a stray `}` would close that one."""
    statements = [child for child in root.named_children if child.type not in ("comment", "empty_statement")]
    return len(statements) == 1 and statements[0].type == "expression_statement"


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
        unawaited=tuple(facts.unawaited),
        declared_never_called=shape.declared_never_called,
        lost_value=shape.lost_value,
        dropped_imports=tuple(shape.dropped_imports),
        _positions=positions,
    )


def _check_awaits(parsed: Parsed, submitted: SourceText) -> None:
    """The commonest slip of all: `rows.map((r) => await …)`. The guest would only say that a `;` is missing."""
    for kind, node in parsed.nodes:
        if kind != "await_expression":
            continue
        function = enclosing_function(node)
        if function is None or any(child.type == "async" for child in function.children):
            continue
        line, column = submitted.position(node.start_byte)
        raise SandboxSyntaxError(
            "`await` is only valid in an async function",
            line=line,
            column=column,
            source_line=submitted.line(line),
            hint="write `async` in front of the function around it; with `.map` also wait for all: "
            "`await Promise.all(xs.map(async (x) => …))`",
        )


# Characters that editors and chat programs put in place of the ones code needs.
_LOOKALIKES = {
    "\u2018": "'",
    "\u2019": "'",
    "\u201c": '"',
    "\u201d": '"',
    "\u00ab": '"',
    "\u00bb": '"',
    "\u2013": "-",
    "\u2014": "--",
    "\u2026": "...",
    "\uff08": "(",
    "\uff09": ")",
    "\uff1b": ";",
    "\uff0c": ",",
}


def _syntax_error(reason: str, submitted: SourceText, parsed: Parsed) -> SandboxSyntaxError:
    offset = offending_offset(parsed.data, parsed.root)
    line, column = submitted.position(offset)
    source_line = submitted.line(line)
    found = source_line[column - 1 : column]
    hint = None
    if found in _LOOKALIKES and found:
        reason = f"Unexpected character {found} (U+{ord(found):04X})"
        hint = f"use {_LOOKALIKES[found]} instead"
    elif reason in ("Unexpected token", ""):
        node = parsed.root.descendant_for_byte_range(offset, offset)
        word = text(node) if node is not None and node.child_count == 0 else found
        reason = f"Unexpected token `{word}`" if word.strip() else "Unexpected end of the code"
    return SandboxSyntaxError(reason, line=line, column=column, source_line=source_line, hint=hint)
