"""Hints about values that are not what the code takes them for: undefined, no array, no text.

Where the value comes from a tool's result the hint says what it is, so that it need not be looked at first.
"""

from __future__ import annotations

import re
from typing import Final

from gatemini.explain.error_facts import SEARCHED, ErrorFacts, HintContext, ProgramFacts
from gatemini.explain.not_available import METHODS
from gatemini.explain.results.call_values import (
    PATH,
    THE_RESULT,
    Found,
    Long,
    awaited,
    find,
    how_to_read,
    lists_in,
)
from gatemini.explain.results.missing_members import OF_ARRAYS, OF_TEXT, missing_members, value_at
from gatemini.text.shorten import closest, listed, shorten

ON_LINE: Final = 1000
"""Columns behind the place of an error in which the engine means what is taken apart."""
LIKE_ENOUGH: Final = 0.75
"""How like a method of the language a name must be to be taken for its misspelling (difflib's ratio)."""

_OF_NOTHING = re.compile(r"^cannot read property '?([^']+?)'? of (undefined|null)$")
_NO_FUNCTION = re.compile(r"^not a function$|^(.+) is not a function$")
_MISSING = re.compile(r'required "([\w$]+)" is missing')
_WITH_FUNCTION: Final = frozenset(
    ["map", "filter", "reduce", "forEach", "find", "findIndex", "some", "every", "flatMap", "sort"]
)
_LIST_METHODS: Final = _WITH_FUNCTION | frozenset(["slice", "join", "push", "concat", "includes"])
_NUMBER_METHODS: Final = frozenset(("toFixed", "toPrecision", "toExponential"))
_TEXT_METHODS: Final = frozenset(
    [
        "split",
        "replace",
        "replaceAll",
        "trim",
        "padStart",
        "padEnd",
        "startsWith",
        "endsWith",
        "substring",
        "toLowerCase",
        "toUpperCase",
        "match",
        "matchAll",
        "repeat",
        "charAt",
    ]
)
_KNOWN_METHODS: Final = (
    _LIST_METHODS | _TEXT_METHODS | frozenset(("then", "catch", "finally", "get", "set", "has"))
)
_WRAPPERS: Final = frozenset(
    ["data", "items", "results", "result", "value", "rows", "response", "body", "json", "output"]
)
"""Members in which other servers wrap their results."""
_OF_MCP: Final = ("content", "structuredContent", "isError")

_MCP_CONTENT = re.compile(r"\.content\s*(?:\?\.)?\[\s*0\s*\]|\.structuredContent\b")
_PATH_END = re.compile(r"[\w$]+(?:\[(?:\d+|'[^']*'|\"[^\"]*\"|[\w$.]+)\])*!?$")
_PATH = re.compile(PATH)
_CALLED = re.compile(r"([\w$]+)\s*(?:\?\.)?\(\s*(.?)")
_LOOPED_CALL = re.compile(r"(?:\bof\s+|\.\.\.\s*|\bPromise\.\w+\(\s*)(await\s[^\n]*)")
_APART = re.compile(r"\[[^\]]*\]\s*=\s*(?:await\s+)?")
_LOST_BACKEND = re.compile(r"""^(?:__backends|globalThis)(?:\.([\w$]+)|\[\s*["']([^"']+)["']\s*\])$""")
_LOOKED_UP = re.compile(
    r"\.(match|exec|find|findLast|at|pop|shift|get)\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)$"
)
_PAGES: Final = "results.chunks("


