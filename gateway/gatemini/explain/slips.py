"""Notes on code that ran to its end and likely did not do what was meant, from its text alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, Protocol

import orjson

from gatemini.explain.error_facts import SEARCHED, HintContext, ProgramFacts
from gatemini.explain.results.call_values import PATH, find, how_to_read
from gatemini.explain.results.missing_members import OF_TEXT
from gatemini.explain.source_lines import place
from gatemini.explain.value_hints import tool_not_called
from gatemini.text.escape import one_line
from gatemini.text.shorten import shorten

MOST_LOOKED_AT: Final = 20
"""Places of each kind: code may have thousands."""
MOST_VALUE: Final = 64 * 1024
"""Characters of a value that is parsed."""
NEAR: Final = 2000
"""Characters behind the head of a loop that are taken for its body."""

_KEYS = re.compile(r"\bfor\s*\(\s*(?:const|let|var)\s+([\w$]+)\s+in\s")
_BLOCK = re.compile(
    r"\.(map|flatMap)\(\s*(?:async\s*)?\(?[\w$, {}\[\]]{0,80}\)?\s*=>\s*\{((?:[^{}]|\{[^{}]{0,200}\}){0,400})\}\s*\)"
)
_COMPARED = re.compile(
    r"\.(sort|toSorted)\(\s*\(\s*([\w$]+)\s*,\s*([\w$]+)\s*\)\s*=>\s*([\w$.]{1,80})\s*[<>]=?\s*([\w$.]{1,80})\s*\)"
)
_MOST = re.compile(r"\bMath\.(max|min)\(\s*([\w$][\w$.]{0,80})\.map\(")
_NOT_CALLED = re.compile(r"\b(?:const|let|var)\s+([\w$]+)\s*=\s*await\s+[\w$]+\.[\w$]+\s*(?:;|\n|$)")
_ASSIGNED = re.compile(
    r"\.(filter|find|findLast|findIndex|some|every)\(\s*\(?\s*[\w$]+\s*\)?\s*=>\s*([\w$.]{1,80})\s*=(?![=>])"
)
_SETTLED = re.compile(r"\.status\s*[!=]==?\s*[\"'`](?!fulfilled|rejected)(\w{1,20})[\"'`]")
_SUM = re.compile(
    r"\.reduce\(\s*\(\s*([\w$]{1,80})\s*,[^()]{0,80}\)\s*=>\s*\1\s*\+\s*([\w$][\w$.\[\]]{0,80})\s*,\s*0\s*\)"
)
_NAMED = re.compile(r"([\w$]{1,80})\s*[=:]\s*[^=:;,{}\n]{0,200}$")
_AS_TEXT = re.compile(rf"\$\{{\s*({PATH})\s*\}}|\bString\(\s*({PATH})\s*\)")
_OF_EMPTY = re.compile(r"\bMath\.(?:max|min)\(\s*\.\.\.|/\s*[\w$.]{1,80}\.length\b")
_EMPTY_CATCH = re.compile(r"\bcatch\s*(?:\([^()]{0,80}\)\s*)?\{\s*\}")
_ERROR: Final = "error: "
_GIVES = re.compile(r"\b(?:return|throw)\b")


def slips(program: ProgramFacts, text: str, context: HintContext) -> list[str]:
    """A note for each slip that the text of the code shows for certain; `text` is the value."""
    code = program.source[:SEARCHED]
    return list(
        dict.fromkeys(
            [
                *_keys(code),
                *_blocks(code, text),
                *_numbers(code),
                *_sorted_as_text(code, text),
                *_joined(code, text),
                *_tools(code, context),
                *_wrong_conditions(code),
                *(as_text := list(_objects_as_text(code, context))),
                *_objects_and_empty_lists(code, "" if as_text else text),
            ]
        )
    )


def _keys(code: str) -> Iterator[str]:
    """`for (const p in people) p.name`, as Python loops."""
    for found in islice(_KEYS.finditer(code), MOST_LOOKED_AT):
        name = found[1]
        read = re.compile(rf"(?<![\w$.]){re.escape(name)}\.([\w$]+)").search(
            code, found.end(), found.end() + NEAR
        )
        if read is not None and read[1] not in OF_TEXT:
            line = place(code, found.start())[0]
            yield (
                f"for … in (line {line}) goes through keys, so that {name}.{read[1]} is undefined: write "
                f"`for (const {name} of …)`"
            )


def _blocks(code: str, text: str) -> Iterator[str]:
    """`people.map((p) => { p.name })`, where the value has what that gives."""
    if "[null" not in text:
        return
    for found in islice(_BLOCK.finditer(code), MOST_LOOKED_AT):
        if _GIVES.search(found[2]) is None:
            line = place(code, found.start())[0]
            yield f"the function in .{found[1]} (line {line}) has braces and no return, so that it gives undefined"


def _numbers(code: str) -> Iterator[str]:
    """`rows.sort((a, b) => a.n < b.n)` and `Math.max(rows.map(…))`."""
    for found in islice(_COMPARED.finditer(code), MOST_LOOKED_AT):
        line = place(code, found.start())[0]
        yield (
            f".{found[1]} (line {line}) needs a number below, of or above 0, and a comparison gives true or false: "
            f"write `{found[5]} - {found[4]}`, or localeCompare for text"
        )
    for found in islice(_MOST.finditer(code), MOST_LOOKED_AT):
        line = place(code, found.start())[0]
        yield f"Math.{found[1]} (line {line}) takes numbers, not an array: write `Math.{found[1]}(...{found[2]}.map(…))`"


def _sorted_as_text(code: str, text: str) -> Iterator[str]:
    """`numbers.sort()`, where that shows in the value."""
    if ".sort()" not in code or len(text) > MOST_VALUE or text[:1] != "[":
        return
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return  # text that begins with a bracket
    numbers = all(type(item) in (int, float) for item in value)
    if numbers and value != sorted(value) and value == sorted(value, key=str):
        yield ".sort() orders numbers as text (10 before 9): write `.sort((a, b) => a - b)`"


def _joined(code: str, text: str) -> Iterator[str]:
    """`rows.reduce((sum, r) => sum + r[5], 0)` over text, where that shows in the value."""
    found = _SUM.search(code)
    named = _NAMED.search(code, max(0, found.start() - NEAR), found.start()) if found else None
    joined = rf"0-?\d|.*\"{re.escape(named[1])}\":\"0-?\d" if named else r"\"?0-?\d"
    if found is not None and re.match(joined, text[:MOST_VALUE], re.DOTALL):
        line = place(code, found.start())[0]
        yield f"{found[2]} (line {line}) is text, which + joins to the 0: write Number({found[2]})"


def _tools(code: str, context: HintContext) -> Iterator[str]:
    """`const p = await box.people;`."""
    for found in islice(_NOT_CALLED.finditer(code), MOST_LOOKED_AT):
        if said := tool_not_called(found[1], code, context):
            yield said


def _wrong_conditions(code: str) -> Iterator[str]:
    """Note an assignment as a test, `orders.filter((o) => o.status = "open")`, and a wrong status of a settled promise."""
    for found in islice(_ASSIGNED.finditer(code), MOST_LOOKED_AT):
        yield f"`{found[2]} = …` in .{found[1]} (line {place(code, found.start())[0]}) assigns: write `{found[2]} === …`"
    settled = _SETTLED.search(code) if "Promise.allSettled(" in code else None
    if settled:
        line = place(code, settled.start())[0]
        yield f'the status of a settled promise is "fulfilled" or "rejected", never "{settled[1]}" (line {line})'


def _objects_as_text(code: str, context: HintContext) -> Iterator[str]:
    """Note a result that is an object and is written as text, `${page}` or `String(page)`."""
    written: dict[str, re.Match[str]] = {}
    for found in islice(_AS_TEXT.finditer(code), MOST_LOOKED_AT):
        written.setdefault(found[1] or found[2], found)
    for path, found in written.items():
        given = find(path, code, context)
        if given is None or given.rest or not isinstance(given.value, dict) or not given.value:
            continue
        line, how = place(code, found.start())[0], how_to_read(given)
        yield (
            f'`{found[0]}` (line {line}) writes an object as "[object Object]": {given}'
            + (f": {how}" if how else f"; take a member of it, or write JSON.stringify({path})")
        )


def _objects_and_empty_lists(code: str, text: str) -> Iterator[str]:
    """Note objects that were written as text, and numbers calculated from an empty list."""
    if "[object Object]" in text[:MOST_VALUE]:
        yield (
            'the value holds "[object Object]": an object was written as text; take a member of it, or write '
            "JSON.stringify(…) around it"
        )
    if "null" not in text[:MOST_VALUE]:
        return
    if empty := _OF_EMPTY.search(code):
        line = place(code, empty.start())[0]
        yield f"`{empty[0]}…` (line {line}) gives no finite number where the list is empty, which became null"


class FailedCall(Protocol):
    """A failed call; `sent` says whether it left the gateway."""

    tool: str
    outcome: str | None
    sent: bool


def swallowed(code: str, failed: Sequence[FailedCall], said: Sequence[str]) -> list[str]:
    """Note failed calls that the code passes over.

    Those that were never sent, for a wrong name or argument, are noted unless a text that the code has `said` names
    them; if there are none, the others are noted if the code has an empty `catch`.
    """
    unsent = [call for call in failed if not call.sent and str(call.outcome).startswith(_ERROR)]
    if unsent:
        shown = "\n".join(text[:MOST_VALUE] for text in said)
        names = dict.fromkeys(_name(call) for call in unsent)
        unnamed = [name for name in islice(names, MOST_LOOKED_AT) if name not in shown]
        unsent = [call for call in unsent if _name(call) in unnamed]
    if unsent:
        return [f"the code went on without {_first(unsent)}"]
    if not failed or _EMPTY_CATCH.search(code[:SEARCHED]) is None:
        return []
    return [f"an empty catch took the error of {_first(failed)}"]


def _name(call: FailedCall) -> str:
    return call.tool.rpartition(".")[2]


def _first(failed: Sequence[FailedCall]) -> str:
    more = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
    error = one_line(str(failed[0].outcome).removeprefix(_ERROR)).removeprefix(
        f"{failed[0].tool} was not called: "
    )
    return f"{failed[0].tool}: {shorten(error, 160)}{more}"
