"""Hints about promises: one used as its value, an array of them, callbacks that nothing waits for."""

from __future__ import annotations

import re
from typing import Final

from gatemini.explain.error_facts import SEARCHED, ErrorFacts, HintContext, ProgramFacts
from gatemini.explain.source_lines import place
from gatemini.text.shorten import shorten

_MISUSED = re.compile(
    r"cannot read property|Cannot read properties|not a function|not iterable|is not an object|is a promise",
    re.I,
)
_PROMISE_METHODS: Final = r"(?:then|catch|finally)\b"
_ARRAY_AWAITED = re.compile(r"\bawait\s+(?:\[[^\[\]]*\]|([\w$]+)(?:\.[\w$]+)*)\.map\(")
_ASYNC_TEST = re.compile(r"\.(filter|some|every|find|findIndex|findLast)\(\s*async\b")
_ASYNC_EACH = re.compile(r"(?:^|[;\n{])([^;\n{]{0,200}?)\.(forEach|map)\(\s*async\b")
_KEPT = re.compile(r"=|\b(?:return|await|Promise|yield)\b|[\w$]\(")
"""Something is done with the value of the expression that follows."""
_ASYNC_MAP = re.compile(
    r"(?<![\w$])([\w$]{1,80})\s{0,20}=\s{0,200}(?!await\b|Promise\b)(?:[^=;\n()]|\(\)){1,200}?\.(?:map|flatMap)\(\s*async\b"
)
_THEN = re.compile(r"\b(?:const|let|var)\s+([\w$]+)\s*=\s*[\w$]+\.[\w$]+\([^;\n]{0,300}\)\s{0,20}\.then\(")
_COMBINED = re.compile(r"\b(?:const|let|var)\s+([\w$]+)\s*=\s*(Promise\.(?:all|allSettled|any|race))\(")
_ITEMS_READ = re.compile(r"\.reduce\(|\bfor\s*\([^()]{1,80}\sof\s")
_QUOTED_CODE = re.compile(r"""\s*("(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+')\s*;?\s*""", re.DOTALL)


def promise_taken_for_its_value(error: ErrorFacts, context: HintContext) -> str | None:
    if error.name != "TypeError" or not _MISUSED.search(error.message):
        return None
    return (
        _array_awaited(error.source_line, context)
        or _await_of_too_much(error.source_line, context)
        or _variable_without_await(error)
    )


def combined_object(error: ErrorFacts, context: HintContext) -> str | None:
    """`Promise.all({ a: …, b: … })`."""
    found = re.search(r"\bPromise\.(all|allSettled|any|race)\(\s*\{", error.source_line)
    if found is None or "not iterable" not in error.message:
        return None
    return f"Promise.{found[1]} takes one array: write `const [a, b] = await Promise.{found[1]}([…, …])`"


def several_promises(error: ErrorFacts, context: HintContext) -> str | None:
    """A promise that is one of several, so that `await` in front of its call alone does not help."""
    if error.name != "TypeError" or "is a promise here" not in error.message:
        return None
    before = error.source_line[: error.at]
    if combined := re.search(r"\bPromise\.(all|allSettled|race|any)\(\s*[\w$]+\.$", before):
        return f"Promise.{combined[1]} takes one array: write `await Promise.{combined[1]}([…])`"
    if re.search(r"\bawait\s*\[[^\]]*$", before):
        return "`await` waits for a promise, not for an array of them: write `await Promise.all([…])`"
    if re.search(r"\.(?:map|flatMap)\([^;]*$", before):
        return "it is one of an array of promises: write `await Promise.all(xs.map(…))`"
    return None


def _array_awaited(line: str, context: HintContext) -> str | None:
    mapped = _ARRAY_AWAITED.search(line)
    if mapped is None or mapped[1] in context.backends:
        return None
    return "`await` waits for a promise, not for an array of them: write `await Promise.all(xs.map(…))`"


