"""Say which members code read that no result of its calls has, and which members there are instead.

Only what is certain is said: the code surely read the member, surely did not ask whether it is there, and no value that
it may have read it from has it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from gatemini.discovery.types.identifiers import spoken
from gatemini.explain.error_facts import HintContext
from gatemini.explain.results.call_values import described, keys_of, quoted
from gatemini.explain.results.read_values import ReadValues
from gatemini.explain.results.result_paths import Characters, Uncertain, Walk
from gatemini.text.escape import one_line
from gatemini.text.shorten import closest, listed
from gatemini_sandbox.messages import OF_A_KIND, Read, Source

SAMPLED: Final = 50
"""Values looked at where the text of a result does not hold the name at all."""
MOST_NOTES: Final = 5
SHOWN_KEYS: Final = 14
WANTED: Final = OF_A_KIND | {"held"}
"""Kinds of reads that `unfit_values` looks at."""
ALIKE: Final = 0.61

_OF_OBJECTS: Final = frozenset(
    [
        "constructor",
        "hasOwnProperty",
        "isPrototypeOf",
        "propertyIsEnumerable",
        "toLocaleString",
        "toString",
        "valueOf",
    ]
)
OF_ARRAYS: Final = frozenset(
    [
        "length",
        "at",
        "concat",
        "copyWithin",
        "entries",
        "every",
        "fill",
        "filter",
        "find",
        "findIndex",
        "findLast",
        "findLastIndex",
        "flat",
        "flatMap",
        "forEach",
        "includes",
        "indexOf",
        "join",
        "keys",
        "lastIndexOf",
        "map",
        "pop",
        "push",
        "reduce",
        "reduceRight",
        "reverse",
        "shift",
        "slice",
        "some",
        "sort",
        "splice",
        "toReversed",
        "toSorted",
        "toSpliced",
        "unshift",
        "values",
        "with",
    ]
).union(_OF_OBJECTS)
OF_TEXT: Final = frozenset(
    [
        "length",
        "at",
        "big",
        "charAt",
        "charCodeAt",
        "codePointAt",
        "concat",
        "endsWith",
        "includes",
        "indexOf",
        "isWellFormed",
        "lastIndexOf",
        "localeCompare",
        "match",
        "matchAll",
        "normalize",
        "padEnd",
        "padStart",
        "repeat",
        "replace",
        "replaceAll",
        "search",
        "slice",
        "split",
        "startsWith",
        "substr",
        "substring",
        "toLocaleLowerCase",
        "toLocaleUpperCase",
        "toLowerCase",
        "toUpperCase",
        "toWellFormed",
        "trim",
        "trimEnd",
        "trimLeft",
        "trimRight",
        "trimStart",
    ]
).union(_OF_OBJECTS)
_OF_NUMBERS: Final = frozenset(("toFixed", "toPrecision", "toExponential")).union(_OF_OBJECTS)
ONLY_WHERE_TRUE: Final = frozenset(
    [
        "error",
        "errors",
        "isError",
        "warning",
        "warnings",
        "failed",
        "deleted",
        "archived",
        "disabled",
        "hidden",
    ]
)
"""Members that servers leave out of values that are in order: filtering by them may well find nothing."""
_DATA = re.compile(r"\s*(?:\[\s*[\[{(\"'\d]|\{\s*[\"'])")
"""How text begins that is rows or an object written down."""
_ROWS = re.compile(rf"{_DATA.pattern}|[^\n]*[,\t|][^\n]*\n[^\n]*[,\t|]")
"""The same, or a table with columns; the characters of other text may well be gone through on purpose."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Values that lack members: `of` names their place, `keys` what they have."""

    of: str
    count: int
    keys: tuple[str, ...]
    text: str | None = None
    looped: bool = False
    """Whether the code goes through the characters of the text."""
    other: str | None = None


def missing_members(
    reads: Sequence[Read], context: HintContext, until: tuple[int, int] | None = None, said: str = ""
) -> list[str]:
    """A note for each place that lacks what the code read of it. `until` is where the code failed, if it did; what
    is `said` already is not repeated."""
    results = ReadValues(context)
    found: dict[_Place, list[Read]] = {}
    for read in reads:
        if until is not None and (read.line, read.column) >= until:
            break
        if read.kind in WANTED | {"called"} or (read.kind == "entered" and until is None):
            continue
        if (
            f"`{read.shown}`" in said
            or f"{read.shown} is undefined" in said
            or re.search(rf"(?<![\w$]){re.escape(read.member)} is (?:undefined|missing)", said)
        ):
            continue
        try:
            place = _lacking(results, read)
        except Uncertain:
            continue
        if place is not None and (read.kind != "asked" or _is_misspelt(read, place, reads)):
            found.setdefault(place, []).append(read)
    return [_said(place, missing) for place, missing in list(found.items())[:MOST_NOTES]]


def value_at(line: int, columns: tuple[int, int], context: HintContext) -> tuple[str, Any] | None:
    """The text of what is called, looped over or spread in these columns of a line, and a value that it has and that
    is of another kind."""
    results = ReadValues(context)
    for read in context.reads:
        if read.kind not in ("called", "held", "looped") or read.line != line:
            continue
        if not columns[0] <= read.column <= columns[1]:
            continue
        try:
            values = _without(results, read)[1]
        except (Uncertain, Characters):
            continue
        if values:
            return read.shown.removesuffix(read.member).removesuffix(".").removesuffix("?"), values[0]
    return None


