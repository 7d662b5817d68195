"""Say which values of results are not what code takes them for: text it calculates with, seconds for milliseconds,
objects among which it looks for text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import orjson

from gatemini.explain.error_facts import SEARCHED, HintContext
from gatemini.explain.results.call_values import described, keys_of, quoted
from gatemini.explain.results.missing_members import WANTED
from gatemini.explain.results.read_values import ReadValues
from gatemini.explain.results.result_paths import Characters, Uncertain, Walk, member
from gatemini.explain.source_lines import line_at
from gatemini.text.escape import one_line
from gatemini.text.shorten import listed, shorten
from gatemini_sandbox.messages import Read

MOST_NOTES: Final = 3
SHOWN: Final = 40
MOST_VALUES: Final = 12
"""Values of an enum that are named."""
SECONDS: Final = (1e9, 1e10)
"""Times in seconds since 2001; in milliseconds these would lie in the first months of 1970."""

_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?|0x[\da-f]+", re.I)
_DATES = re.compile(r"\b(?:const|let|var)\s+([\w$]+)\s*=\s*new Date\(")
_DAY = re.compile(r"[\"'](\d\d?[./]\d\d?[./]\d{2,4})[\"']")
_DATED = re.compile(r"\d{4}-\d\d-\d\d")


def unfit_values(reads: Sequence[Read], context: HintContext) -> list[str]:
    """A note for each member whose first unfit value is found."""
    results = ReadValues(context)
    notes: dict[tuple[str, str], str] = {}
    source = context.program.source[:SEARCHED]
    dates, has_days = set(_DATES.findall(source)), _DAY.search(source) is not None
    for read in reads:
        if (dates or has_days) and (with_date := _against_date(results, read, dates, context)):
            notes["dated", read.member] = with_date
        if read.kind not in WANTED or (read.kind, read.member) in notes:
            continue
        try:
            said = _unfit(results, read, context.program.source)
        except (Uncertain, Characters):
            continue
        if said is not None:
            notes[read.kind, read.member] = said
    return list(notes.values())[:MOST_NOTES]


def _against_date(results: ReadValues, read: Read, dates: set[str], context: HintContext) -> str | None:
    """Return a note on `o.day > cutoff`, where cutoff is a Date and the day is text, or on `o.day > "01.09.2026"`."""
    line = line_at(context.program.source, read.line) or ""
    found = re.search(
        rf"(?<![\w$.]){re.escape(read.shown)}\s*[<>]=?\s*([\w$]+|{_DAY.pattern})\s*[)&|?;,]", line
    )
    if found is None or (found[1] not in dates and found[2] is None):
        return None
    try:
        values = [member(o, read.member) for s in read.sources for o in results.values(Walk(), s)]
    except (Uncertain, Characters):
        return None
    if not values or not all(isinstance(value, str) and _DATED.match(value) for value in values):
        return None
    shown = one_line(read.shown)
    if found[2]:
        return f"{shown} is text ({quoted(values[0], SHOWN)}, line {read.line}), which is compared letter by letter: write {found[2]} as YYYY-MM-DD"
    return f"{shown} is text ({quoted(values[0], SHOWN)}, line {read.line}), which compared with a Date is never true: write new Date({shown})"


def _unfit(results: ReadValues, read: Read, source: str) -> str | None:
    walk = Walk()
    if read.kind in ("as number", "as text"):
        values = [
            member(owner, read.member) for origin in read.sources for owner in results.values(walk, origin)
        ]
        return _never_same(read, values) or _never_written_so(results, read, values, source)
    for origin in read.sources:
        for owner in results.values(walk, origin):
            said = _not_held(read, owner) if read.kind == "held" else _said(read, member(owner, read.member))
            if said is not None:
                return said
    return None


def _never_same(read: Read, values: Sequence[Any]) -> str | None:
    """Of `r.id === "7"` where all are numbers, and of `r.n === 7` where all are text."""
    if not values:
        return None
    if all(isinstance(value, dict | list) for value in values):
        other = "a number" if read.kind == "as number" else "text"
        return f"{one_line(read.shown)} is {described(values[0])} (line {read.line}), so that === with {other} is never true"
    kinds = (str,) if read.kind == "as number" else (int, float, bool)
    if not all(isinstance(value, kinds) for value in values):
        return None
    what, other = ("text", "a number") if read.kind == "as number" else ("no text", "text")
    first = shorten(orjson.dumps(values[0]).decode(), SHOWN)
    return f"{one_line(read.shown)} is {what} ({first}, line {read.line}), so that === with {other} is never true"


def _never_written_so(results: ReadValues, read: Read, values: Sequence[Any], source: str) -> str | None:
    """Of `o.status === "Open"` where no value is that and some are "open", or where the schema has other values."""
    line = line_at(source, read.line) or ""
    found = re.search(rf"(?<![\w$.]){re.escape(read.shown)}\s*[!=]==?\s*([\"'`])([^\"'`]+)\1", line)
    if found is None or not all(isinstance(value, str | None) for value in values) or found[2] in values:
        return None
    never = f"{one_line(read.shown)} is never {quoted(found[2])} (line {read.line})"
    for value in values:
        if value is not None and value.casefold() == found[2].casefold():
            both = re.search(rf"[\"'`]{re.escape(value)}[\"'`]", line)
            return None if both else f"{never}: it is written {quoted(value)}"
    declared = [results.declared(origin).get(read.member) for origin in read.sources]
    known = dict.fromkeys(text for texts in declared for text in sorted(texts or ()))
    if not known or None in declared or found[2] in known:
        return None
    return f"{never}: it is one of {listed(map(quoted, known), MOST_VALUES)}"


def _not_held(read: Read, owner: Any) -> str | None:
    """Of `labels.includes("bug")` where the items are objects."""
    if not isinstance(owner, list) or not owner or not all(isinstance(item, dict) for item in owner):
        return None
    shown = one_line(read.shown).removesuffix(f".{read.member}")
    return (
        f"the items of {shown} are objects {keys_of(owner[0])} (line {read.line}), among which .{read.member} finds no text: "
        f"write {shown}.some((x) => x.{next(iter(owner[0]), 'name')} === …)"
    )


def _said(read: Read, value: Any) -> str | None:
    """What a value is that is not fit for its use, and what to write; None where it is fit."""
    shown, line = one_line(read.shown), f"line {read.line}"
    if read.kind == "dated":
        if type(value) not in (int, float) or not SECONDS[0] <= value < SECONDS[1]:
            return None
        return f"{shown} is a time in seconds ({value}, {line}) and new Date takes milliseconds: write new Date({shown} * 1000)"
    if not isinstance(value, str) or not value.strip():
        return None
    what = f"{shown} is text ({quoted(value, SHOWN)}, {line})"
    is_number = _NUMBER.fullmatch(value.strip()) is not None
    if read.kind == "added":
        return f"{what}, which + joins: write Number({shown})" if is_number else None
    if is_number:
        return None
    how = f": write new Date({shown})" if _DATED.match(value) else ""
    return f"{what} and no number, so that calculating with it gives NaN{how}"
