"""Decide whether code is a JSON call (tier 1) or exactly one `backend.tool(<literal>)` (tier 2).

Total: any text gives a plan or a `CodeError`; what is not certainly one of the cheap forms is a `Script` for the
sandbox, which is the reference for what code means.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from gatemini.chain.code.literals import Reader, Uncertain
from gatemini.errors import CodeError
from gatemini.explain.source_lines import place
from gatemini.output.jsvalue import NotJson, dumps, loads_exact


@dataclass(frozen=True, slots=True)
class JsonCall:
    """`{"tool": …, "arguments": …}`; `tool` as written, `arguments` any JSON (checked at the call)."""

    tier: ClassVar[int] = 1
    tool: str
    arguments: Any


@dataclass(frozen=True, slots=True)
class JsonBatch:
    """A JSON array of calls, run concurrently and answered in order."""

    tier: ClassVar[int] = 1
    calls: tuple[JsonCall, ...]


@dataclass(frozen=True, slots=True)
class SingleCall:
    """One `backend.tool({…})`; `backend` is the identifier in the code, `tool` as spelled.

    `returned` says whether the value is returned by name or is that of the last expression; `line` and
    `column` are those of the tool's name, where the sandbox reports what goes wrong with a call.
    """

    tier: ClassVar[int] = 2
    backend: str
    tool: str
    arguments: dict[str, Any]
    returned: bool = True
    line: int = 1
    column: int = 1


@dataclass(frozen=True, slots=True)
class Describe:
    """`__getToolInterface("name")` (kind "interface") or `__interfaces`."""

    tier: ClassVar[int] = 2
    kind: Literal["interface", "interfaces"]
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Script:
    """Everything else: for the sandbox."""

    tier: ClassVar[int] = 3
    code: str


Plan = JsonCall | JsonBatch | SingleCall | Describe | Script


MAX_SINGLE_CALL: Final = 64 * 1024
"""Characters up to which code is read as a single call, on the event loop (some 0.1 s at the worst)."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


NOT_TOOLS: Final = _words(
    "then catch finally call apply bind constructor prototype __proto__ toString toLocaleString valueOf toJSON "
    "hasOwnProperty isPrototypeOf propertyIsEnumerable inspect raw readResource name length arguments caller "
    "__defineGetter__ __defineSetter__ __lookupGetter__ __lookupSetter__"
)
"""Property names a backend object may answer itself: only the sandbox knows what they mean there."""

NOT_VARIABLES: Final = _words(
    "arguments as async await break case catch class const continue debugger default delete do else enum eval "
    "export extends false finally for from function get if implements import in Infinity instanceof interface "
    "let NaN new null of package private protected public return set static super switch this throw true try "
    "type typeof undefined var void while with yield"
)
"""Names no variable or function of a tier-2 program may have (reserved, contextual, or better left alone)."""

_LIKE_CALL = re.compile(r"""\{\s*(?:(?P<quoted>"tool"|'tool')|tool)\s*:""")
_TOOL_SYNONYMS: Final = ("name", "tool_name", "toolname", "function", "method")
_SYNONYMS: Final = {
    "args": "arguments",
    "params": "arguments",
    "parameters": "arguments",
    "input": "arguments",
}


def parse(code: str, is_backend: Callable[[str], bool]) -> Plan:
    """The cheapest plan that certainly does what the code says.

    `is_backend` tells whether an identifier is a backend's global. Raises CodeError only for JSON that
    means to be a call and is not one.
    """
    reader = Reader(code)
    try:
        reader.skip()
        if reader.sees("{") or reader.sees("["):
            return _json_plan(code, reader.pos) or Script(code)
        return _Program(reader, is_backend).plan() if len(code) <= MAX_SINGLE_CALL else Script(code)
    except Uncertain:
        return Script(code)


