"""What an agent should change after an error: one sentence, or nothing (spec 2.4).

A ladder of rules from the certain to the likely; the first that knows something speaks. Rules look at
facts first and at an engine's wording only to tell what its error names, never to decide what happens
next. Pure. Above: failure.py. Below: names.py, misread.py, foreign.py, facts.py.
"""

from __future__ import annotations

import re
from typing import Final

from gatemini.chain.facts import (
    CLOSEST,
    BackendState,
    ErrorFacts,
    HintContext,
    ProgramFacts,
    Rule,
    close_to,
    listed,
    shortened,
)
from gatemini.chain.foreign import syntax_hint
from gatemini.chain.misread import no_function, not_iterable, nothing_returned, of_nothing
from gatemini.chain.names import given_to_main, host_access, imported, shadowed, unknown_name, wrong_owner
from gatemini.types.identifiers import spoken

__all__ = ["BackendState", "ErrorFacts", "HintContext", "ProgramFacts", "hint", "nothing_returned"]

SHOWN_STDERR: Final = 300
"""Characters of a backend's last stderr line in a hint."""


def hint(error: ErrorFacts, context: HintContext) -> str | None:
    """The one hint for this error, or None where nothing useful can be said."""
    for rule in _RULES:
        if said := rule(error, context):
            return said
    return None


# --- limits and backends --------------------------------------------------------------------------

_LIMITS: Final = {
    "limit.time": "raise `timeout` (ms, at most 600000) or do less in one chain",
    "limit.guests": "send it again when fewer chains run, or raise `timeout` (ms, at most 600000)",
    "limit.cpu": "the code itself computed too long: look for an endless loop, a loop that awaits nothing, or a regular expression with nested repetition such as (a+)+",
    "limit.memory": "keep less at once: filter or page at the tool, or work on a stored result with results.chunks(handle)",
    "limit.total_memory": "send it again when fewer chains run, or keep less at once",
    "limit.stack": "recursion went too deep, or a literal or value is nested too deep: check the end condition, use a loop with a list of what is left to do, or flatten the value",
    "limit.code": "move data out of the code: let a tool produce it, or keep it with results.save(value) in an earlier chain",
    "limit.calls": "use a tool that takes many items at once, or split the work over several chains",
    "limit.timers": "wait with one timer for many things, or clear timers that are not needed any more",
    "limit.arguments": "pass less data in one call, or pass the `ref` of a stored result instead",
    "limit.result": "ask the tool for less (a filter, a page), or read the stored result with results.chunks(handle)",
    "limit.value": "return less (the fields and rows that are needed), or keep it with results.save(value) and return the handle",
    "sandbox.worker_lost": "this is no fault of the code: send it again, with `@resume` where a line below names its id",
    "limit.depth": "flatten the value before returning or passing it",
}


def _limit(error: ErrorFacts, context: HintContext) -> str | None:
    if error.limit == "limit.time" and error.given:
        return error.given
    return _LIMITS.get(error.limit or "")


_ADVICE: Final = {
    "backend.starting": "call it again in a moment",
    "backend.timeout": "raise `timeout`, or ask for less; whether the call took effect is not known",
    "backend.busy": "nothing was sent: make fewer calls at once",
    "backend.crashed": "the next call starts it again; look whether this one took effect before you repeat it",
    "backend.too_large": "ask the tool for less (a filter, a page)",
}
"""For errors that came without a remedy of their own."""


def _backend_trouble(error: ErrorFacts, context: HintContext) -> str | None:
    """A backend that could not answer: the remedy, then what the message does not say yet of its state."""
    code = error.code if isinstance(error.code, str) else ""
    if (
        not code.startswith("backend.")
        or error.backend is None
        or code in ("backend.not_found", "backend.protocol")
    ):
        return None
    parts = [error.given or _ADVICE.get(code, "")]
    state = context.state(error.backend)
    if lost := context.lost(error.backend):  # its configuration has changed during the call
        parts.append(lost)
    elif state is not None and state.state not in ("healthy", "ready") and code != "backend.crashed":
        why = (
            ""
            if state.error is None or state.error in error.message
            else shortened(state.error, SHOWN_STDERR)
        )
        parts.append(f"{error.backend} is {state.state}" + (f" ({why})" if why else ""))
    if state is not None and state.stderr and state.stderr[-1].strip() not in error.message:
        parts.append(f"its last stderr line: {shortened(state.stderr[-1], SHOWN_STDERR)}")
    return "; ".join([*filter(None, parts), "more in gatemini://health"])


