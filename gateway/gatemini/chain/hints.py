"""What an agent should change after an error: one sentence, or nothing (spec 2.4).

A ladder of rules from the certain to the likely; the first that knows something speaks. Rules look at
facts first and at an engine's wording only to tell what its error names, never to decide what happens
next. Pure. Above: failure.py. Below: foreign.py, places.py.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gatemini.chain.foreign import syntax_hint
from gatemini.chain.places import line_at

CLOSEST: Final = 3
"""Names suggested for an unknown one."""

LISTED: Final = 12
"""Names listed where all would be too many."""

AROUND: Final = 400
"""Characters looked at on either side of an error's place."""

SHOWN_STDERR: Final = 300
"""Characters of a backend's last stderr line in a hint."""


@dataclass(frozen=True, slots=True)
class ErrorFacts:
    """An error as it arrived. `source` is the text as submitted, `line` and `column` are its, 1-based.

    `limit` is the code of a limit ("limit.cpu"), `code` that of a gateway or tool error, `given` a hint that
    came with the error.
    """

    name: str
    message: str
    line: int | None = None
    column: int | None = None
    source: str = ""
    limit: str | None = None
    tool: str | None = None
    backend: str | None = None
    code: Any = None
    given: str | None = None


@dataclass(frozen=True, slots=True)
class BackendState:
    """How a backend is: `starting`, `ready`, `stopped`, `crashed` …, its error and its last stderr lines."""

    state: str
    error: str | None = None
    stderr: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ProgramFacts:
    """What the parse of the code told: places are (line, column), an un-awaited call also has its text."""

    shadowed: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    unawaited: Sequence[tuple[int, int, str]] = ()
    declared_never_called: str | None = None


def _nothing(_: str) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class HintContext:
    """What is known around the error. `backends`: global identifier → name; `tools`: a backend's tool names;
    `owners`: the qualified names of tools with this bare name; `signature` and `state` by name, None if unknown.
    """

    backends: Mapping[str, str] = field(default_factory=dict)
    tools: Callable[[str], Sequence[str]] = _nothing
    owners: Callable[[str], Sequence[str]] = _nothing
    signature: Callable[[str, str], str | None] = lambda _backend, _tool: None
    state: Callable[[str], BackendState | None] = lambda _: None
    program: ProgramFacts = field(default_factory=ProgramFacts)


Rule = Callable[[ErrorFacts, HintContext], str | None]


def hint(error: ErrorFacts, context: HintContext) -> str | None:
    """The one hint for this error, or None where nothing useful can be said."""
    for rule in _RULES:
        if said := rule(error, context):
            return said
    return None


def nothing_returned(program: ProgramFacts, *, logged: bool) -> str:
    """The note for a chain whose value is undefined."""
    name = program.declared_never_called
    if name:
        return f"the code returned no value: {name} is declared but never called; end with `return await {name}();`"
    if logged:
        return "the code returned no value, only console output: end with `return …` to get a value"
    return "the code returned no value: end with `return …`, or with an expression"


# --- limits and backends --------------------------------------------------------------------------

_LIMITS: Final = {
    "limit.time": "raise `timeout` (ms, at most 600000) or do less in one chain; calls listed below as done need not be repeated",
    "limit.cpu": "the code itself computed too long: look for an endless loop, a loop that awaits nothing, or a regular expression with nested repetition such as (a+)+",
    "limit.memory": "keep less at once: filter or page at the tool, or work on a stored result with results.chunks(handle)",
    "limit.stack": "recursion went too deep: check its end condition, or use a loop with a list of what is left to do",
    "limit.code": "move data out of the code: let a tool produce it, or keep it with results.save(value) in an earlier chain",
    "limit.calls": "use a tool that takes many items at once, or split the work over several chains",
    "limit.arguments": "pass less data in one call, or pass the `ref` of a stored result instead",
    "limit.result": "ask the tool for less (a filter, a page), or read the stored result with results.chunks(handle)",
    "limit.value": "return less (the fields and rows that are needed), or keep it with results.save(value) and return the handle",
    "limit.depth": "flatten the value before returning or passing it",
}


def _limit(error: ErrorFacts, context: HintContext) -> str | None:
    return _LIMITS.get(error.limit or "")