def _json_plan(code: str, start: int) -> Plan | None:
    """The calls of a JSON text, or None when it is code after all."""
    text = code[start:].rstrip().removesuffix(";").rstrip()
    try:
        value = loads_exact(text)
    except NotJson as exc:
        like = _LIKE_CALL.match(text)
        return _written_as_literal(code, start, exc, like["quoted"] is not None) if like else None
    line, _ = place(code, start)
    if isinstance(value, dict):
        return _json_call(value, f"the JSON object on line {line}")
    calls = [entry for entry in value if isinstance(entry, dict) and "tool" in entry]
    if not calls and not (value and all(map(_means_call, value))):
        return None
    named = [_json_call(entry, f"entry {index} of the JSON array") for index, entry in enumerate(value)]
    return JsonBatch(tuple(named))


def _json_call(entry: Any, where: str) -> JsonCall:
    example = 'a call is {"tool": "backend.tool", "arguments": {…}}'
    if not isinstance(entry, dict) or not entry:
        raise CodeError(f"{where} calls nothing", hint=example)
    if not isinstance(entry.get("tool"), str) or not entry["tool"]:
        has = ", ".join(str(key)[:40] for key in list(entry)[:8])
        raise CodeError(
            f'{where} is not a call: it has no string "tool" (its keys: {has})',
            hint=_meant_by(entry, example),
        )
    for key in entry:
        if key not in ("tool", "arguments"):
            right = _SYNONYMS.get(key.lower())
            hint = f'write "{right}" instead of "{key[:40]}"' if right else example
            raise CodeError(f'{where} has the unknown key "{key[:40]}"', hint=hint)
    return JsonCall(entry["tool"], entry.get("arguments"))


def _means_call(entry: Any) -> bool:
    """`{"name": "demo.echo", "args": {…}}`: nothing but a tool and its arguments under other names."""
    if not isinstance(entry, dict) or len(entry) != 2:
        return False
    keys = {key.lower() for key in entry}
    return bool(keys & {*_TOOL_SYNONYMS}) and bool(keys & {"arguments", *_SYNONYMS})


def _meant_by(entry: dict[str, Any], example: str) -> str:
    """How to write the call that an object without a tool means."""
    params = entry.get("params")
    if isinstance(params, dict) and isinstance(params.get("name"), str):  # a message of the protocol
        return f'write {{"tool": {dumps(params["name"][:80])}, "arguments": {{…}}}}'
    if isinstance(entry.get("code"), str) and len(entry) == 1:
        return 'send the text of "code" by itself, not in an object'
    meant = next((key for key in entry if key.lower() in _TOOL_SYNONYMS), None)
    return f'write "tool" instead of "{meant}": {example}' if meant else example


def _written_as_literal(code: str, start: int, broken: NotJson, quoted: bool) -> Plan | None:
    """A call in JavaScript's syntax for objects (unquoted keys, trailing commas), or what is wrong with it.

    With a key after `tool` it is no JavaScript program either, so nothing else can have been meant.
    """
    reader = Reader(code, start)
    try:
        entry = reader.object()
        reader.skip()
        if reader.at_end and len(entry) > 1:
            return _json_call(entry, "the object")
    except Uncertain:
        pass
    if not quoted:
        return None  # `{tool: …` may be a block with a label
    line, column = place(code, start + (broken.at or 0))
    raise CodeError(
        f"this starts as a JSON call but is not JSON: {broken.reason}",
        hint='a JSON call is exactly {"tool": "backend.tool", "arguments": {…}}: double quotes, values without '
        "expressions, nothing after it",
        details={"line": line, "column": column} if broken.at is not None else None,
    )


