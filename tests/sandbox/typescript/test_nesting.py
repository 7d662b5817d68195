"""Code that takes a parser time and memory past every limit never reaches it."""

from __future__ import annotations

import sys

import pytest

from gatemini_sandbox.errors import ReadingTooLong
from gatemini_sandbox.typescript.nesting import MOST_OPEN, check_openings
from gatemini_sandbox.typescript.prepare import prepare

SIZE = 250_000


def of(unit: str) -> str:
    return unit * (SIZE // len(unit))


@pytest.mark.parametrize(
    "unit",
    [
        "a<b,",
        "a<b.c,\n",
        "a<b|",
        "a<b&",
        "a<1,",
        "a<",
        "<a,",
        "(a<b,",
        "a<b),",
        "a<b],",
        "[a<b},",
        "'a<b',",
        "/* a<b, */",
    ],
)
def test_open_angles_in_thousands_are_refused_before_they_are_parsed(unit: str) -> None:
    with pytest.raises(ReadingTooLong, match="500 `<` open in one expression"):
        prepare(of(unit))


@pytest.mark.parametrize(
    "unit",
    [
        "let a = b < c;\n",
        "if (a < b) { c <<= 1 }\n",
        "let x: Map<string, Array<number>> = f<T>(y);\n",
        "const s = '<p>text</p>';\n",
        "for (let i = 0; i < n; i++) f(i);\n",
        "a <= b\n",
        "const f = async <T,>(x: T): Promise<T> => x;\n",
    ],
)
def test_any_number_of_closed_brackets_is_accepted(unit: str) -> None:
    check_openings(of(unit).encode())


def test_nesting_up_to_the_limit_is_accepted() -> None:
    code = "return [" + "a<b," * (MOST_OPEN - 1) + "1].length"
    assert prepare(code).exact


@pytest.mark.parametrize(
    ("head", "unit"),
    [
        ("", "enum E# { A, B = 5, C }\n"),
        ("", "namespace N# { export const a = 1; }\n"),
        ("", "import { T# } from './types';\nlet a#: T# = 1;\n"),
    ],
)
def test_writing_out_nested_code_takes_linear_time(head: str, unit: str) -> None:
    calls = {}
    for count in (100, 400):
        code = head + "".join(unit.replace("#", str(n)) for n in range(count))
        calls[count] = steps_of(code)
    assert calls[400] < 8 * calls[100]


def steps_of(code: str) -> int:
    """Calls of functions made to prepare the code: a measure that does not depend on the machine."""
    count = 0

    def tell(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(tell)
    try:
        prepare(code)
    finally:
        sys.setprofile(before)
    return count