def nothing_returned(program: ProgramFacts, context: HintContext | None = None, *, logged: bool) -> str:
    """The note for a chain whose value is undefined."""
    if name := program.declared_never_called:
        return f"the code returned no value: {name} is declared but never called; end with `return await {name}();`"
    if program.lost_value is not None:
        line, _, value = program.lost_value
        return f"the code returned no value: {shorten(value, 60)} on line {line} is not returned; write `return {shorten(value, 60)};`"
    given = [one for one in program.returned if one[2] not in ("undefined", "void 0")]
    if len(given) == 1 and not logged:
        line, _, expression = given[0]
        if not expression:
            return f"the code returned no value: `return` is alone on line {line}; put the value on the same line"
        context = context or HintContext()
        if tool := tool_not_called(expression, program.source, context):
            return f"the code returned undefined: {tool}"
        found = find(expression, program.source, context)
        why = f": {found}{_instead(found)}" if found is not None and found.rest else ""
        return f"the code returned undefined: `{shorten(expression, 60)}` on line {line} is undefined{why}"
    if logged:
        return "the code returned no value, only console output: end with `return …` to get a value"
    return "the code returned no value: end with `return …`, or with an expression"


def tool_not_called(path: str, source: str, context: HintContext) -> str | None:
    """`const r = await demo.echo;`: the tool itself, where its result was meant."""
    root = re.split(r"[.\[(?]", path)[0]
    declared = rf"\b(?:const|let|var)\s+{re.escape(root)}\s*=\s*"
    tool = r"([\w$]+)\.([\w$]+)\s*"
    found = re.search(
        rf"{declared}(?:await\s+)?{tool}(?:;|\n|$)|{declared}\(\s*await\s+{tool}\)", source[:SEARCHED]
    )
    if found is None:
        return None
    if found[3] in context.backends:
        return f"{found[3]}.{found[4]} is the tool itself: call it, `(await {found[3]}.{found[4]}({{…}}))`"
    if found[1] not in context.backends:
        return None
    called = f"{found[1]}.{found[2]}"
    return f"{root} is the tool {called} itself: call it, `await {called}({{…}})`"


def undefined_argument(error: ErrorFacts, context: HintContext) -> str | None:
    """A required argument is missing because what the code gave for it was undefined."""
    missing = _MISSING.search(error.message)
    if missing is None or error.line is None:
        return None
    given = re.search(rf"\b{re.escape(missing[1])}\s*:\s*({PATH})", error.source_line[error.at :])
    found = find(given[1], error.source, context) if given else None
    if given is None or found is None or not found.rest:
        return None
    said = f"{missing[1]} got {given[1]}, which is undefined: {found}{_instead(found)}"
    return f"{said}{' ' if said.endswith('?') else '. '}{error.given}" if error.given else said


def parsed_twice(error: ErrorFacts, context: HintContext) -> str | None:
    """`JSON.parse` of what is no JSON text."""
    text = error.source_line
    if error.name != "SyntaxError" or "JSON.parse" not in text:
        return None
    inner = re.search(rf"JSON\.parse\(\s*({PATH})\s*\)", text) or re.search(
        r"JSON\.parse\(\s*(.*?)\s*\)?\s*\)?;?\s*$", text
    )
    shown = shorten(inner[1], 40) if inner and inner[1] else "it"
    found = find(shown, error.source, context) or (awaited(inner[1], context) if inner else None)
    if found is not None and not found.rest and (how := how_to_read(found)):
        return f"{found}: {how}"
    if re.search(r"'(?:object|\[object)|\[object Object\]|token: 'o", error.message):
        use = (
            f"use {shown} directly, without JSON.parse" if _PATH.fullmatch(shown) else "leave JSON.parse away"
        )
        return f"this is an object already (tool results that are JSON arrive parsed): {use}"
    if "undefined" in error.message:
        return f"{shown} is undefined: look at the whole value first (return it)"
    return "this text is no JSON: tool results that are JSON arrive parsed, the rest is plain text. Return it to see what it is"


