"""Say which members code read that no result of its calls has, and which members there are instead.

Only what is certain is said: the code surely read the member, surely did not ask whether it is there, and no value that
it may have read it from has it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from gatemini.discovery.types.identifiers import spoken
from gatemini.explain.error_facts import HintContext
from gatemini.explain.results.call_values import described
from gatemini.explain.results.result_paths import Characters, Uncertain, Walk
from gatemini.text.escape import one_line
from gatemini.text.shorten import closest, listed, shorten
from gatemini_sandbox.messages import Read, Source

MOST_BYTES: Final = 256 * 1024
"""Results that are parsed for one chain, together: about a millisecond."""
SAMPLED: Final = 50
"""Values looked at where the text of a result does not hold the name at all."""
MOST_NOTES: Final = 5
SHOWN_KEYS: Final = 14
ALIKE: Final = 0.6

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
_OF_ARRAYS: Final = frozenset(
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
_OF_TEXT: Final = frozenset(
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
_ONLY_WHERE_TRUE: Final = frozenset(
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


@dataclass(frozen=True, slots=True)
class _Place:
    """Values that lack members: `of` says whose they are, `keys` what they have."""

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
    results = _Results(context)
    found: dict[_Place, list[Read]] = {}
    for read in reads:
        if until is not None and (read.line, read.column) >= until:
            break
        if f"`{read.shown}`" in said or re.search(
            rf"(?<![\w$]){re.escape(read.member)} is (?:undefined|missing)", said
        ):
            continue
        try:
            place = results.lacking(read)
        except Uncertain:
            continue
        if place is not None:
            found.setdefault(place, []).append(read)
    return [_said(place, missing) for place, missing in list(found.items())[:MOST_NOTES]]


class _Results:
    """The results of one chain's calls, parsed when they are needed."""

    def __init__(self, context: HintContext) -> None:
        self._context = context
        self._parsed: dict[tuple[str, str], list[Any]] = {}
        self._texts: dict[tuple[str, str], Sequence[str]] = {}
        self._left = MOST_BYTES

    def lacking(self, read: Read) -> _Place | None:
        """The place where the read finds nothing; None where some value has the member. Raises Uncertain."""
        if read.kind == "sifted" and read.member in _ONLY_WHERE_TRUE:
            return None
        walk, values = Walk(), list[Any]()
        of: tuple[tuple[str, str], Source] | None = None
        sources = [(self._name(source), source) for source in read.sources]
        sampled = all(self._has_no(name, read.member) for name, _ in sources)
        for name, source in sources:
            try:
                for value in self._values(walk, name, source):
                    if value is None or _has(value, read.member):
                        return None
                    of = of or (name, source)
                    values.append(value)
                    if sampled and len(values) >= SAMPLED:
                        break
            except Characters as characters:
                place = _Place(f"the result of {spoken('.'.join(name))}", 1, (), characters.text, looped=True)
                return None if read.member in _OF_TEXT else place
        needed = 2 if read.kind == "paired" else 1
        if (
            of is None
            or len(values) < needed
            or any(read.member in self._context.declared(*name) for name, _ in sources)
        ):
            return None
        return _place(*of, values)

    def _values(self, walk: Walk, name: tuple[str, str], source: Source) -> Iterator[Any]:
        for result in self._of(name):
            yield from walk.rows(result, source.path)

    def _name(self, source: Source) -> tuple[str, str]:
        backend = self._context.backends.get(source.backend)
        if backend is None:
            raise Uncertain
        return backend, source.tool

    def _of(self, name: tuple[str, str]) -> list[Any]:
        if name not in self._parsed:
            texts = self._context.results(*name)
            if texts is None:
                raise Uncertain
            self._left -= sum(map(len, texts))
            if self._left < 0:
                raise Uncertain
            self._texts[name] = texts
            self._parsed[name] = [orjson.loads(text.encode("utf-8", "replace")) for text in texts]
        return self._parsed[name]

    def _has_no(self, name: tuple[str, str], member: str) -> bool:
        """Whether the text of no result holds the name: then not each value needs to be looked at."""
        self._of(name)
        return member.isascii() and not any(member in text for text in self._texts[name])


def _has(value: Any, member: str) -> bool:
    if isinstance(value, dict):
        return member in value or member in _OF_OBJECTS
    if isinstance(value, str):
        return member in _OF_TEXT and not (member == "length" and _DATA.match(value))
    if isinstance(value, list):
        return member in _OF_ARRAYS or member.isdecimal()
    return member in _OF_NUMBERS


def _place(name: tuple[str, str], source: Source, values: Sequence[Any]) -> _Place:
    """Describe the values and where they are in the result."""
    names = [step for step in source.path if isinstance(step, str)]
    of = f"the result of {spoken('.'.join(name))}"
    of = f"{'.'.join(names)} in {of}" if names else of
    first = values[0]
    if isinstance(first, str):
        return _Place(of, len(values), (), first)
    if not isinstance(first, dict):
        return _Place(of, len(values), (), other=described(first))
    keys = dict.fromkeys(str(key) for value in values[:SAMPLED] if isinstance(value, dict) for key in value)
    steps = [step for step in source.path if isinstance(step, str) or step[:1] != ["if"]]
    is_item = bool(steps) and steps[-1] == ["items"]
    return _Place(of, 2 if is_item else 1, tuple(keys))


def _said(place: _Place, reads: Sequence[Read]) -> str:
    by_text = {read.shown: read for read in reads}
    lines = sorted({read.line for read in reads})
    where = f"line {lines[0]}" if len(lines) == 1 else f"lines {listed(map(str, lines))}"
    shown = one_line(listed(by_text))
    are = "is" if len(by_text) == 1 else "are"
    if place.text is not None:
        return f"{place.of} is text ({orjson.dumps(shorten(place.text, 40)).decode()}), no array and no object: {_of_text(place, shown, where, reads)}"
    passes = ", so that nothing passes" if any(read.kind == "sifted" for read in reads) else ""
    if place.other is not None:
        return f"{shown} {are} undefined ({where}){passes}: {place.of} is {place.other}"
    keys = f"{{{', '.join(place.keys[:SHOWN_KEYS])}{', …' if len(place.keys) > SHOWN_KEYS else ''}}}"
    has = f"the items of {place.of} have {keys}" if place.count > 1 else f"{place.of} is an object {keys}"
    return f"{shown} {are} undefined ({where}){passes}: {one_line(has)}{_meant(place, reads)}"


def _of_text(place: _Place, shown: str, where: str, reads: Sequence[Read]) -> str:
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
