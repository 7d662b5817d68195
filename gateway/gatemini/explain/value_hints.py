"""Hints about values that are not what the code takes them for: undefined, no array, no text.

Where the value is a tool's result the hint says what it is, so that it need not be looked at first. Rules of the
ladder in hints.py, which is above; below: brought.py, facts.py.
"""

from __future__ import annotations

import re
from typing import Final

from gatemini.chain.brought import LOOKED_AT, THE_RESULT, Found, Long, find, lists_in
from gatemini.chain.facts import (
    AROUND,
    ErrorFacts,
    HintContext,
    ProgramFacts,
    close_to,
    listed,
    shortened,
)
from gatemini.chain.places import line_at, place

_OF_NOTHING = re.compile(
    r"^cannot read property '?([^']+?)'? of (undefined|null)$|^Cannot read properties of (undefined|null) \(reading '(.+)'\)$"
)
_NO_FUNCTION = re.compile(r"^not a function$|^(.+) is not a function$")
_WITH_FUNCTION: Final = (
    "map",
    "filter",
    "reduce",
    "forEach",
    "find",
    "findIndex",
    "some",
    "every",
    "flatMap",
    "sort",
)
_LIST_METHODS: Final = (*_WITH_FUNCTION, "slice", "join", "push", "concat", "includes")
_NUMBER_METHODS: Final = ("toFixed", "toPrecision", "toExponential")
_TEXT_METHODS: Final = (
    *("split", "replace", "replaceAll", "trim", "padStart", "padEnd", "startsWith", "endsWith", "substring", "toLowerCase"),
    *("toUpperCase", "match", "matchAll", "repeat", "charAt"),
)  # fmt: skip
_KNOWN_METHODS: Final = (
    *(*_LIST_METHODS, "pop", "shift", "unshift", "splice", "reverse", "indexOf", "entries", "keys", "values", "at", "flat"),
    *(*_TEXT_METHODS, "toString", "toFixed", "toISOString", "getTime", "has", "get", "set", "add", "delete"),
    *("findLast", "toSorted", "toReversed", "then", "catch", "finally", "test", "exec"),
)  # fmt: skip
LIKE_ENOUGH: Final = 0.75
"""How like a method of the language a name must be to be taken for its misspelling (difflib's ratio)."""

_CALLED = re.compile(r"([\w$]+)\s*(?:\?\.)?\(\s*(.?)")
_WRAPPERS: Final = (
    "data",
    "items",
    "results",
    "result",
    "value",
    "rows",
    "response",
    "body",
    "json",
    "output",
)
"""What other servers wrap their results in."""
_OF_MCP: Final = ("content", "structuredContent", "isError")
_MCP_CONTENT = re.compile(r"\.content\s*(?:\?\.)?\[\s*0\s*\]|\.structuredContent\b")
_PATH_END = re.compile(r"[\w$]+(?:\[(?:\d+|'[^']*'|\"[^\"]*\"|[\w$.]+)\])*!?$")
_PATH = re.compile(r"[A-Za-z_$][\w$]*(?:\.[\w$]+|\[(?:\d+|'[^']*'|\"[^\"]*\")\])*")
_ASYNC_TEST = re.compile(r"\.(filter|some|every|find|findIndex|findLast)\(\s*async\b")
_ASYNC_EACH = re.compile(r"\.forEach\(\s*async\b")
_ASYNC_MAP = re.compile(
    r"(?<![\w$])([\w$]{1,80})\s{0,20}=\s{0,200}(?!await\b|Promise\b)(?:[^=;\n()]|\(\)){1,200}?\.(?:map|flatMap)\(\s*async\b"
)
_QUOTED_CODE = re.compile(r"""\s*("(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+')\s*;?\s*""", re.DOTALL)
_APART = re.compile(r"\[[^\]]*\]\s*=\s*(?:await\s+)?")
_LOST_BACKEND = re.compile(r"""^(?:__backends|globalThis)(?:\.([\w$]+)|\[\s*["']([^"']+)["']\s*\])$""")


def nothing_returned(program: ProgramFacts, context: HintContext | None = None, *, logged: bool) -> str:
    """The note for a chain whose value is undefined."""
    name = program.declared_never_called
    if name:
        return f"the code returned no value: {name} is declared but never called; end with `return await {name}();`"
    if program.lost_value is not None:
        line, _, value = program.lost_value
        return f"the code returned no value: {shortened(value, 60)} on line {line} is not returned; write `return {shortened(value, 60)};`"
    given = [one for one in program.returned if one[2] not in ("undefined", "void 0")]
    if len(given) == 1 and not logged:
        line, _, expression = given[0]
        if not expression:
            return f"the code returned no value: `return` stands alone on line {line}; put the value on the same line"
        context = context or HintContext()
        found = find(expression, program.source, context)
        root = re.split(r"[.[(?]", expression)[0]
        if tool := uncalled(root, program.source, context):
            return f"the code returned undefined: {tool}"
        why = f": {found.said}{_instead(found)}" if found is not None and found.rest else ""
        return f"the code returned undefined: `{shortened(expression, 60)}` on line {line} is undefined{why}"
    if logged:
        return "the code returned no value, only console output: end with `return …` to get a value"
    return "the code returned no value: end with `return …`, or with an expression"


