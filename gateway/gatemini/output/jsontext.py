"""JSON text in and out without losing anything on the way.

`parse` answers a value that says the same as the text, or nothing: digits beyond a double's, lone
surrogates and duplicate keys are noticed, and what is no JSON (NaN, half a document) is not guessed at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

SPACE = b" \n\r\t"
"""White space of JSON."""
_OPENING = re.compile(r"[ \n\r\t]*+[\[{]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_DOUBLE_DIGITS = 17
"""Decimal digits that always survive a double and back."""

MOST_DIGITS = 4000
"""Of an integer; of longer ones Python neither reads nor writes the digits."""

MAX_NESTING = 250
"""Levels up to which documents are worked on (orjson writes 254); deeper ones are cut as text."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A document. `duplicates`: keys written twice (the last one counts, as in JSON.parse).

    `long_numbers`: fractions with more digits than a double holds and integers of thousands of digits, kept as strings.
    `deep`: values that nest too deep and are stood in for.
    """

    value: Any
    duplicates: int = 0
    long_numbers: int = 0
    deep: int = 0

    @property
    def faithful(self) -> bool:
        """Whether writing `value` again says all that the text said."""
        return not self.duplicates and not self.long_numbers and not self.deep


def encode(text: str) -> bytes:
    """UTF-8; lone surrogates, which a Python string can hold, survive `decode`."""
    return text.encode("utf-8", "surrogatepass")


def decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def parse(data: bytes) -> Parsed | None:
    """The document in `data`, or None where it is not JSON (or nested too deeply to work on)."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return _shallow(parse_carefully(data))
    if rewritten(value, data) is not None:
        return Parsed(value)
    return _shallow(parse_carefully(data) or Parsed(value))


def is_json(data: bytes) -> bool:
    """Whether `data` is JSON at all, be it nested too deeply to work on."""
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError:
        return parse_carefully(data) is not None
    return True


def _shallow(parsed: Parsed | None) -> Parsed | None:
    """The document, unless it nests so deeply that writing it again would exhaust the interpreter's stack."""
    if parsed is None:
        return None
    level = [parsed.value] if isinstance(parsed.value, dict | list) else []
    for _ in range(MAX_NESTING):
        if not level:
            return parsed
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
    return None


def rewritten(value: Any, data: bytes) -> bytes | None:
    """`value`, read from `data`, as compact JSON; None unless that gives the text back but for white space."""
    try:
        again = orjson.dumps(value)
    except TypeError:  # orjson refuses depth beyond 254 and integers beyond 64 bits
        return None
    return again if same_but_space(again, data) else None


def same_but_space(one: bytes, other: bytes) -> bool:
    return one == other or one.translate(None, SPACE) == other.translate(None, SPACE)


def parse_carefully(data: bytes) -> Parsed | None:
    """The standard library's parser with what orjson would lose counted or kept."""
    duplicates = long_numbers = 0

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal duplicates
        made = dict(items)
        duplicates += len(items) - len(made)
        return made

    def number(text: str) -> Any:
        nonlocal long_numbers
        mantissa = text.lower().partition("e")[0].lstrip("-0.")
        digits = len(mantissa) - mantissa.count(".")
        value = float(text)
        if digits > _DOUBLE_DIGITS or value in (float("inf"), float("-inf")):
            long_numbers += 1
            return text
        return value

    def integer(text: str) -> Any:
        nonlocal long_numbers
        if len(text) <= MOST_DIGITS:
            return int(text)
        long_numbers += 1
        return text

    def refuse(word: str) -> Any:
        raise ValueError(word)

    try:
        value = json.loads(
            decode(data),
            object_pairs_hook=pairs,
            parse_float=number,
            parse_int=integer,
            parse_constant=refuse,
        )
    except (ValueError, RecursionError):
        return None
    return Parsed(value, duplicates, long_numbers)


def dump(value: Any) -> str:
    """Compact JSON; lone surrogates stay escapes, so the text is always valid UTF-8."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        pass
    try:
        return _escaped(json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False))
    except RecursionError:
        return "".join(_deep(value))


def _escaped(text: str) -> str:
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _deep(root: Any) -> Iterator[str]:
    """The text of a value that nests beyond what any writer of JSON takes, without recursion."""
    todo: list[Any] = [iter([("", root)])]
    closing = [""]
    while todo:
        head, value = next(todo[-1], _END)
        if head is None:
            todo.pop()
            yield closing.pop()
        elif isinstance(value, dict | list) and value:
            yield head + ("{" if isinstance(value, dict) else "[")
            closing.append("}" if isinstance(value, dict) else "]")
            todo.append(_members(value))
        else:
            yield head + dump(value)


_END: Any = (None, None)


def _members(value: dict[str, Any] | list[Any]) -> Iterator[tuple[str, Any]]:
    comma = ""
    if isinstance(value, dict):
        for key, item in value.items():
            yield f"{comma}{dump(key)}:", item
            comma = ","
    else:
        for item in value:
            yield comma, item
            comma = ","


def size(value: Any) -> int:
    """Bytes of `dump(value)`."""
    try:
        return len(orjson.dumps(value))
    except TypeError:
        return len(dump(value).encode())


def lines(text: str) -> list[str]:
    """Lines as every stage counts them: ended by a newline, the last one perhaps not."""
    made = text.split("\n")
    if made and not made[-1]:
        made.pop()
    return made


def looks_like_json(text: str) -> bool:
    """Cheap first look: only objects and arrays are worth parsing."""
    return _OPENING.match(text) is not None