def _await_of_too_much(line: str, context: HintContext) -> str | None:
    names = "|".join(map(re.escape, context.backends)) or "(?!)"
    call = rf"(?:{names})(?:\.[\w$]+|\[[^\]]+\])\((?:[^()]|\([^()]*\))*\)"
    if found := re.search(rf"\bawait\s+\(?({call})\)?\s*(?:\.|\[|\))", line):
        after = line[found.end(1) :].strip().rstrip(";").removeprefix(")" if f"({found[1]})" in line else "")
        if after[:1] in (".", "[") and not re.match(rf"\.\s*{_PROMISE_METHODS}", after):
            shown = f"(await {shorten(found[1], 60)}){shorten(after, 30)}"
            return f"`await` reaches only to the end of the expression: write `{shown}`"
    return None


def _variable_without_await(error: ErrorFacts) -> str | None:
    """`const details = xs.map(async …)` or `const pair = Promise.all(…)`, and the line of the error uses it."""
    code, line = error.source[:SEARCHED], error.source_line
    used = rf"(?<!await )(?<!await \()(?<![\w$.])%s\s*(?:\.(?!{_PROMISE_METHODS})|\[|\))"
    for found in _COMBINED.finditer(code):
        if re.search(used % re.escape(found[1]), line):
            return f"{found[1]} is a promise: write `const {found[1]} = await {found[2]}(…)`"
    for found in _ASYNC_MAP.finditer(code):
        if re.search(used % re.escape(found[1]), line):
            return f"{found[1]} is an array of promises: write `{found[1]} = await Promise.all(…)` around the map"
    return None


def promise_notes(program: ProgramFacts, text: str, *, left_open: bool) -> list[str]:
    """Notes on a chain whose value is likely not what was meant, since something was not awaited.

    `text` is the value, `left_open` whether calls were still open when the code ended.
    """
    notes = []
    if "[object Promise]" in text[:SEARCHED]:
        notes.append(
            'the value holds "[object Promise]": a promise was written as text; wait for it first, '
            "with `await` or `await Promise.all(…)`"
        )
    code = program.source[:SEARCHED]
    if _QUOTED_CODE.fullmatch(code) and re.search(r"(?:\b|\\n)(?:return|await)\b", code):
        notes.append("the code is one string and was its own value: send the text between its quotes")
    if found := _ASYNC_TEST.search(code):
        notes.append(
            f".{found[1]} with an async function (line {place(code, found.start())[0]}) takes each promise for true: "
            "await the answers first, then filter"
        )
    each = (one for one in _ASYNC_EACH.finditer(code) if one[2] == "forEach" or not _KEPT.search(one[1]))
    if left_open and (found := next(each, None)):
        notes.append(
            f".{found[2]} (line {place(code, found.start(2))[0]}) does not wait for an async function: use "
            "`for (const x of xs)` with await, or `await Promise.all(xs.map(async (x) => …))`"
        )
    if (
        "Promise.allSettled(" in code
        and ("[null" in text or (text == "null" and _ITEMS_READ.search(code)))
        and not re.search(r"\b(?:value|reason)\b", code)
    ):
        notes.append("Promise.allSettled gives {status, value} or {status, reason} for each: read .value")
    later = _THEN.search(code) if left_open else None
    if later and not re.search(rf"\bawait[^;\n]*(?<![\w$]){re.escape(later[1])}(?![\w$])", code):
        line = place(code, later.start())[0]
        notes.append(
            f"{later[1]} (line {line}) is a promise that nothing waits for: write `{later[1]} = await …`"
        )
    mapped = _ASYNC_MAP.search(code) if left_open else None
    # Unless it is waited for further down, at once or one by one.
    if mapped and not re.search(rf"(?:Promise\.\w+\(|\bawait |\bof )[^\n;]*\b{re.escape(mapped[1])}\b", code):
        notes.append(
            f"{mapped[1]} (line {place(code, mapped.start())[0]}) is an array of promises that nothing waits for: "
            f"write `{mapped[1]} = await Promise.all(…)` around the map"
        )
    return notes