def _backend_trouble(error: ErrorFacts, context: HintContext) -> str | None:
    """A backend that could not answer: its state, its last words and where to read more."""
    code = error.code if isinstance(error.code, str) else ""
    if (
        not code.startswith("backend.")
        or error.backend is None
        or code in ("backend.not_found", "backend.protocol")
    ):
        return None
    state = context.state(error.backend)
    parts = [error.given] if error.given else []
    if state is not None:
        parts.append(f"{error.backend} is {state.state}" + (f" ({_cut(state.error)})" if state.error else ""))
        if state.stderr:
            parts.append(f"its last stderr line: {_cut(state.stderr[-1])}")
    advice = {
        "backend.starting": "call it again in a moment",
        "backend.timeout": "raise `timeout`, or ask for less; whether the call took effect is not known",
        "backend.busy": "nothing was sent: make fewer calls at once",
        "backend.crashed": "it is restarted at the next call; check what took effect before you repeat a write",
        "backend.too_large": "ask the tool for less (a filter, a page)",
    }.get(code, "see gatemini://health")
    parts.append(advice if "health" in advice else f"{advice}; more in gatemini://health")
    return "; ".join(parts)


_KEYS = re.compile(
    r"\b(?:401|403|unauthori[sz]ed|forbidden|api[ _-]?key|token|credentials?|authentication)\b", re.I
)


def _tool_failed(error: ErrorFacts, context: HintContext) -> str | None:
    """An error of the tool itself: its signature where it refused the parameters, its keys where it wants some."""
    if error.given:
        return error.given
    if error.tool is None:
        return None
    if error.code == -32602 and error.backend:
        signature = context.signature(error.backend, error.tool.rpartition(".")[2])
        return (
            f"signature: {signature}" if signature else f"look at tool_info {error.tool} before calling again"
        )
    if error.name == "ToolError" and _KEYS.search(error.message):
        return (
            f"get_required_keys_for_tool {error.tool} names the keys this backend needs and which are missing"
        )
    return None


def _unknown_tool(error: ErrorFacts, context: HintContext) -> str | None:
    if error.code != "tool.not_found" or error.backend is None:
        return None
    name = (error.tool or "").removeprefix(f"{error.backend}.")
    known = context.tools(error.backend)
    elsewhere = [owner for owner in context.owners(name) if not owner.startswith(f"{error.backend}.")]
    if elsewhere:
        return f"{name} is a tool of {_listed(owner.rpartition('.')[0] for owner in elsewhere[:CLOSEST])}"
    close = _close(name, known)
    if close:
        return f"did you mean {_listed(close)}?"
    return f"tools of {error.backend}: {_listed(known)}" if known else error.given


# --- names ----------------------------------------------------------------------------------------

_NOT_DEFINED = re.compile(r"^'?([\w$]+)'? is not defined$")
_NOT_READY = re.compile(
    r"^'?([\w$]+)'? is not initialized$|^Cannot access '([\w$]+)' before initialization|^lexical variable '?([\w$]+)'? is not"
)
_ABSENT: Final = {
    "require": "there is no require/module system here",
    "module": "there is no module object here; use `return`",
    "exports": "there is no exports object here; use `return`",
    "fetch": "there is no network here",
    "XMLHttpRequest": "there is no network here",
    "WebSocket": "there is no network here",
    "axios": "there is no network here",
    "process": "there is no process here; secrets belong in the backend's config",
    "Deno": "there is no Deno here; secrets belong in the backend's config",
    "Bun": "there is no Bun here; secrets belong in the backend's config",
    "fs": "there are no files here",
    "path": "there are no files here",
    "os": "there is no operating system here",
    "open": "there are no files here",
    "__dirname": "there are no files here",
    "__filename": "there are no files here",
}
_SUBSTITUTES: Final = {
    "Intl": "there is no Intl here: format numbers and dates by hand (toLocaleString is plain, time zone UTC)",
    "window": "there is no browser here; global names are on globalThis",
    "document": "there is no browser here and no DOM: work on the text itself",
    "localStorage": "nothing is stored between chains but results: results.save(value)",
    "global": "write globalThis instead of global",
    "print": "write console.log(…)",
    "None": "write null instead of None",
    "True": "write true instead of True",
    "False": "write false instead of False",
    "nil": "write null instead of nil",
    "len": "write list.length",
    "str": "write String(value)",
    "dict": "write an object literal: { key: value }",
    "lambda": "write (x) => …",
    "args": "only composite tools have args; write the values into the code",
    "ToolError": "compare the name instead: `e.name === 'ToolError'`",
    "setImmediate": "write setTimeout(f, 0)",
    "lodash": "there are no packages here: use the language's own array methods",
    "_": "there are no packages here: use the language's own array methods",
    "z": "there are no packages here: check values with plain code",
}