_KEYS = re.compile(
    r"\b(?:401|403|unauthori[sz]ed|forbidden|api[ _-]?key|token|credentials?|authentication)\b", re.I
)


def _tool_failed(error: ErrorFacts, context: HintContext) -> str | None:
    """An error of the tool itself: its signature where it refused the parameters, its keys where it wants some."""
    if error.tool is None:
        return None
    if error.given:
        return error.given
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


_CALLERS: Final = (
    "calltool",
    "invoke",
    "invoketool",
    "execute",
    "executetool",
    "runtool",
    "request",
    "usetool",
)
"""What clients of the protocol call their way to call a tool, without case and underscores."""


def _as_in_code(backend: str, context: HintContext) -> str:
    return next((known for known, name in context.backends.items() if name == backend), spoken(backend))


def _unknown_tool(error: ErrorFacts, context: HintContext) -> str | None:
    if error.code != "tool.not_found" or error.backend is None:
        return None
    name = (error.tool or "").removeprefix(f"{error.backend}.")
    known = context.tools(error.backend)
    elsewhere = [owner for owner in context.owners(name) if not owner.startswith(f"{error.backend}.")]
    if elsewhere:
        return f"{name} is a tool of {listed(owner.rpartition('.')[0] for owner in elsewhere[:CLOSEST])}"
    close = close_to(name, known)
    if close:
        return f"did you mean {listed(close)}?"
    if name.replace("_", "").lower() in _CALLERS:
        given = re.search(r"""\(\s*["'`]([A-Za-z_$][\w$]*)["'`]""", error.source_line)
        called = given[1] if given and given[1] in known else "tool"
        return f"tools are members of the backend: write `await {_as_in_code(error.backend, context)}.{called}({{…}})`"
    return f"tools of {spoken(error.backend)}: {listed(known)}" if known else error.given


# --- promises, values, syntax ---------------------------------------------------------------------

_PROMISE_MISUSED = re.compile(
    r"cannot read property|Cannot read properties|not a function|not iterable|is not an object|is a promise",
    re.I,
)


_ARRAY_AWAITED = re.compile(r"\bawait\s+(?:\[[^\[\]]*\]|([\w$]+)(?:\.[\w$]+)*)\.map\(")


def _forgotten_await(error: ErrorFacts, context: HintContext) -> str | None:
    """A promise used as if it were its value."""
    if error.name != "TypeError" or not _PROMISE_MISUSED.search(error.message):
        return None
    text = error.source_line
    if (mapped := _ARRAY_AWAITED.search(text)) and mapped[1] not in context.backends:
        return "`await` waits for a promise, not for an array of them: write `await Promise.all(xs.map(…))`"
    names = "|".join(map(re.escape, context.backends)) or "(?!)"
    call = rf"(?:{names})(?:\.[\w$]+|\[[^\]]+\])\((?:[^()]|\([^()]*\))*\)"
    if found := re.search(rf"\bawait\s+({call})\s*(?:\.|\[|\))", text):
        shown = shortened(found[1], 60)
        after = text[found.end(1) :].strip().rstrip(";")
        if after[:1] in (".", "[") and not re.match(r"\.\s*(?:then|catch|finally)\b", after):
            return f"`await` reaches only to the end of the expression: write `(await {shown}){shortened(after, 30)}`"
    if found := re.search(rf"(?<!await )(?<![\w$.])({call})\s*(?:\.(?!then\b|catch\b|finally\b)|\[)", text):
        return f"{shortened(found[1], 60)} gives a promise: write `(await {shortened(found[1], 60)})`"
    if "put `await`" in error.message:  # the guest saw it happen and said so
        return None
    earlier = [u for u in context.program.unawaited if error.line is None or u[0] <= error.line]
    if earlier:
        line, _, call_text = earlier[-1]
        return f"{shortened(call_text, 60)} on line {line} gives a promise, not its value: put `await` in front of it"
    return None


