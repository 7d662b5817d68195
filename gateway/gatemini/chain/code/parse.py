"""Decide whether code is a JSON call (tier 1) or exactly one `backend.tool(<literal>)` (tier 2).

Total: any text gives a plan or a `CodeError`; what is not certainly one of the cheap forms is a `Script` for the
sandbox, which is the reference for what code means.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from gatemini.chain.code.literals import GAP, SAME_LINE, STRING, WORD, Reader, Uncertain, unquoted
from gatemini.discovery.types.identifiers import JS_WORDS, UNREACHABLE_MEMBERS
from gatemini.errors import CodeError
from gatemini.explain.source_lines import place
from gatemini.output.json.javascript_json import NotJson, loads_exact


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

    `line` and `column` are those of the tool's name, where the sandbox reports what goes wrong with a call.
    """

    tier: ClassVar[int] = 2
    backend: str
    tool: str
    arguments: dict[str, Any]
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


NOT_TOOLS: Final = UNREACHABLE_MEMBERS | {
    "apply",
    "arguments",
    "bind",
    "caller",
    "catch",
    "finally",
    "length",
    "name",
    "prototype",
    "raw",
    "readResource",
}
"""Property names a backend object may answer itself: only the sandbox knows what they mean there."""

NOT_VARIABLES: Final = JS_WORDS | {"Infinity", "NaN", "as", "from", "get", "of", "set", "type"}
"""Names no variable or function of a tier-2 program may have (reserved, contextual, or better left alone)."""

_LIKE_CALL = re.compile(r"""\{\s*(?:(?P<quoted>"tool"|'tool')|tool)\s*:""")
_EMPTY = rf"{GAP}(?:;{GAP})*+"
_END = r"(?![\w$])"
_HEAD = re.compile(
    rf"{_EMPTY}(?P<main>export{_END}{GAP}default{_END}{GAP}(?:(?P<async>async){_END}{SAME_LINE})?function{_END}"
    rf"{GAP}(?P<name>{WORD})?{GAP}\({GAP}\){GAP}\{{{_EMPTY})?"
    rf"(?:(?P<returned>return){_END}{SAME_LINE}|(?:const|let|var){_END}{GAP}(?P<variable>{WORD}){GAP}={GAP})?"
    rf"(?:(?P<await>await){_END}{GAP})?(?P<root>{WORD}){GAP}",
    re.ASCII,
)
"""All before the call: an optional main function, `return` or a declaration, `await`, and the first word of the call."""
_TOOL = re.compile(rf"(?:\.{GAP}(?P<name>{WORD})|\[{GAP}(?P<string>{STRING}){GAP}\]){GAP}\(", re.ASCII)
_LOOKUP = re.compile(rf"\({GAP}(?P<string>{STRING}){GAP}\)", re.ASCII)
_TAIL = re.compile(
    rf"(?:(?P<gap>{GAP})(?P<ended>;)?{_EMPTY}return{_END}{SAME_LINE}(?:(?P<await>await){_END}{GAP})?(?P<variable>{WORD}))?"
    rf"{_EMPTY}(?P<closed>\}}{_EMPTY})?",
    re.ASCII,
)
"""All after the call: the declared variable returned, and the end of the main function."""
_MEANT: Final = {
    **dict.fromkeys(("args", "params", "parameters", "input"), "arguments"),
    **dict.fromkeys(("name", "tool_name", "toolname", "function", "method"), "tool"),
}
"""What other clients call the two members of a JSON call."""


def parse(code: str, is_backend: Callable[[str], bool]) -> Plan:
    """The cheapest plan that certainly does what the code says.

    `is_backend` tells whether an identifier is a backend's global. Raises CodeError only for JSON that
    means to be a call and is not one.
    """
    reader = Reader(code)
    try:
        if code.startswith(("{", "["), reader.pos):
            return _json_plan(code, reader.pos) or Script(code)
        return _program(code, is_backend) if len(code) <= MAX_SINGLE_CALL else Script(code)
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
    if not calls:
        return None
    named = [_json_call(entry, f"entry {index} of the JSON array") for index, entry in enumerate(value)]
    return JsonBatch(tuple(named))


def _json_call(entry: Any, where: str) -> JsonCall:
    hint = 'a call is {"tool": "backend.tool", "arguments": {…}}'
    if not isinstance(entry, dict) or not entry:
        raise CodeError(f"{where} calls nothing", hint=hint)
    meant = [f'"{_MEANT[key.lower()]}" instead of "{key}"' for key in entry if key.lower() in _MEANT]
    if meant:
        hint = f"write {' and '.join(meant[:2])}"
    if not isinstance(entry.get("tool"), str) or not entry["tool"]:
        has = ", ".join(str(key)[:40] for key in list(entry)[:8])
        raise CodeError(f'{where} is not a call: it has no string "tool" (its keys: {has})', hint=hint)
    unknown = next((key for key in entry if key not in ("tool", "arguments")), None)
    if unknown is not None:
        raise CodeError(f'{where} has the unknown key "{unknown[:40]}"', hint=hint)
    return JsonCall(entry["tool"], entry.get("arguments"))


def _written_as_literal(code: str, start: int, broken: NotJson, quoted: bool) -> Plan | None:
    """A call in JavaScript's syntax for objects (unquoted keys, trailing commas), or what is wrong with it.

    With a key after `tool` it is no JavaScript program either, so nothing else can have been meant.
    """
    reader = Reader(code, start)
    try:
        entry = reader.object()
        if reader.pos == len(code) and len(entry) > 1:
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


def _program(code: str, is_backend: Callable[[str], bool]) -> Plan:
    """Read a whole tier-2 program. Raises Uncertain where the sandbox must decide."""
    head = _HEAD.match(code)
    if head is None or (head["main"] and not (head["returned"] or head["variable"])):
        raise Uncertain  # in a function, a call that is not returned has no value
    declared = [name for name in (head["name"], head["variable"]) if name]
    # A variable with one of these names may hide what the program calls.
    if any(name in NOT_VARIABLES or name.startswith("__") or is_backend(name) for name in declared):
        raise Uncertain
    plan, end = _call(code, head, is_backend)
    tail = _TAIL.fullmatch(code, end)
    if tail is None or tail["variable"] != head["variable"] or bool(tail["closed"]) != bool(head["main"]):
        raise Uncertain
    if head["variable"] and not tail["ended"] and not re.search(r"[\r\n]", tail["gap"]):
        raise Uncertain  # two statements on one line without `;` between them
    if head["main"] and not head["async"] and (head["await"] or tail["await"]):
        raise Uncertain
    return plan


def _call(code: str, head: re.Match[str], is_backend: Callable[[str], bool]) -> tuple[Plan, int]:
    """Read `backend.tool(…)` or an introspection form; return it with the offset of its end."""
    root, at = head["root"], head.end()
    if root == "__interfaces":
        return Describe("interfaces"), at
    if root == "__getToolInterface" and (lookup := _LOOKUP.match(code, at)):
        return Describe("interface", unquoted(lookup["string"])), lookup.end()
    found = _TOOL.match(code, at) if is_backend(root) else None
    if found is None:
        raise Uncertain
    tool = found["name"] or unquoted(found["string"])
    if not tool or tool in NOT_TOOLS:
        raise Uncertain
    reader = Reader(code, found.end())
    arguments: dict[str, Any] = {}
    if code.startswith("{", reader.pos):
        arguments = reader.object()
        reader.take(",")
    if not code.startswith(")", reader.pos):
        raise Uncertain
    line, column = place(code, found.start("name" if found["name"] else "string"))
    return SingleCall(root, tool, arguments, line, column), reader.pos + 1
