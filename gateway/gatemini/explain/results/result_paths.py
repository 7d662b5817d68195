"""Follow what code reads into the results it got: the steps and conditions of `gatemini_sandbox.messages.Source`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import ge, gt, le, lt
from typing import Any, Final

import orjson

from gatemini.explain.results.call_values import HELD

MOST_STEPS: Final = 4_000
"""Steps of one look into results, about a millisecond."""
MOST_NESTED: Final = 30

UNDEFINED: Final = object()
_ORDERS: Final = {"<": lt, "<=": le, ">": gt, ">=": ge}


class Uncertain(Exception):
    """What the code did with these results cannot be told."""


@dataclass(frozen=True, slots=True)
class Characters(Exception):
    """The code goes through the characters of a text as if they were items."""

    text: str


class Walk:
    """Goes through results within a number of steps."""

    def __init__(self) -> None:
        self._left = MOST_STEPS

    def rows(self, result: Any, path: Sequence[Any]) -> Iterator[Any]:
        """Yield the values at the path that its conditions let pass.

        Raises Uncertain, or Characters where items of a text are gone through.
        """
        if result == HELD:
            raise Uncertain
        yield from self._from((result,), path)

    def _from(self, passed: tuple[Any, ...], path: Sequence[Any]) -> Iterator[Any]:
        for at, step in enumerate(path):
            self._left -= 1
            if self._left < 0 or len(passed) > MOST_NESTED:
                raise Uncertain
            here = passed[-1]
            match step:
                case str():
                    inner = member(here, step)
                    if inner is UNDEFINED or inner is None:
                        return
                    passed = (*passed, inner)
                case ["items"]:
                    rest = path[at + 1 :]
                    for item in _items(here):
                        yield from self._from((*passed, item), rest)
                    return
                case ["json"]:
                    passed = (*passed, _parsed(here))
                case ["if", condition]:
                    if not truth(value_of(condition, passed)):
                        return
                case _:
                    raise Uncertain
        yield passed[-1]


def _items(value: Any) -> Iterator[Any]:
    if isinstance(value, str):
        raise Characters(value)
    yield from value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()


def _parsed(value: Any) -> Any:
    try:
        return orjson.loads(value)
    except (orjson.JSONDecodeError, TypeError):
        raise Uncertain from None


def member(value: Any, name: str) -> Any:
    """What JavaScript reads; UNDEFINED where there is none."""
    if isinstance(value, dict):
        return value.get(name, UNDEFINED)
    if isinstance(value, list | str) and name == "length":
        return len(value)
    return UNDEFINED


# -- conditions ----------------------------------------------------------------------------------------


def truth(value: Any) -> bool:
    return not (
        value is UNDEFINED or value is None or value is False or value == 0 or value == ""
    ) or isinstance(value, list | dict)


def value_of(condition: Any, passed: tuple[Any, ...]) -> Any:
    """The value of a condition where the values of `passed` have been gone through. Raises Uncertain."""
    match condition:
        case ["is", None | bool() | int() | float() | str() as constant]:
            return constant
        case ["undefined"]:
            return UNDEFINED
        case ["list", *items]:
            return [value_of(item, passed) for item in items]
        case ["at", int() as at, *names] if -1 <= at < len(passed):
            value = passed[at]
            for name in names:
                if value is None or value is UNDEFINED:
                    raise Uncertain
                value = member(value, name) if isinstance(name, str) else UNDEFINED
            return value
        case ["not", inner]:
            return not truth(value_of(inner, passed))
        case ["typeof", inner]:
            return _kind(value_of(inner, passed))
        case ["isArray", inner]:
            return isinstance(value_of(inner, passed), list)
        case ["&&" | "||" as sign, left, right]:
            first = value_of(left, passed)
            return value_of(right, passed) if truth(first) == (sign == "&&") else first
        case ["toLowerCase" | "toUpperCase" | "trim" as method, inner]:
            text = value_of(inner, passed)
            if not isinstance(text, str):
                raise Uncertain
            return {"toLowerCase": text.lower, "toUpperCase": text.upper, "trim": text.strip}[method]()
        case [str() as operator, left, right]:
            return _compared(operator, value_of(left, passed), value_of(right, passed))
    raise Uncertain


def _kind(value: Any) -> str:
    """What `typeof` gives."""
    if value is UNDEFINED:
        return "undefined"
    names = {bool: "boolean", int: "number", float: "number", str: "string"}
    return names.get(type(value), "object")


def _compared(operator: str, left: Any, right: Any) -> bool:
    kinds = _kind(left), _kind(right)
    if operator in ("includes", "startsWith", "endsWith"):
        if isinstance(left, list) and operator == "includes":
            return any(_same(item, right) for item in left)
        if kinds != ("string", "string"):
            raise Uncertain
        text, part = str(left), str(right)
        if operator == "includes":
            return part in text
        return text.startswith(part) if operator == "startsWith" else text.endswith(part)
    if operator in ("===", "!=="):
        return _same(left, right) == (operator == "===")
    if operator in ("==", "!="):
        nothing = [value is None or value is UNDEFINED for value in (left, right)]
        if not any(nothing) and kinds[0] != kinds[1]:
            raise Uncertain
        return (all(nothing) or (not any(nothing) and _same(left, right))) == (operator == "==")
    if set(kinds) == {"number", "string"}:
        left, right = _number(left), _number(right)
    elif kinds not in (("number", "number"), ("string", "string")):
        raise Uncertain
    if operator not in _ORDERS:
        raise Uncertain
    return bool(_ORDERS[operator](left, right))


def _number(value: Any) -> float:
    """What a comparison makes of a number or of text that is one. Raises Uncertain."""
    try:
        return float(value or 0)
    except ValueError:
        raise Uncertain from None


def _same(left: Any, right: Any) -> bool:
    if _kind(left) != _kind(right) or isinstance(left, list | dict) or isinstance(right, list | dict):
        if isinstance(left, list | dict) and isinstance(right, list | dict):
            raise Uncertain  # whether it is the same object is not known
        return False
    return bool(left == right) if left is not UNDEFINED else right is UNDEFINED
