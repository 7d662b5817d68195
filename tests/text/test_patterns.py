"""Patterns of regular expressions mean the same on every Python from 3.11.0 on.

Before 3.11.5 and 3.12, a possessive repeat of a group keeps what its last, failing round has read (CPython issue 106052):
`(?:/\\*[^*]*\\*/)*+` takes the two characters of `/*`. A last alternative that fails at once, `|(?!)`, puts the position back.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from re import _constants as codes
from re import _parser as parser
from typing import Any

import pytest

PACKAGES = ("gatemini", "gatemini_sandbox", "gatemini_js")
ONE_CHARACTER = {codes.LITERAL, codes.NOT_LITERAL, codes.IN, codes.ANY, codes.CATEGORY}
REPEATS = {codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT}


def compiled(value: Any) -> Iterator[re.Pattern[Any]]:
    """The patterns that a constant is or holds."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict):
        yield from compiled(tuple(value.values()))
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from compiled(item)


def patterns() -> dict[str, re.Pattern[Any]]:
    """Each pattern that a module of the product has among its constants, by module and constant."""
    found = {}
    for package in PACKAGES:
        folder = importlib.import_module(package).__path__
        for module in pkgutil.walk_packages(folder, f"{package}."):
            if not module.name.endswith("__main__"):
                for name, value in vars(importlib.import_module(module.name)).items():
                    for number, pattern in enumerate(compiled(value)):
                        found[f"{module.name}.{name}.{number}"] = pattern
    return found


def parts(value: Any) -> Iterator[Any]:
    """The patterns directly within an operand of a parsed pattern."""
    if isinstance(value, parser.SubPattern):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from parts(item)


def may_fail_with_the_position_moved(group: Any) -> bool:
    steps = list(group)
    if not steps:
        return False
    *first, (code, operand) = steps
    if any(step not in ONE_CHARACTER for step, _ in first):
        return True
    if code is codes.BRANCH:
        *others, last = operand[1]
        puts_back = not first and re.fullmatch(r"\[\((FAILURE, \(\)|ASSERT_NOT, \(1, \[\]\))\)\]", repr(last))
        return not puts_back and (bool(first) or any(map(may_fail_with_the_position_moved, [*others, last])))
    if code in REPEATS:
        only_one_character = not first and operand[0] == 1 and len(operand[2]) == 1
        return operand[0] > 0 and not (only_one_character and operand[2][0][0] in ONE_CHARACTER)
    if code is codes.SUBPATTERN:
        return bool(first) or may_fail_with_the_position_moved(operand[-1])
    return code not in ONE_CHARACTER


def unsafe(pattern: Any) -> bool:
    """Whether a parsed pattern repeats possessively what may fail with the position moved."""
    return any(
        (code is codes.POSSESSIVE_REPEAT and may_fail_with_the_position_moved(operand[2]))
        or any(map(unsafe, parts(operand)))
        for code, operand in pattern
    )


def is_unsafe(pattern: re.Pattern[Any]) -> bool:
    return unsafe(parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE))


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?:/\*[^*]*\*/)*+",
        r"(?:[^*]|\*(?!/))*+",
        r"(?:\\(?:\r\n|.))*+",
        r"x(?:a(?:b+c)*+)?",
        r"(?:(?:a+b|(?!))c)*+",
        r"(?:a++b)++",
    ],
)
def test_a_group_that_may_fail_after_it_has_read_something_is_noticed(pattern: str) -> None:
    assert is_unsafe(re.compile(pattern))


@pytest.mark.parametrize(
    "pattern", [r"[^*]*+\s++", r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', r"(?:[^*]|\*(?!/)|(?!))*+", r"(?:ab|\\.)*+"]
)
def test_a_group_whose_position_is_put_back_is_left_alone(pattern: str) -> None:
    assert not is_unsafe(re.compile(pattern))


def test_no_pattern_depends_on_what_older_versions_of_python_do_with_a_failing_round() -> None:
    found = patterns()
    assert len(found) > 300
    assert [f"{name}: {p.pattern!r:.200}" for name, p in found.items() if is_unsafe(p)] == []