def member_of_nothing(error: ErrorFacts, context: HintContext) -> str | None:
    """A property of undefined or null: which expression was nothing, and what there is instead."""
    match = _OF_NOTHING.match(error.message)
    if match is None:
        return None
    member, nothing = match[1], match[2]
    if member == "Symbol.iterator":
        path = _looped(error)
        found = find(path, error.source, context)
        if found is not None and found.rest:
            return _null(found, path, f"({path} ?? [])") or f"{path} is {nothing}: {found}{_instead(found)}"
        return f"what is taken apart here is {nothing}: look at the value first (return it)"
    whole = _before(error, member)
    if whole is None and _MCP_CONTENT.search(error.source_line):
        return "results arrive as their value, not as MCP content: use what the call gives itself, without JSON.parse"
    shown = f".{member}" if member.isidentifier() or not member.isascii() else f"[{member}]"
    optional = f"?.{shown.removeprefix('.')}"
    if whole is None or whole in ("null", "undefined"):
        return (
            _gives_nothing(error)
            or _not_there(error, context)
            or (
                f"the value in front of {shown} is {nothing}: look at it first (return it), or write {optional}"
            )
        )
    if lost := _LOST_BACKEND.match(whole):
        name = lost[1] or lost[2]
        return context.not_running(name) or f"there is no backend {name}; {context.available}"
    found = find(whole, error.source, context)
    if found is not None and found.rest and not isinstance(found.value, Long):
        if len(found.rest) > 1:  # the engine names the last of several reads of the same name
            whole = f"{found.path}.{found.rest[0]}"
        return _null(found, whole, f"{whole}{optional}") or f"{whole} is {nothing}: {found}{_instead(found)}"
    if said := (
        tool_not_called(whole, error.source, context)
        or _not_there(error, context)
        or (_gives_nothing(error) if whole.isidentifier() else None)
    ):
        return said
    root = re.split(r"[.\[]", whole)[0]
    if re.search(rf"\bcatch\s*\(\s*{re.escape(root)}\b", error.source[:SEARCHED]):
        return f"{whole} is {nothing}: the error of a call has message, tool, and often code and structured"
    parent = whole.rpartition(".")[0]
    if whole.endswith(".value") and "Promise.allSettled(" in error.source[:SEARCHED]:
        return f'a promise that failed has a reason in place of a value: check {parent}.status === "fulfilled" first'
    if re.search(rf"(?<![\w$]){re.escape(root)}\s*=\s*await\s+results\.load\(", error.source[:SEARCHED]):
        return f"results.load gives the value itself, as the earlier chain got it: return {root}[0] ?? Object.keys({root}) to see it"
    keys = f"Object.keys({parent}) to see what {parent} has"
    see = keys if parent and "(" not in parent else f"{root} to see its shape"
    return f"{whole} is {nothing} here: return {see}, or write {whole}{optional}"


def _gives_nothing(error: ErrorFacts) -> str | None:
    """`text.match(/x/)[1]`, `xs.find(f).id`, `xs[-1].id`: what gives nothing on purpose."""
    before = error.source_line[: error.at].rstrip(".?[")
    if before.endswith("]") and (last := re.search(r"\[(-\d+)\]$", before)):
        return f"an index below 0 is no place of an array: write .at({last[1]})"
    called = _LOOKED_UP.search(before)
    if called is None:
        name = re.search(r"([\w$]+)$", before)
        declared = rf"\b(?:const|let|var)\s+{re.escape(name[1])}\s*=([^;\n]*)" if name else "(?!)"
        given = re.search(declared, error.source[:SEARCHED])
        called = _LOOKED_UP.search(given[1].rstrip()) if given else None
    if called is None:
        return None
    nothing = "null" if called[1] in ("match", "exec") else "undefined"
    what = "matches" if called[1] in ("match", "exec") else "is found"
    return f".{called[1]}(…) gives {nothing} where nothing {what}: check its value first, or write ?."


def _not_there(error: ErrorFacts, context: HintContext) -> str | None:
    """The last read before the error of a member that no result has."""
    said = missing_members(context.reads, context, (error.line or 0, error.column or 0))
    return said[-1] if said else None


def _null(found: Found, path: str, write: str) -> str | None:
    """For a member that is there and null: no misspelling, so no other name is proposed."""
    if isinstance(found.value, dict) and found.rest[0] in found.value:
        return f"{path} is null in this result: write {write}"
    return None


