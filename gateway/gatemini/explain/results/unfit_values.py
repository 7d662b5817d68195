"""Say which values of results code calculates with although they are text, or seconds where milliseconds are meant."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import orjson

from gatemini.explain.error_facts import HintContext
from gatemini.explain.results.read_values import ReadValues
from gatemini.explain.results.result_paths import Characters, Uncertain, Walk, member
from gatemini.text.escape import one_line
from gatemini.text.shorten import shorten
from gatemini_sandbox.messages import Read

MOST_NOTES: Final = 3
SHOWN: Final = 40
SECONDS: Final = (1e9, 1e10)
"""Times in seconds since 2001; in milliseconds these would lie in the first months of 1970."""

_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?|0x[\da-f]+", re.I)
_DATED = re.compile(r"\d{4}-\d\d-\d\d")


def unfit_values(reads: Sequence[Read], context: HintContext) -> list[str]:
    """A note for each member whose first unfit value is found."""
    results = ReadValues(context)
    notes: dict[tuple[str, str], str] = {}
    for read in reads:
        if read.kind not in ("number", "added", "dated") or (read.kind, read.member) in notes:
            continue
        try:
            said = _unfit(results, read)
        except (Uncertain, Characters):
            continue
        if said is not None:
            notes[read.kind, read.member] = said
    return list(notes.values())[:MOST_NOTES]


def _unfit(results: ReadValues, read: Read) -> str | None:
    walk = Walk()
    for source in read.sources:
        for owner in results.values(walk, source):
            if said := _said(read, member(owner, read.member)):
                return said
    return None


def _said(read: Read, value: Any) -> str | None:
    """What a value is that is not fit for its use, and what to write; None where it is fit."""
    shown, line = one_line(read.shown), f"line {read.line}"
    if read.kind == "dated":
        if type(value) not in (int, float) or not SECONDS[0] <= value < SECONDS[1]:
            return None
        return f"{shown} is a time in seconds ({value}, {line}) and new Date takes milliseconds: write new Date({shown} * 1000)"
    if not isinstance(value, str) or not value.strip():
        return None
    what = f"{shown} is text ({orjson.dumps(shorten(value, SHOWN)).decode()}, {line})"
    is_number = _NUMBER.fullmatch(value.strip()) is not None
    if read.kind == "added":
        return f"{what}, which + joins: write Number({shown})" if is_number else None
    if is_number:
        return None
    how = f": write new Date({shown})" if _DATED.match(value) else ""
    return f"{what} and no number, so that calculating with it gives NaN{how}"