def slips(program: ProgramFacts, text: str, *, left_open: bool) -> list[str]:
    """Notes on a chain that has a value which is likely not what was meant, all for want of an `await`."""
    notes = []
    if "[object Promise]" in text[:LOOKED_AT]:
        notes.append(
            'the value holds "[object Promise]": a promise was written as text; wait for it first, '
            "with `await` or `await Promise.all(…)`"
        )
    code = program.source[:LOOKED_AT]
    if _QUOTED_CODE.fullmatch(code) and re.search(r"(?:\b|\\n)(?:return|await)\b", code):
        notes.append("the code is one string and was its own value: send what stands between its quotes")
    if found := _ASYNC_TEST.search(code):
        notes.append(
            f".{found[1]} with an async function (line {place(code, found.start())[0]}) takes each promise for true: "
            "await the answers first, then filter"
        )
    if left_open and (found := _ASYNC_EACH.search(code)):
        notes.append(
            f".forEach (line {place(code, found.start())[0]}) does not wait for an async function: use "
            "`for (const x of xs)` with await, or `await Promise.all(xs.map(async (x) => …))`"
        )
    mapped = _ASYNC_MAP.search(code) if left_open else None
    # Unless it is waited for further down, at once or one by one.
    if mapped and not re.search(rf"(?:Promise\.\w+\(|\bawait |\bof )[^\n;]*\b{re.escape(mapped[1])}\b", code):
        notes.append(
            f"{mapped[1]} (line {place(code, mapped.start())[0]}) is an array of promises, which nothing waits for: "
            f"write `{mapped[1]} = await Promise.all(…)` around the map"
        )
    return notes


def uncalled(root: str, source: str, context: HintContext) -> str | None:
    """`const r = await demo.echo;`: the tool itself, where its result was meant."""
    found = re.search(
        rf"\b(?:const|let|var)\s+{re.escape(root)}\s*=\s*(?:await\s+)?([\w$]+)\.([\w$]+)\s*(?:;|\n|$)",
        source[:LOOKED_AT],
    )
    if found is None or found[1] not in context.backends:
        return None
    called = f"{found[1]}.{found[2]}"
    return f"{root} is the tool {called} itself: call it, `await {called}({{…}})`"


def of_nothing(error: ErrorFacts, context: HintContext) -> str | None:
    """A property of undefined or null: which expression was nothing, and what there is instead."""
    match = _OF_NOTHING.match(error.message)
    if match is None:
        return None
    member, nothing = match[1] or match[4], match[2] or match[3]
    if member == "Symbol.iterator":
        found, path = _looped(error, context)
        if found is not None and found.rest:
            if isinstance(found.value, dict) and found.rest[0] in found.value:
                return f"{path} is null in this result: write ({path} ?? [])"
            return f"{path} is {nothing}: {found.said}{_instead(found)}"
        return f"what is taken apart here is {nothing}: look at the value first (return it)"
    whole = _before(error, member)
    if whole is None and _MCP_CONTENT.search(error.source_line):
        return "results arrive as their value, not as MCP content: use what the call gives itself, without JSON.parse"
    if whole is None or whole in ("null", "undefined"):
        return (
            f"the value in front of .{member} is {nothing}: look at it first (return it), or write ?.{member}"
        )
    if lost := _LOST_BACKEND.match(whole):
        name = lost[1] or lost[2]
        return context.lost(name) or f"there is no backend {name}; {context.available}"
    optional = f"?.{member}" if member.isidentifier() or not member.isascii() else f"?.[{member}]"
    found = find(whole, error.source, context)
    if found is not None and found.rest and not isinstance(found.value, Long):
        if isinstance(found.value, dict) and found.rest[0] in found.value:
            return f"{whole} is null in this result: write {whole}{optional}"
        return f"{whole} is {nothing}: {found.said}{_instead(found)}"
    if said := uncalled(re.split(r"[.[]", whole)[0], error.source, context):
        return said
    parent = whole.rpartition(".")[0]
    see = (
        f"return Object.keys({parent}) to see what {parent} has"
        if parent and "(" not in parent
        else f"return {re.split(r'[.[]', whole)[0]} to see its shape"
    )
    return f"{whole} is {nothing} here: {see}, or write {whole}{optional}"