class _Program:
    """Reads a whole tier-2 program; every method raises Uncertain where the sandbox must decide."""

    def __init__(self, reader: Reader, is_backend: Callable[[str], bool]) -> None:
        self.reader = reader
        self.is_backend = is_backend

    def plan(self) -> Plan:
        self._empty_statements()
        if self.reader.take_word("export"):
            plan = self._main()
        else:
            plan = self._statements(in_function=False, may_await=True)
        self._empty_statements()
        if not self.reader.at_end:
            raise Uncertain
        return plan

    def _main(self) -> Plan:
        """`export default [async] function [name]() { … }`."""
        reader = self.reader
        self._keyword("default")
        is_async = self._optional("async")
        if is_async and reader.skip():
            raise Uncertain
        self._keyword("function")
        reader.skip()
        name = reader.take_word()
        if name is not None and (name in NOT_VARIABLES or self._is_global(name)):
            raise Uncertain
        for sign in "(){":
            reader.skip()
            reader.expect(sign)
        self._empty_statements()
        plan = self._statements(in_function=True, may_await=is_async)
        self._empty_statements()
        reader.expect("}")
        return plan

    def _statements(self, *, in_function: bool, may_await: bool) -> Plan:
        word = self.reader.peek_word()
        if word == "return":
            self.reader.take_word()
            if self.reader.skip():
                raise Uncertain  # `return` alone on its line returns nothing
            plan = self._value(may_await, returned=True)
        elif word in ("const", "let", "var"):
            return self._bound(may_await)
        elif in_function:
            raise Uncertain  # a call that is not returned has no value
        else:
            plan = self._value(may_await, returned=False)
        self._end_of_statement(closes=in_function)
        return plan

    def _bound(self, may_await: bool) -> Plan:
        """`const x = …; return x;`."""
        reader = self.reader
        reader.take_word("const", "let", "var")
        reader.skip()
        name = reader.take_word()
        if name is None or name in NOT_VARIABLES or self._is_global(name):
            raise Uncertain
        reader.skip()
        reader.expect("=")
        reader.skip()
        plan = self._value(may_await, returned=True)
        self._end_of_statement(closes=False)
        self._empty_statements()
        self._keyword("return", skip=False)
        if reader.skip():
            raise Uncertain
        if may_await and reader.take_word("await"):
            reader.skip()
        if reader.take_word(name) is None:
            raise Uncertain
        self._end_of_statement(closes=True)
        return plan

    def _value(self, may_await: bool, *, returned: bool) -> Plan:
        """`[await] backend.tool(…)`, or one of the introspection forms."""
        reader = self.reader
        if may_await and reader.take_word("await"):
            reader.skip()
        word = reader.take_word()
        if word == "__interfaces":
            return Describe("interfaces")
        reader.skip()
        if word == "__getToolInterface":
            return Describe("interface", self._one_string())
        if word is None or not self.is_backend(word):
            raise Uncertain
        tool, at = self._tool()
        line, column = place(reader.text, at)
        return SingleCall(word, tool, self._arguments(), returned, line, column)

    def _tool(self) -> tuple[str, int]:
        """`.tool` or `["tool"]`, and the place of the name."""
        reader = self.reader
        if reader.take("["):
            reader.skip()
            at = reader.pos
            tool = reader.string()
            reader.skip()
            reader.expect("]")
        else:
            reader.expect(".")
            reader.skip()
            at = reader.pos
            tool = reader.take_word() or ""
        if not tool or tool in NOT_TOOLS:
            raise Uncertain
        return tool, at

    def _arguments(self) -> dict[str, Any]:
        """`()` or one object literal in parentheses."""
        reader = self.reader
        reader.skip()
        reader.expect("(")
        reader.skip()
        if reader.take(")"):
            return {}
        arguments = reader.object()
        reader.skip()
        if reader.take(","):
            reader.skip()
        reader.expect(")")
        return arguments

    def _one_string(self) -> str:
        reader = self.reader
        reader.expect("(")
        reader.skip()
        text = reader.string()
        reader.skip()
        reader.expect(")")
        return text

    def _is_global(self, name: str) -> bool:
        """Whether a variable of this name would hide what the program calls (or might)."""
        return name.startswith("__") or self.is_backend(name)

    def _keyword(self, word: str, *, skip: bool = True) -> None:
        if skip:
            self.reader.skip()
        if self.reader.take_word(word) is None:
            raise Uncertain

    def _optional(self, word: str) -> bool:
        self.reader.skip()
        return self.reader.take_word(word) is not None

    def _empty_statements(self) -> None:
        self.reader.skip()
        while self.reader.take(";"):
            self.reader.skip()

    def _end_of_statement(self, *, closes: bool) -> None:
        """A `;`, the end of the text or of the function, or a line end with no possible continuation."""
        reader = self.reader
        new_line = reader.skip()
        if reader.take(";") or reader.at_end or (closes and reader.sees("}")):
            return
        if not new_line or reader.peek_word() != "return":
            raise Uncertain