def _instead(found: Found) -> str:
    """What to write for the member that is not there."""
    member, value = found.rest[0], found.value
    if member in _OF_MCP:
        also = "" if isinstance(value, str) else ", without JSON.parse"
        return f"; results arrive as their value, not as MCP content: use {found.path} itself{also}"
    if isinstance(value, dict):
        before = "" if found.path == THE_RESULT else f"{found.path}."
        meant = closest(member, map(str, value))
        if not meant and member in _WRAPPERS and len(lists_in(value)) == 1:
            meant = lists_in(value)
        if meant:
            return f"; did you mean {listed(f'{before}{name}' for name in meant)}?"
        how = how_to_read(found)
        return f"; {how}" if how else ""
    if isinstance(value, str) and (how := how_to_read(found)):
        return f"; {how}"
    if member in _WRAPPERS and (
        isinstance(value, str) or (isinstance(value, list) and len({*map(type, value)}) < 2)
    ):
        return f": use {found.path} itself"
    if isinstance(value, list) and value and isinstance(value[0], dict) and member in value[0]:
        return f": its items have .{member}"
    return ""


def _before(error: ErrorFacts, member: str) -> str | None:
    """The plain path (`a.b[0].c`) that ends right before the error's place, where `member` was read."""
    line, at = error.source_line, error.at
    if line[at : at + len(member)] != member:
        found = re.search(rf"\.\s*({re.escape(member)})\b", line)
        at = found.start(1) if found else at
    text = line[:at].rstrip()
    if not text.endswith((".", "[")):
        return None
    end, parts = text[:-1].removesuffix("?").rstrip(), list[str]()
    while found := _PATH_END.search(end):
        parts.insert(0, found[0].removesuffix("!"))
        end = end[: found.start()]
        if not end.rstrip().endswith("."):
            return None if end.endswith((")", "]", "?", '"', "'", "`")) else ".".join(parts)
        end = end.rstrip()[:-1].removesuffix("?").rstrip()
    return None


def no_function(error: ErrorFacts, context: HintContext) -> str | None:
    """A call of what is no function: a backend, a method of another kind of value, a misspelling."""
    called = _CALLED.match(error.source_line, error.at) if _NO_FUNCTION.match(error.message) else None
    if called is None:
        return None
    name, given = called[1], called[2]
    if name in context.backends:
        return f"{name} is a backend, not a function: call one of its tools, `await {name}.tool({{…}})`"
    if not error.source_line[: called.start()].rstrip().endswith("."):
        return f"{name} is no function here: return {name} to see what it is"
    whole = _before(error, name)
    found = _of_reads(error, context, 0) or (find(whole, error.source, context) if whole else None)
    if found is not None and not found.rest:
        if said := _other_kind(found, name):
            return said
        if name in METHODS or name not in _KNOWN_METHODS | OF_ARRAYS | OF_TEXT:
            return f"{found} and has no function {name}{_in_place_of(name)}"
    if whole and (said := tool_not_called(whole, error.source, context) or _page_of_rows(whole, error)):
        return said
    shown, see = whole or f"the value in front of .{name}", whole or "it"
    if name in METHODS or name not in _LIST_METHODS:
        return f"{shown} has no function {name}{_in_place_of(name) or f': return {see} to see what it is'}"
    if re.match(r"[\d\"'`\[{]", given) and name in _WITH_FUNCTION:
        return f"what .{name} is given is no function, or {shown} is no array"
    return f"{shown} is no array here: return {see} to see what it is (often the list is in a property such as .items)"


def _in_place_of(method: str) -> str:
    """What to write for a method that is not there, where that is known."""
    if method in METHODS:
        return f": write {METHODS[method]}"
    close = closest(method, _KNOWN_METHODS, LIKE_ENOUGH) if method not in _KNOWN_METHODS else []
    return f": did you mean {listed(close)}?" if close else ""