def _parsed_twice(error: ErrorFacts, context: HintContext) -> str | None:
    """`JSON.parse` of what is a value already."""
    text = error.source_line
    if error.name != "SyntaxError" or "JSON.parse" not in text:
        return None
    inner = re.search(r"JSON\.parse\(\s*(.*?)\s*\)?\s*\)?;?\s*$", text)
    shown = shortened(inner[1], 40) if inner and inner[1] else "it"
    if re.search(r"'(?:object|\[object)|\[object Object\]|token: 'o", error.message):
        plain = re.fullmatch(r"[\w$.\[\]]+", shown)
        use = f"use {shown} directly, without JSON.parse" if plain else "leave JSON.parse away"
        return f"this is an object already (tool results that are JSON arrive parsed): {use}"
    if "undefined" in error.message:
        return f"{shown} is undefined: look at the whole value first (return it)"
    return "this text is no JSON: tool results that are JSON arrive parsed, the rest is plain text. Return it to see what it is"


_DEADLOCK = re.compile(r"nothing left to run|never settle|deadlock", re.I)


def _deadlock(error: ErrorFacts, context: HintContext) -> str | None:
    if error.name not in ("DeadlockError", "Deadlock") and not _DEADLOCK.search(error.message):
        return None
    return "a promise made with `new Promise` needs its resolve called; to wait, await a tool call or sleep(ms) instead"


_WORDINGS: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"is read-only|Assignment to constant"), "declare it with let instead of const"),
    (re.compile(r"Cannot convert undefined or null to object"), "the value is undefined or null: look at it first (return it)"),
    (re.compile(r"circular reference"), "return the value itself, without JSON.stringify: cycles are written as \"[Circular]\""),
    (re.compile(r"BigInt is too large"), "the number is out of range: compute with less"),
    (re.compile(r"BigInt"), "convert with Number(x) or String(x): BigInt mixes with nothing"),
    (re.compile(r"^missing initializer"), "give it a value here, or declare it with let"),
    (re.compile(r"^function name expected"), "give the function a name, or put it in parentheses: `(function () { … })()`"),
    (re.compile(r"^(?:variable|class) name expected|^invalid destructuring target"), "a word of the language cannot be a name: choose another"),
    (re.compile(r"redefinition|already been declared"), "the name is declared twice in this scope: rename one"),
    (re.compile(r"class constructors must be invoked"), "a class is not called: make an instance with `new X(…)`, and return that"),
    (re.compile(r"cannot mix \?\?"), "put parentheses around one of them: `(a || b) ?? c`"),
    (re.compile(r"too many arguments in function call"), "spread fewer values into one call: add them in a loop, or with concat"),
    (re.compile(r"invalid (?:array|string) length"), "the size is out of range: build less at once"),
)  # fmt: skip


def _engine_wording(error: ErrorFacts, context: HintContext) -> str | None:
    if error.name not in ("TypeError", "SyntaxError", "RangeError"):
        return None
    made = re.match(r"new\s+([\w$]+)", error.source_line[(error.column or 1) - 1 :])
    if error.message == "not a constructor" and made and made[1] in context.backends:
        return f"{made[1]} is a backend and there already: call its tools, `await {made[1]}.tool({{…}})`"
    member = re.fullmatch(r"'(.+)' is read-only", error.message)
    if member and not error.source_line[(error.column or 1) - 1 :].startswith(member[1]):
        return f"the object is frozen: change a copy, `{{ ...object, {member[1]}: … }}`"
    return next((said for pattern, said in _WORDINGS if pattern.search(error.message)), None)


def _syntax(error: ErrorFacts, context: HintContext) -> str | None:
    if error.name not in ("SyntaxError", "CodeError") or not error.source:
        return None
    if error.name == "CodeError" and error.given:
        return error.given
    return syntax_hint(error.source, error.line, error.column)


def _given(error: ErrorFacts, context: HintContext) -> str | None:
    return error.given


_RULES: Final[tuple[Rule, ...]] = (
    _limit,
    _backend_trouble,
    _unknown_tool,
    _tool_failed,
    given_to_main,
    shadowed,
    unknown_name,
    _forgotten_await,
    _parsed_twice,
    _deadlock,
    host_access,
    wrong_owner,
    of_nothing,
    no_function,
    not_iterable,
    _engine_wording,
    imported,
    _syntax,
    _given,
)
