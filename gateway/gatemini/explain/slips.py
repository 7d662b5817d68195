"""Notes on code that ran to its end and likely did not do what was meant, from its text alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from gatemini.explain.error_facts import SEARCHED, HintContext, ProgramFacts
from gatemini.explain.results.missing_members import OF_TEXT
from gatemini.explain.source_lines import place
from gatemini.explain.value_hints import tool_not_called

_KEYS = re.compile(r"\bfor\s*\(\s*(?:const|let|var)\s+([\w$]+)\s+in\s")
_BLOCK = re.compile(
    r"\.(map|flatMap|filter|find|some|every|sort)\(\s*(\(?[\w$, ]*\)?\s*=>)\s*\{\s*([^{};()=]+?)\s*;?\s*\}\s*\)"
)
_NOT_CALLED = re.compile(r"\b(?:const|let|var)\s+([\w$]+)\s*=\s*await\s+[\w$]+\.[\w$]+\s*(?:;|\n|$)")
_STATEMENTS: Final = re.compile(r"\b(?:return|throw|await|delete|continue|break)\b|\+\+|--|:|^$")


def slips(program: ProgramFacts, context: HintContext) -> list[str]:
    """A note for each slip that the text of the code shows for certain."""
    code = program.source[:SEARCHED]
    return list(dict.fromkeys([*_keys(code), *_blocks(code), *_tools(code, context)]))


def _keys(code: str) -> Iterator[str]:
    """`for (const p in people) p.name`, as Python loops."""
    for found in _KEYS.finditer(code):
        name = found[1]
        read = re.compile(rf"(?<![\w$.]){re.escape(name)}\.([\w$]+)").search(code, found.end())
        if read is not None and read[1] not in OF_TEXT:
            line = place(code, found.start())[0]
            yield (
                f"for … in (line {line}) goes through keys, so that {name}.{read[1]} is undefined: write "
                f"`for (const {name} of …)`"
            )


def _blocks(code: str) -> Iterator[str]:
    """`people.map((p) => { p.name })`."""
    for found in _BLOCK.finditer(code):
        if _STATEMENTS.search(found[3]) is None:
            line = place(code, found.start())[0]
            yield f"the function in .{found[1]} (line {line}) returns nothing: write `{found[2]} {found[3]}` without braces"


def _tools(code: str, context: HintContext) -> Iterator[str]:
    """`const p = await box.people;`."""
    for found in _NOT_CALLED.finditer(code):
        if said := tool_not_called(found[1], code, context):
            yield said
