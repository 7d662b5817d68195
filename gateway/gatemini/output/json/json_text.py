"""JSON text in and out without losing anything on the way.

`parse` answers a value that says the same as the text, or nothing: digits beyond a double's, lone
surrogates and duplicate keys are noticed, and what is no JSON (NaN, half a document) is not guessed at.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import orjson

from gatemini.output.json.javascript_json import dumps
from gatemini.text.utf8 import SURROGATE, decode

SPACE = b" \n\r\t"
"""White space of JSON."""
_OPENING = re.compile(r"[ \n\r\t]*+[\[{]")
_DOUBLE_DIGITS = 17
"""Decimal digits that always survive a double and back."""

MOST_DIGITS = 2400
"""Of an integer that is read; longer ones are kept as strings."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A document. `duplicates`: keys written twice (the last one counts, as in JSON.parse).

    `long_numbers`: fractions with more digits than a double holds and integers of thousands of digits, kept as strings.
    """

    value: Any
    duplicates: int = 0
    long_numbers: int = 0

    @property
    def faithful(self) -> bool:
        """Whether writing `value` again says all that the text said."""
        return not self.duplicates and not self.long_numbers


def parse(data: bytes) -> Parsed | None:
    """The document in `data`, or None where it is not JSON or nests deeper than about 900 levels."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return parse_carefully(data)
    if _says_the_same(value, data):
        return Parsed(value)
    return parse_carefully(data) or Parsed(value)


def _says_the_same(value: Any, data: bytes) -> bool:
    """Whether writing `value`, read from `data`, gives the text back but for white space."""
    try:
        again = orjson.dumps(value)
    except TypeError:  # orjson refuses depth beyond 254 and integers beyond 64 bits
        return False
    return again == data or again.translate(None, SPACE) == data.translate(None, SPACE)


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
    except TypeError:  # orjson refuses surrogates, depth beyond 254 and integers beyond 64 bits
        pass
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except RecursionError:
        return dumps(value)
    return SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


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
