"""Notes on code that ran to its end and likely did not do what was meant, from its text alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

import orjson

from gatemini.explain.error_facts import SEARCHED, HintContext, ProgramFacts
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
_OF_EMPTY = re.compile(r"\bMath\.(?:max|min)\(\s*\.\.\.|/\s*[\w$.]{1,80}\.length\b")
_EMPTY_CATCH = re.compile(r"\bcatch\s*(?:\([^()]{0,80}\)\s*)?\{\s*\}")
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
                *_tools(code, context),
                *_wrong_conditions(code),
                *_objects_and_empty_lists(code, text),
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


def _objects_and_empty_lists(code: str, text: str) -> Iterator[str]:
    """Note objects that were written as text, and numbers calculated from an empty list."""
    if "[object Object]" in text[:MOST_VALUE]:
        yield 'the value holds "[object Object]": an object was written as text; write JSON.stringify(…) around it'
    if "null" not in text[:MOST_VALUE]:
        return
    if empty := _OF_EMPTY.search(code):
        line = place(code, empty.start())[0]
        yield f"`{empty[0]}…` (line {line}) gives no finite number where the list is empty, which became null"


def swallowed(code: str, failed: Sequence[tuple[str, str]]) -> list[str]:
    """Note failed calls, (tool, error) each, if the code has an empty `catch`."""
    if not failed or _EMPTY_CATCH.search(code[:SEARCHED]) is None:
        return []
    tool, error = failed[0]
    more = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
    return [
        f"an empty catch took the error of {tool}: {shorten(one_line(error.removeprefix('error: ')), 160)}{more}"
    ]
