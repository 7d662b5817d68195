"""What an agent should change after an error: one sentence, or nothing.

An ordered table of rules from the certain to the likely. Rules look at facts first, and at an engine's wording only
to know what its error names.
"""

from __future__ import annotations

import re
from typing import Final

from gatemini.explain import backend_hints, name_hints, promise_hints, value_hints
from gatemini.explain.error_facts import ErrorFacts, HintContext, Rule, first_hint
from gatemini.explain.syntax_hints import syntax_hint

_WORDINGS: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"is read-only|Assignment to constant"), "declare it with let instead of const"),
    (re.compile(r"Cannot convert undefined or null to object"), "the value is undefined or null: look at it first (return it)"),
    (re.compile(r"circular reference"), 'return the value itself, without JSON.stringify: cycles are written as "[Circular]"'),
    (re.compile(r"BigInt"), "convert with Number(x) or String(x): BigInt mixes with no other number"),
    (re.compile(r"^(?:variable|class) name expected"), "a word of the language cannot be a name: choose another"),
    (re.compile(r"redefinition|already been declared"), "the name is declared twice in this scope: rename one"),
    (re.compile(r"class constructors must be invoked"), "a class is not called: make an instance with `new X(…)`, and return that"),
    (re.compile(r"^(?:break|continue) must be inside"), "a callback such as that of forEach is no loop: write `for (const x of list) { … }`"),
    (re.compile(r"cannot mix \?\?"), "put parentheses around one of them: `(a || b) ?? c`"),
    (re.compile(r"too many arguments in function call"), "spread fewer values into one call: add them in a loop, or with concat"),
    (re.compile(r"^empty array$"), "the list has no items, and reduce nothing to begin with: give it a first value, `.reduce((a, b) => …, 0)`"),
    (re.compile(r"invalid (?:array|string) length"), "the size is below 0, no whole number, or too large"),
)  # fmt: skip


def hint(error: ErrorFacts, context: HintContext) -> str | None:
    """The one hint for this error, or None where nothing useful can be said."""
    return first_hint(_RULES, error, context)


def _deadlock(error: ErrorFacts, context: HintContext) -> str | None:
    if error.name != "DeadlockError":
        return None
    return "a promise made with `new Promise` needs its resolve called; to wait, await a tool call or sleep(ms) instead"


def _engine_wording(error: ErrorFacts, context: HintContext) -> str | None:
    if error.name not in ("TypeError", "SyntaxError", "RangeError"):
        return None
    member = re.fullmatch(r"'(.+)' is read-only", error.message)
    if member and not error.source_line[error.at :].startswith(member[1]):
        return f"the object is frozen: change a copy, `{{ ...object, {member[1]}: … }}`"
    return next((said for pattern, said in _WORDINGS if pattern.search(error.message)), None)


def _syntax(error: ErrorFacts, context: HintContext) -> str | None:
    if error.name != "SyntaxError" or not error.source:
        return None
    return syntax_hint(error.source, error.source_line, error.at)


def _given(error: ErrorFacts, context: HintContext) -> str | None:
    return error.given


_RULES: Final[tuple[Rule, ...]] = (
    backend_hints.limit,
    backend_hints.backend_trouble,
    backend_hints.unknown_tool,
    value_hints.undefined_argument,
    backend_hints.tool_failed,
    name_hints.joined_lines,
    name_hints.torn_tool,
    name_hints.parameters_of_main,
    name_hints.shadowed,
    name_hints.unknown_name,
    promise_hints.combined_object,
    promise_hints.several_promises,
    promise_hints.promise_taken_for_its_value,
    value_hints.parsed_twice,
    _deadlock,
    name_hints.member_of_a_global,
    value_hints.member_of_nothing,
    value_hints.no_function,
    value_hints.not_iterable,
    _engine_wording,
    name_hints.imported,
    _syntax,
    _given,
)