def _other_kind(found: Found, method: str) -> str | None:
    """A method of arrays, text or numbers called on a result of another kind."""
    value = found.value
    if method in _LIST_METHODS and not isinstance(value, list):
        return f"{found}, not an array{_as_list(found)}"
    if method in _TEXT_METHODS and not isinstance(value, str):
        if isinstance(value, int | float):
            return f"{found}, not text: write String({found.path}).{method}(…)"
        how = how_to_read(found)
        return f"{found}, not text{how and f': {how}'}"
    if method in _NUMBER_METHODS and isinstance(value, str):
        return f"{found}, not a number: write Number({found.path}).{method}(…)"
    return None


def _as_list(found: Found) -> str:
    """How to get an array out of a value that is none."""
    if isinstance(found.value, dict) and (lists := lists_in(found.value)):
        before = "" if found.path == THE_RESULT else found.path
        return f": use {listed(f'{before}.{name}' for name in lists)}"
    if how := how_to_read(found):
        return f": {how}"
    return f": Object.entries({found.path}) gives its members" if isinstance(found.value, dict) else ""


def not_iterable(error: ErrorFacts, context: HintContext) -> str | None:
    if "not iterable" not in error.message:
        return None
    path = _looped(error)
    if _PAGES in error.source_line and path == "chunks":  # the error's place is that of the method's name
        return "its pages come one after the other: for await (const rows of results.chunks(handle))"
    if path and (said := tool_not_called(path, error.source, context)):
        return said
    found = find(path, error.source, context) if path else None
    if found is not None and found.rest:
        return f"{path} is undefined: {found}{_instead(found)}"
    found = found or _of_reads(error, context, ON_LINE) or _looped_answer(error, context)
    if found is not None and not isinstance(found.value, list):
        return f"{found}, not an array{_as_list(found)}"
    if found is not None and found.value and not isinstance(found.value[0], list):
        item = Found(f"an item of {found.path}", found.value[0])
        return f"{item}, not an array: take its members by name, as in `const {{ … }}`, or give it a name of its own"
    return "what is looped over or spread is no array: return it to see what it is; for an object use Object.entries(…)"


def _looped_answer(error: ErrorFacts, context: HintContext) -> Found | None:
    """`for (const x of await shop.list({}))` and the like: the answer of the call itself is looped over."""
    calls = _LOOPED_CALL.findall(error.source_line)
    answer = awaited(calls[0], context) if len(calls) == 1 else None
    return Found(THE_RESULT, answer.value) if answer else None


def _of_reads(error: ErrorFacts, context: HintContext, after: int) -> Found | None:
    """What is called, looped over or taken apart at the error's place, or up to `after` columns behind it."""
    if error.line is None or error.column is None:
        return None
    spread = error.source_line.rfind("...", 0, error.at) if after else -1
    begin = error.column if spread < 0 else error.column - error.at + spread
    got = value_at(error.line, (begin, error.column + after), context)
    if got is None:
        return None
    path = got[0] if _PATH.fullmatch(got[0]) or re.fullmatch(r"\(await [^\n]*\)", got[0]) else THE_RESULT
    return Found(path, got[1])


def _page_of_rows(path: str, error: ErrorFacts) -> str | None:
    """`const rows = await results.rows(handle)`: a page, not the rows."""
    declared = rf"\b(?:const|let|var)\s+{re.escape(path)}\s*=\s*await\s+results\.(rows|info|save|compact)\("
    found = re.search(declared, error.source[:SEARCHED])
    if found is None:
        return None
    if found[1] in ("rows", "compact"):
        also = ", or results.load(handle) for all of them" if found[1] == "rows" else ""
        return f"results.{found[1]} gives an object: use {path}.rows{also}"
    return f"results.{found[1]} gives what is known of the result: await results.load({path}) gives its value"


def _looped(error: ErrorFacts) -> str:
    """The path that is looped over, spread or taken apart at the error's place, or ""."""
    apart = _APART.match(error.source_line, error.at)  # `const [a, b] = r`
    path = _PATH.match(error.source_line, apart.end() if apart else error.at)
    return path[0] if path else ""