def _shadowed(error: ErrorFacts, context: HintContext) -> str | None:
    """`const exa = await exa.search()`: the variable hides the backend of the same name."""
    found = _NOT_READY.match(error.message)
    name = next((group for group in found.groups() if group), None) if found else None
    if name is not None and (name in context.program.shadowed or name in context.backends):
        line = context.program.shadowed.get(name, (error.line, 0))[0]
        return (
            f"the variable {name} (line {line}) hides the backend {name}: rename the variable, "
            f"for example `const {name}Result = await {name}.…`"
        )
    if name is not None:
        return f"{name} is used before its declaration: move the declaration up"
    if error.name not in ("TypeError", "ReferenceError"):
        return None
    text = _source_line(error)
    for hidden, (line, _) in context.program.shadowed.items():
        if re.search(rf"(?<![\w$.]){re.escape(hidden)}\s*[.\[]", text):
            return f"{hidden} is the variable of line {line} here, not the backend: rename the variable"
    return None


def _unknown_name(error: ErrorFacts, context: HintContext) -> str | None:
    found = _NOT_DEFINED.match(error.message)
    if found is None:
        return None
    name = found[1]
    if name in _ABSENT:
        return _sandbox_is(_ABSENT[name], name, context)
    if said := _as_backend_or_tool(name, error, context):
        return said
    if name in _SUBSTITUTES:
        return _SUBSTITUTES[name]
    close = _close(name, [*_declared(error.source), *context.backends])
    if close:
        return f"did you mean {_listed(close)}?"
    used = re.search(
        rf"(?<![\w$.]){re.escape(name)}\s*(?:\.\s*[\w$]+|\[[^\]]*\])\s*\(", error.source[:100_000]
    )
    if used:
        return f"there is no backend {name}; {_available(context)}"
    return f"declare {name} first; nothing is kept from one chain to the next but results. {_available(context).capitalize()}"


def _as_backend_or_tool(name: str, error: ErrorFacts, context: HintContext) -> str | None:
    """The name is a tool's bare name, or nearly a backend's."""
    if owners := context.owners(name):
        called = [_spelled(owner, context) for owner in owners[:CLOSEST]]
        backend = owners[0].rpartition(".")[0]
        if len(owners) == 1:
            return f"{name} is a tool of backend {backend}: write `await {called[0]}({{…}})`"
        return f"{name} is a tool of several backends: write one of {_listed(called)}"
    folded = re.sub(r"[\W_]", "", name).lower()
    for identifier, backend in context.backends.items():
        if (
            re.sub(r"[\W_]", "", identifier).lower() == folded
            or re.sub(r"[\W_]", "", backend).lower() == folded
        ):
            return f"the backend {backend} is called {identifier} in code: write `await {identifier}.tool({{…}})`"
    line = _source_line(error)
    for identifier, backend in context.backends.items():
        # `files-eu.read()` is read as `files - eu.read()`
        if backend != identifier and name in re.split(r"\W", backend) and backend in line:
            return f"the backend {backend} is called {identifier} in code"
    return None


def _host_access(error: ErrorFacts, context: HintContext) -> str | None:
    """The guest's own refusals of `require` and the like, and of imports."""
    if re.search(r"\bimport\b|\brequire\b|could not load module", error.message, re.I):
        return _sandbox_is("there is no require/module system here", "read file", context)
    return None


def _sandbox_is(what: str, name: str, context: HintContext) -> str:
    wanted = {"fetch": "fetch url", "fs": "read file", "require": "read file"}.get(name, "what you need")
    return f"{what}: code runs in a sandbox without network, files and processes; {_available(context)}; find a tool with search_tools('{wanted}')"