def _instead(found: Found) -> str:
    """What to write for the member that is not there."""
    member, value = found.rest[0], found.value
    if member in _OF_MCP:
        also = ", without JSON.parse" if not isinstance(value, str) else ""
        return f"; results arrive as their value, not as MCP content: use {found.path} itself{also}"
    if isinstance(value, dict):
        before = "" if found.path == THE_RESULT else f"{found.path}."
        meant = close_to(member, map(str, value))
        if not meant and member in _WRAPPERS and len(lists_in(value)) == 1:
            meant = lists_in(value)
        return f"; did you mean {listed(f'{before}{name}' for name in meant)}?" if meant else ""
    if member in _WRAPPERS and isinstance(value, list | str):
        return f": use {found.path} itself"
    if isinstance(value, list) and value and isinstance(value[0], dict) and member in value[0]:
        return f": its items have .{member}"
    return ""


def _before(error: ErrorFacts, member: str) -> str | None:
    """The plain path (`a.b[0].c`) that ends right before the error's place, where `member` was read."""
    line = error.source_line
    short = len(line_at(error.source, error.line or 0) or "") <= 2 * AROUND
    column = (error.column or 1) - 1 if short else min((error.column or 1) - 1, AROUND - 1)
    if line[column : column + len(member)] != member:
        found = re.search(rf"\.\s*({re.escape(member)})\b", line)
        column = found.start(1) if found else column
    text = line[:column].rstrip()
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
    if not _NO_FUNCTION.match(error.message):
        return None
    called = _CALLED.match(error.source_line, (error.column or 1) - 1)
    if called is None:
        return None
    name, given = called[1], called[2]
    if name in context.backends:
        return f"{name} is a backend, not a function: call one of its tools, `await {name}.tool({{…}})`"
    if not error.source_line[: called.start()].rstrip().endswith("."):
        return f"{name} is no function here: return {name} to see what it is"
    whole = _before(error, name)
    shown, see = whole or f"the value in front of .{name}", whole or "it"
    found = find(whole, error.source, context) if whole else None
    if found is not None and not found.rest and (said := _not_that(found, name)):
        return said
    if whole and (said := uncalled(whole, error.source, context)):
        return said
    if close := (
        close_to(name, set(_KNOWN_METHODS) - {name}, LIKE_ENOUGH) if name not in _KNOWN_METHODS else []
    ):
        return f"{shown} has no function {name}: did you mean {listed(close)}?"
    if name not in _LIST_METHODS:
        return f"{shown} has no function {name}: return {see} to see what it is"
    if re.match(r"[\d\"'`\[{]", given) and name in _WITH_FUNCTION:
        return f"what .{name} is given is no function, or {shown} is no array"
    return f"{shown} is no array here: return {see} to see what it is (often the list is in a property such as .items)"


def _not_that(found: Found, method: str) -> str | None:
    """A method of arrays or of text called on a result of another kind."""
    value = found.value
    if method in _LIST_METHODS and not isinstance(value, list):
        return f"{found.said}, not an array{_as_list(found)}"
    if method in _TEXT_METHODS and not isinstance(value, str):
        return f"{found.said}, not text"
    if method in _NUMBER_METHODS and isinstance(value, str):
        return f"{found.said}, not a number: write Number({found.path}).{method}(…)"
    return None


def _as_list(found: Found) -> str:
    value = found.value
    if isinstance(value, str):
        return f': take it apart, for example `{found.path}.split("\\n")`'
    lists = lists_in(value)
    if lists:
        return f": use {listed(f'{found.path}.{name}' for name in lists)}"
    return f": Object.entries({found.path}) gives its members" if isinstance(value, dict) else ""


_PAGES = "results.chunks("


def not_iterable(error: ErrorFacts, context: HintContext) -> str | None:
    if "not iterable" not in error.message:
        return None
    found, path = _looped(error, context)
    if _PAGES in error.source_line and path == "chunks":  # the place is that of the method's name
        return "its pages come one after the other: for await (const rows of results.chunks(handle))"
    if path and (said := uncalled(path, error.source, context)):
        return said
    if found is not None and not found.rest and not isinstance(found.value, list):
        return f"{found.said}, not an array{_as_list(found)}"
    if found is not None and found.rest:
        return f"{path} is undefined: {found.said}{_instead(found)}"
    return "what is looped over or spread is no array: return it to see what it is; for an object use Object.entries(…)"


def _looped(error: ErrorFacts, context: HintContext) -> tuple[Found | None, str]:
    """What is looped over, spread or taken apart at the error's place."""
    line, column = error.source_line, (error.column or 1) - 1
    if apart := _APART.match(line, column):  # `const [a, b] = r`
        column = apart.end()
    at = _PATH.match(line, column)
    return (find(at[0], error.source, context), at[0]) if at else (None, "")