def _is_misspelt(read: Read, place: _Place, reads: Sequence[Read]) -> bool:
    """Whether the values have the member under another spelling (`nextCursor` for `next_cursor`) that the code does not
    read too."""
    meant = {key for key in place.keys if _folded(key) == _folded(read.member)}
    return bool(meant) and not any(other.member in meant for other in reads)


def _folded(name: str) -> str:
    return re.sub(r"[\W_]", "", name).casefold()


def _lacking(results: ReadValues, read: Read) -> _Place | None:
    """The place where the read finds nothing; None where some value has the member. Raises Uncertain."""
    if read.kind == "sifted" and read.member in ONLY_WHERE_TRUE:
        return None
    first = read.sources[0]
    try:
        of, values = _without(results, read)
    except Characters as characters:
        place = _Place(_called(results.name(first), first), 1, (), characters.text, looped=True)
        return None if read.member in OF_TEXT else place
    if of is None or len(values) < (2 if read.kind == "paired" else 1):
        return None
    if any(read.member in results.declared(source) for source in read.sources):
        return None
    return _place(*of, values, looped=read.kind == "looped")


def _without(results: ReadValues, read: Read) -> tuple[tuple[tuple[str, str], Source] | None, list[Any]]:
    """The values of a read, and the first call and source that have some; none where some value has the member."""
    walk, values = Walk(), list[Any]()
    of: tuple[tuple[str, str], Source] | None = None
    sampled = read.member != "" and all(results.has_no(source, read.member) for source in read.sources)
    for source in read.sources:
        for value in results.values(walk, source):
            if value is None or _has(value, read):
                return None, []
            of = of or (results.name(source), source)
            values.append(value)
            if sampled and len(values) >= SAMPLED:
                break
    return of, values


def _has(value: Any, read: Read) -> bool:
    member = read.member
    if not member:
        return isinstance(value, list) or (
            isinstance(value, str) and not (read.kind == "looped" and _ROWS.match(value))
        )
    if isinstance(value, dict):
        return member in value or member in _OF_OBJECTS
    if isinstance(value, str):
        return member in OF_TEXT and not (member == "length" and _DATA.match(value))
    if isinstance(value, list):
        return member in OF_ARRAYS or member.isdecimal()
    return member in _OF_NUMBERS


def _called(name: tuple[str, str], source: Source) -> str:
    """The part of a tool's result that a source leads to, by the names on the way."""
    names = [step for step in source.path if isinstance(step, str)]
    of = f"the result of {spoken('.'.join(name))}"
    return f"{'.'.join(names)} in {of}" if names else of


def _place(name: tuple[str, str], source: Source, values: Sequence[Any], *, looped: bool) -> _Place | None:
    """Describe the values and where they are in the result."""
    of, first = _called(name, source), next((value for value in values if isinstance(value, dict)), values[0])
    steps = [step for step in source.path if isinstance(step, str) or step[:1] != ["if"]]
    count = 2 if steps and steps[-1] == ["items"] else 1
    if isinstance(first, str):
        return _Place(of, len(values), (), first, looped)
    if looped:
        return None  # the loop throws
    if not isinstance(first, dict):
        return _Place(of, count, (), other=described(first))
    keys = dict.fromkeys(str(key) for value in values[:SAMPLED] if isinstance(value, dict) for key in value)
    return _Place(of, count, tuple(keys))


def _length(other: str, reads: Sequence[Read]) -> str:
    """Name the member `length` of an array if the code reads its number of items by another name."""
    counted = next((read for read in reads if read.member in ("size", "count", "len")), None)
    if counted is None or "array" not in other:
        return ""
    return f", with {counted.shown.removesuffix(counted.member)}length"


def _said(place: _Place, reads: Sequence[Read]) -> str:
    by_text = {read.shown: read for read in reads if read.member}
    lines = sorted({read.line for read in reads})
    where = f"line {lines[0]}" if len(lines) == 1 else f"lines {listed(map(str, lines))}"
    shown = one_line(listed(by_text))
    are = "is" if len(by_text) == 1 else "are"
    if place.text is not None:
        return f"{place.of} is text ({quoted(place.text)}), no array and no object: {_of_text(place, shown, where, reads)}"
    passes = ", so that nothing passes" if any(read.kind == "sifted" for read in reads) else ""
    if place.other is not None:
        whole = f"an item of {place.of}" if place.count > 1 else place.of
        return f"{shown} {are} undefined ({where}){passes}: {whole} is {place.other}{_length(place.other, reads)}"
    keys = keys_of(place.keys, SHOWN_KEYS)
    has = f"the items of {place.of} have {keys}" if place.count > 1 else f"{place.of} is an object {keys}"
    return f"{shown} {are} undefined ({where}){passes}: {one_line(has)}{_meant(place, reads)}"


def _of_text(place: _Place, shown: str, where: str, reads: Sequence[Read]) -> str:
    if not shown:
        return f"the loop ({where}) goes through its characters"
    if not place.looped and any(read.member != "length" for read in reads):
        return f"{shown} {'is' if len(reads) == 1 else 'are'} undefined ({where})"
    if all(read.member == "length" for read in reads):
        return f"{shown} ({where}) counts its characters"
    return f"its items are characters, and {shown} undefined ({where})"


def _meant(place: _Place, reads: Sequence[Read]) -> str:
    """The members that are most like those read."""
    meant: dict[str, str] = {}
    for read in reads:
        close = closest(read.member, place.keys, ALIKE, 1)
        if close:
            meant[read.member] = close[0]
    if not meant:
        return ""
    if len({read.member for read in reads}) == 1:
        return f"; did you mean {next(iter(meant.values()))}?"
    return f"; did you mean {listed(f'{best} for {member}' for member, best in meant.items())}?"
