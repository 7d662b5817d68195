"""JSON as JavaScript reads and writes it.

`dumps` gives the text `JSON.stringify` would give; `loads` reads JSON text without losing a digit. Both go
through orjson wherever that cannot differ. ECMA-262 Number::toString, QuoteJSONString, OrdinaryOwnPropertyKeys.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import orjson

from gatemini.text.utf8 import decode, encode

MAX_SAFE_INTEGER: Final = 2**53 - 1
"""The last integer up to which every integer is a double of its own."""

_MAX_ARRAY_INDEX: Final = 2**32 - 2
_WRITTEN_BITS: Final = 8_192
"""Integers up to this size are written digit by digit; beyond, JavaScript knows only Infinity."""

_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")

_MAY_DIFFER = (
    ((b"0e-", b"0e+"), re.compile(rb"[0-9]e[-+][0-9]+(?:[,\]}]|\Z)")),
    ((b"-0.0",), re.compile(rb"-0\.0(?:[,\]}]|\Z)")),
    ((b'0":',), re.compile(rb'"[0-9]{1,10}":')),
)
"""Where orjson may have written a number in another way or a key in another order than JavaScript: what the text then
holds once its digits are zeros, and what tells for certain."""

_DIGITS_TO_ZERO = bytes.maketrans(b"123456789", b"000000000")
_SIXTEEN_DIGITS = b"0" * 16
"""What every long integer holds once its digits are zeros. Mapping them and looking for plain bytes takes
a fifth of the time of a pattern that begins with a digit, which is half of all that 40 MB take."""

_WHOLE_FLOAT = re.compile(rb"\.0(?=[,\]}]|\Z)")
"""What orjson writes after a whole number that is a float, and JavaScript does not."""

_LONG_INTEGER = re.compile(rb"(?<![-0-9.eE+])-?[0-9]{16,}(?![0-9.eE])")

_AFTER_NUMBER = (b"", b" ", b"\t", b"\r", b"\n", b",", b"]", b"}")

_SPECIAL = re.compile(r'[\x00-\x1f"\\\ud800-\udfff]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


class NotJson(ValueError):
    """The text is no JSON; the message says why and where, `reason` only why, `at` is the offset where known."""

    def __init__(self, message: str, reason: str | None = None, at: int | None = None) -> None:
        super().__init__(message)
        self.reason, self.at = reason or message, at

    @classmethod
    def of(cls, exc: ValueError) -> NotJson:
        if isinstance(exc, json.JSONDecodeError):
            return cls(str(exc), exc.msg, exc.pos)
        return cls(str(exc))


def dumps(value: Any) -> str:
    """Compact JSON text of a JSON value, as `JSON.stringify` writes it.

    Takes dict (any keys, written as strings), list, tuple, str, bool, None, int and float.
    """
    try:
        written = orjson.dumps(value)
    except (orjson.JSONEncodeError, RecursionError):
        return "".join(_pieces(value))
    if isinstance(value, str):  # only numbers and keys differ; of 40 MB looking for them takes 200 ms
        return written.decode()
    if _may_differ(written):
        return "".join(_pieces(value))
    if _WHOLE_FLOAT.search(written):
        written = _replaced_outside_strings(written, _WHOLE_FLOAT, lambda _: b"")
    return written.decode()


def with_long_integers_quoted(data: bytes) -> tuple[bytes, int]:
    """JSON text with integers beyond 2^53 as strings, and how many these are; nothing else is changed."""
    if not _has_long_integer(data):
        return data, 0
    kept = 0

    def quote(found: re.Match[bytes]) -> bytes:
        nonlocal kept
        if len(found[0]) < 18 and abs(int(found[0])) <= MAX_SAFE_INTEGER:
            return found[0]
        kept += 1
        return b'"%b"' % found[0]

    return _replaced_outside_strings(data, _LONG_INTEGER, quote), kept


def _replaced_outside_strings(
    data: bytes, pattern: re.Pattern[bytes], instead: Callable[[re.Match[bytes]], bytes]
) -> bytes:
    """JSON text with matches outside of strings replaced: there an even number of quotes precedes them."""
    masked = data.replace(b"\\\\", b"__").replace(b'\\"', b"__") if b"\\" in data else data
    parts: list[bytes] = []
    done = counted = quotes = 0
    for found in pattern.finditer(data):
        at = found.start()
        quotes += masked.count(b'"', counted, at)
        counted = at
        if quotes % 2 == 0:
            parts += data[done:at], instead(found)
            done = found.end()
    return b"".join([*parts, data[done:]])


def loads(text: str | bytes) -> tuple[Any, int]:
    """The value of JSON text, and how many integers beyond 2^53 became strings to keep their digits.

    Raises NotJson (also for NaN, Infinity and nesting beyond the parser's limit).
    """
    data = text if isinstance(text, bytes) else encode(text)
    if not _has_long_integer(data):
        return _loads_plain(data), 0
    numbers = _Numbers()
    return _loads_with(data, numbers.integer), numbers.kept


def loads_lenient(text: str | bytes) -> tuple[Any, int, int]:
    """As `loads`, with NaN, Infinity and numbers beyond a double read as None; the last number counts these."""
    data = text if isinstance(text, bytes) else encode(text)
    if not _has_long_integer(data):
        try:
            return orjson.loads(data), 0, 0
        except orjson.JSONDecodeError:
            pass
    numbers = _Numbers()
    value = _loads_with(data, numbers.integer, numbers.constant, numbers.number)
    return value, numbers.kept, numbers.nulls


class _Numbers:
    """Reads the numbers of one text, and counts those that JavaScript has no exact number for."""

    kept = 0
    """Integers that stay text."""
    nulls = 0
    """NaN, Infinity and what is beyond a double, read as None."""

    def integer(self, digits: str) -> int | str:
        if len(digits) < 16 or (len(digits) < 18 and abs(int(digits)) <= MAX_SAFE_INTEGER):
            return int(digits)
        self.kept += 1
        return digits

    def constant(self, _digits: str) -> None:
        self.nulls += 1

    def number(self, digits: str) -> float | None:
        value = float(digits)
        if math.isfinite(value):
            return value
        self.constant(digits)
        return None


def loads_exact(text: str) -> Any:
    """The value of JSON text with integers of any size as they are. Raises NotJson."""
    data = encode(text)
    if not _has_long_integer(data):
        return _loads_plain(data)
    return _loads_with(data, lambda digits: int(digits) if len(digits) < 4000 else float(digits))


def _may_differ(written: bytes) -> bool:
    zeros = written.translate(_DIGITS_TO_ZERO)
    return any(
        any(sign in zeros for sign in signs) and certain.search(written) is not None
        for signs, certain in _MAY_DIFFER
    )


def _has_long_integer(data: bytes) -> bool:
    """Whether an integer beyond 2^53 may stand there; in a string it does no harm."""
    zeros = data.translate(_DIGITS_TO_ZERO)
    at = zeros.find(_SIXTEEN_DIGITS)
    while at >= 0:
        end = at + len(_SIXTEEN_DIGITS)
        while zeros[end : end + 1] == b"0":
            end += 1
        if zeros[at - 1 : at] != b"." and zeros[end : end + 1] in _AFTER_NUMBER:
            return True
        at = zeros.find(_SIXTEEN_DIGITS, end)
    return False


def _loads_plain(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as exc:
        if b"\\u" in data or b"\xed" in data or b"e" in data or b"E" in data:  # lone surrogates, 1e400
            return _loads_with(data, int)
        raise NotJson.of(exc) from None


def _no_constant(name: str) -> Any:
    raise NotJson(f"{name} is not JSON")


def _loads_with(data: bytes, integer: Any, constant: Any = _no_constant, number: Any = None) -> Any:
    try:
        return json.loads(
            decode(data),
            parse_int=integer,
            parse_constant=constant,
            parse_float=number,
        )
    except RecursionError:
        raise NotJson("nested too deeply") from None
    except NotJson:
        raise
    except ValueError as exc:
        raise NotJson.of(exc) from None


def number_text(value: float) -> str:
    """A finite double as `String(value)` writes it."""
    if value == 0:
        return "0"
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + ("" if fraction == "0" else fraction)).lstrip("0")
    point = len(whole) + int(exponent or 0)  # digits in front of the decimal point
    if whole == "0":
        point -= 1 + len(fraction) - len(fraction.lstrip("0"))
    digits = digits.rstrip("0") or "0"
    sign = "-" if value < 0 else ""
    if len(digits) <= point <= 21:
        return sign + digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    tail = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{tail}e{point - 1:+d}"


def simple_number(value: float) -> int | float:
    """An integral double as the int JavaScript writes (as far as 64 bits go), any other as it is."""
    return int(number_text(value)) if value.is_integer() and abs(value) < 2**63 else value


def ordered_keys(members: dict[str, Any]) -> dict[str, Any]:
    """The same members in JavaScript's order: array indices ascending, then the rest as they came."""
    indices = [key for key in members if _INDEX.fullmatch(key) and int(key) <= _MAX_ARRAY_INDEX]
    if not indices:
        return members
    first = {key: members[key] for key in sorted(indices, key=int)}
    return first | members


def quoted(text: str) -> str:
    """A string as a JSON string; lone surrogates are escaped, all other non-ASCII stays."""
    return f'"{_SPECIAL.sub(_escaped, text)}"'


def _escaped(found: re.Match[str]) -> str:
    sign = found[0]
    return _SHORT.get(sign) or f"\\u{ord(sign):04x}"


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, float):
        return number_text(value) if math.isfinite(value) else "null"
    if isinstance(value, int):
        return str(value) if value.bit_length() <= _WRITTEN_BITS else "null"
    raise TypeError(f"{type(value).__name__} is no JSON value")


def _pieces(root: Any) -> Iterator[str]:
    """The text of a value piece by piece, without recursion: values nest as deep as they like."""
    stack: list[tuple[Iterator[Any], str]] = []
    current: Any = root
    while True:
        if isinstance(current, dict):
            yield "{"
            named = {key if isinstance(key, str) else _scalar(key): item for key, item in current.items()}
            stack.append((iter(ordered_keys(named).items()), "}"))
        elif isinstance(current, (list, tuple)):
            yield "["
            stack.append((iter(current), "]"))
        else:
            yield _scalar(current)
        first = bool(stack) and isinstance(current, (dict, list, tuple))
        while stack:
            members, closing = stack[-1]
            following: Any = next(members, _END)
            if following is not _END:
                break
            yield closing
            stack.pop()
            first = False
        else:
            return
        if not first:
            yield ","
        if closing == "}":
            yield quoted(following[0])
            yield ":"
            current = following[1]
        else:
            current = following


_END: Final[Any] = object()