def _spelled(qualified: str, context: HintContext) -> str:
    """`backend.tool` as code writes it."""
    backend, _, tool = qualified.rpartition(".")
    identifier = next((known for known, name in context.backends.items() if name == backend), None)
    left = identifier or f'__backends["{backend}"]'
    return f"{left}.{tool}" if re.fullmatch(r"[A-Za-z_$][\w$]*", tool) else f'{left}["{tool}"]'


# --- promises, values, syntax ---------------------------------------------------------------------

_OF_NOTHING = re.compile(
    r"^cannot read property '?([^']+?)'? of (undefined|null)$|^Cannot read properties of (undefined|null) \(reading '(.+)'\)$"
)
_NO_FUNCTION = re.compile(r"^not a function$|^(.+) is not a function$")
_PROMISE_MISUSED = re.compile(
    r"cannot read property|Cannot read properties|not a function|not iterable|is not an object", re.I
)
_ARRAY_METHODS = "map|filter|reduce|forEach|find|some|every|flatMap|slice|sort|join|push|concat|includes"


def _forgotten_await(error: ErrorFacts, context: HintContext) -> str | None:
    """A promise used as if it were its value."""
    if error.name != "TypeError" or not _PROMISE_MISUSED.search(error.message):
        return None
    text = _source_line(error)
    names = "|".join(map(re.escape, context.backends)) or "(?!)"
    call = rf"(?:{names})(?:\.[\w$]+|\[[^\]]+\])\((?:[^()]|\([^()]*\))*\)"
    if found := re.search(rf"\bawait\s+({call})\s*(?:\.|\[|\))", text):
        shown = _cut(found[1], 60)
        after = text[found.end(1) :].lstrip()
        if after[:1] in (".", "["):
            return (
                f"`await` reaches only to the end of the expression: write `(await {shown}){_cut(after, 30)}`"
            )
    if found := re.search(rf"(?<!await )(?<![\w$.])({call})\s*[.\[]", text):
        return f"{_cut(found[1], 60)} gives a promise: write `(await {_cut(found[1], 60)})`"
    earlier = [u for u in context.program.unawaited if error.line is None or u[0] <= error.line]
    if earlier:
        line, _, call_text = earlier[-1]
        return (
            f"{_cut(call_text, 60)} on line {line} gives a promise, not its value: put `await` in front of it"
        )
    return None


def _parsed_twice(error: ErrorFacts, context: HintContext) -> str | None:
    """`JSON.parse` of what is a value already."""
    text = _source_line(error)
    if error.name != "SyntaxError" or "JSON.parse" not in text:
        return None
    inner = re.search(r"JSON\.parse\(\s*(.*?)\s*\)?\s*\)?;?\s*$", text)
    shown = _cut(inner[1], 40) if inner and inner[1] else "it"
    if re.search(r"'(?:object|\[object)|\[object Object\]|token: 'o", error.message):
        return f"this is an object already (tool results that are JSON arrive parsed): use {shown} directly, without JSON.parse"
    if "undefined" in error.message:
        return f"{shown} is undefined: look at the whole value first (return it)"
    return "this text is no JSON: tool results that are JSON arrive parsed, the rest is plain text. Return it to see what it is"


def _of_nothing(error: ErrorFacts, context: HintContext) -> str | None:
    """A property of undefined or null: which expression was nothing, and how to see more."""
    found = _OF_NOTHING.match(error.message)
    if found is None:
        return None
    member, nothing = found[1] or found[4], found[2] or found[3]
    if member == "Symbol.iterator":
        return f"what is taken apart here is {nothing}: look at the value first (return it)"
    path = re.search(
        rf"([\w$)\]][\w$.\[\]'\"()]*?)[!?]?\s*(?:\.\s*{re.escape(member)}\b|\[\s*['\"]{re.escape(member)}['\"])",
        _source_line(error),
    )
    if path is None:
        return (
            f"the value in front of .{member} is {nothing}: look at it first (return it), or write ?.{member}"
        )
    whole = path[1]
    parent = whole.rpartition(".")[0]
    see = (
        f"return Object.keys({parent}) to see what {parent} has"
        if parent and "(" not in parent
        else f"return {whole.split('.')[0].split('[')[0]} to see its shape"
    )
    return f"{whole} is {nothing} here: {see}, or write {whole}?.{member}"


