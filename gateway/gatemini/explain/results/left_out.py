"""Note what code leaves out of results: further pages, errors that are told as text, everything."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any, Final

import orjson

from gatemini.discovery.types.identifiers import spoken
from gatemini.explain.error_facts import SEARCHED, HintContext
from gatemini.explain.results.call_values import described, quoted
from gatemini.explain.results.missing_members import OF_ARRAYS, OF_TEXT, ONLY_WHERE_TRUE
from gatemini.explain.results.read_values import ReadValues
from gatemini.explain.results.result_paths import Uncertain, Walk
from gatemini.text.escape import one_line
from gatemini.text.shorten import shorten
from gatemini_sandbox.messages import Read, Source

SHOWN: Final = 60

_NEXT = re.compile(
    r"next_?(?:page_?)?(?:cursor|token|offset|page|link|url)|has_?(?:more|next)(?:_?page)?", re.I
)
_LIMITED = re.compile(r"(?<![\w$])(?:limit|per_?page|page_?size|top_?k|max\w*|first|count)\s*[:,}]", re.I)
"""An argument by which code wants only some."""
_EMPTY = re.compile(r'|null|false|0|""|\[\]|\{(?:"\w+":(?:null|false|0|""|\[\]|\{\}),?)*\}')
"""A value that says "nothing found"."""
_MAY_LACK = re.compile(rf"{_NEXT.pattern}|{'|'.join(ONLY_WHERE_TRUE)}", re.I)
_ERROR = re.compile(r"(?:\w+ )?error\b(?: \d+)?:", re.I)


def left_out(reads: Sequence[Read], context: HintContext, value: str) -> list[str]:
    """Return notes on the last result of each tool, if the returned value lacks what it says."""
    results = ReadValues(context)
    code = context.program.source[:SEARCHED]
    notes: list[str] = []
    for backend, tool in dict.fromkeys((s.backend, s.tool) for read in reads for s in read.sources):
        whole = Source(backend, tool, [])
        try:
            found = list(results.values(Walk(), whole))
            name = spoken(".".join(results.name(whole)))
        except Uncertain:
            continue
        asked = [r for r in reads if any((s.backend, s.tool) == (backend, tool) for s in r.sources)]
        if found:
            notes += _unread(found[-1], name, code, value) or _wrong_next(found[-1], name, asked)
            if _EMPTY.fullmatch(value) is not None:
                notes += _nothing_taken(found, name, asked, results.declared(whole))
    return notes


def _unread(result: Any, name: str, code: str, value: str) -> list[str]:
    if isinstance(result, str) and _ERROR.match(result) and result[:SHOWN] not in value:
        return [f"{name} answered with text that tells of an error: {quoted(one_line(result), SHOWN)}"]
    if not isinstance(result, dict) or _LIMITED.search(code):
        return []
    for key, more in result.items():
        if more and _NEXT.fullmatch(key) and key not in code and f'"{key}"' not in value:
            return [
                f"there is more: {key} in the result of {name} is {_short(more)}, and the code does not read it"
            ]
    return []


def _wrong_next(result: Any, name: str, reads: Sequence[Read]) -> list[str]:
    """Note a loop over pages that ends by a member that is not there (`has_more`), while another says there is more."""
    if not isinstance(result, dict):
        return []
    more = next((key for key, value in result.items() if value and _NEXT.fullmatch(key)), None)
    if more is None:
        return []
    for read in reads:
        missing = _NEXT.fullmatch(read.member) is not None and read.member not in result
        if missing and read.member.replace("_", "").lower() != more.replace("_", "").lower():
            return [
                f"there is more: {one_line(read.shown)} (line {read.line}) is undefined, and {more} in the last result "
                f"of {name} is {_short(result[more])}"
            ]
    return []


def _nothing_taken(
    results: Sequence[Any], name: str, reads: Sequence[Read], declared: Collection[str]
) -> list[str]:
    """Note that the value is empty since the code asked a result only for members it does not have: that is no answer.

    A member that is `declared`, at whatever depth of the schema, may be left out of a result.
    """
    whole = [read for read in reads if all(source.path == [] for source in read.sources)]
    members = [read.member for read in whole]
    further = [step for read in reads for source in read.sources for step in source.path[:1]]
    result = results[-1]
    if not whole or not isinstance(result, dict | list | str) or not result:
        return []
    if not all(step in members for step in further):
        return []
    if any(read.kind != "asked" or _MAY_LACK.fullmatch(read.member) for read in whole):
        return []
    if any(member in declared or _has(result, member) for result in results for member in members):
        return []
    read = whole[0]
    return [
        f"nothing was taken from the result of {name}: {one_line(read.shown)} (line {read.line}) is undefined, the "
        f"result is {described(result)}"
    ]


def _has(result: Any, member: str) -> bool:
    """Whether a result has the member, or may have it."""
    if isinstance(result, dict):
        return member in result
    if not isinstance(result, str | list):
        return True
    return member.isdecimal() or member in (OF_TEXT if isinstance(result, str) else OF_ARRAYS)


def _short(value: Any) -> str:
    return shorten(one_line(orjson.dumps(value).decode()), SHOWN)