def _no_function(error: ErrorFacts, context: HintContext) -> str | None:
    if not _NO_FUNCTION.match(error.message):
        return None
    text = _source_line(error)
    if found := re.search(rf"([\w$][\w$.\[\]'\"]*)\s*\.\s*({_ARRAY_METHODS})\s*\(", text):
        return f"{found[1]} is no array here: return {found[1]} to see what it is (often the list is in a property such as .items)"
    if (found := re.search(r"([\w$]+)\s*\(", text)) and found[1] in context.backends:
        return (
            f"{found[1]} is a backend, not a function: call one of its tools, `await {found[1]}.tool({{…}})`"
        )
    return None


_DEADLOCK = re.compile(r"nothing left to run|never settle|deadlock", re.I)


def _deadlock(error: ErrorFacts, context: HintContext) -> str | None:
    if error.name not in ("DeadlockError", "Deadlock") and not _DEADLOCK.search(error.message):
        return None
    return "the code awaits a promise that nothing will settle: call its resolve, or await a tool call or sleep(ms) instead"


_WORDINGS: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"is read-only|Assignment to constant"), "declare it with let instead of const"),
    (re.compile(r"not iterable"), "what is looped over or spread is no array: return it to see what it is; for an object use Object.entries(…)"),
    (re.compile(r"Cannot convert undefined or null to object"), "the value is undefined or null: look at it first (return it)"),
    (re.compile(r"circular reference"), "return the value itself, without JSON.stringify: cycles are written as \"[Circular]\""),
    (re.compile(r"BigInt"), "convert with Number(x) or String(x): BigInt mixes with nothing"),
    (re.compile(r"redefinition|already been declared"), "the name is declared twice in this scope: rename one"),
    (re.compile(r"invalid (?:array|string) length"), "the size is out of range: build less at once"),
)  # fmt: skip


def _engine_wording(error: ErrorFacts, context: HintContext) -> str | None:
    if error.name not in ("TypeError", "SyntaxError", "RangeError"):
        return None
    return next((said for pattern, said in _WORDINGS if pattern.search(error.message)), None)


def _syntax(error: ErrorFacts, context: HintContext) -> str | None:
    if error.name not in ("SyntaxError", "CodeError") or not error.source:
        return None
    return syntax_hint(error.source, error.line, error.column)


def _given(error: ErrorFacts, context: HintContext) -> str | None:
    return error.given


_RULES: Final[tuple[Rule, ...]] = (
    _limit,
    _backend_trouble,
    _unknown_tool,
    _tool_failed,
    _shadowed,
    _unknown_name,
    _forgotten_await,
    _parsed_twice,
    _deadlock,
    _of_nothing,
    _no_function,
    _engine_wording,
    _host_access,
    _syntax,
    _given,
)


# --- wording --------------------------------------------------------------------------------------


def _source_line(error: ErrorFacts) -> str:
    """The line of the error; of a very long one, what stands around the column."""
    text = (line_at(error.source, error.line) or "") if error.line else ""
    start = max(0, (error.column or 1) - AROUND)
    return text if len(text) <= 2 * AROUND else text[start : start + 2 * AROUND]


def _declared(source: str) -> list[str]:
    names = re.findall(r"\b(?:const|let|var|function|class)\s+([A-Za-z_$][\w$]*)", source[:100_000])
    return list(dict.fromkeys(names))[:200]


def _close(name: str, known: Iterable[str]) -> list[str]:
    return difflib.get_close_matches(name, list(dict.fromkeys(known)), CLOSEST, 0.6)


def _available(context: HintContext) -> str:
    return (
        f"backends available: {_listed(context.backends)}" if context.backends else "no backend is available"
    )


def _listed(names: Iterable[str]) -> str:
    every = list(dict.fromkeys(names))
    shown = ", ".join(every[:LISTED])
    return f"{shown}, … ({len(every)} in all)" if len(every) > LISTED else shown


def _cut(text: str, limit: int = SHOWN_STDERR) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
