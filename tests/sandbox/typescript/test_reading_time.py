"""Code that makes parsers slow: read within its time or given up, never longer than the caller waits."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest

from gatemini_sandbox.errors import ReadingTooLong
from gatemini_sandbox.typescript.diagnosis.diagnose import offending_offset
from gatemini_sandbox.typescript.parse import collect, parse_tree
from gatemini_sandbox.typescript.parse_deadline import check, over, patience
from gatemini_sandbox.typescript.prepare import prepare
from gatemini_sandbox.typescript.second_parser import oxc
from gatemini_sandbox.typescript.syntax_error import SandboxSyntaxError

SIZE = 200_000


def test_without_a_limit_time_is_never_over() -> None:
    assert not over()
    check()


def test_an_inner_patience_ends_no_later_than_the_one_around_it() -> None:
    with patience(0.0), patience(60.0), pytest.raises(ReadingTooLong, match="too long to parse"):
        check()
    assert not over()


@pytest.mark.parametrize("code", ['"' * SIZE, "f()" * SIZE, "let a: B = 1;\n" * 10_000])
def test_reading_ends_when_the_time_is_over(code: str) -> None:
    with patience(0.0), pytest.raises(ReadingTooLong):
        prepare(code)


def test_code_that_took_too_long_to_parse_is_parsed_again_with_more_time() -> None:
    code = "let a: number = 1;\n" * 1000 + "return 'patience';"
    with patience(0.0), pytest.raises(ReadingTooLong):
        prepare(code)
    assert "number" not in prepare(code).js


@pytest.mark.parametrize("code", ["a" + "!" * SIZE, "a" + ".b" * (SIZE // 2), "<T>" * 70_000 + "a"])
def test_expressions_deeper_than_the_parser_counts_are_refused(code: str) -> None:
    with pytest.raises(ReadingTooLong, match="60,000 deep"):
        prepare(code)


@pytest.mark.parametrize("code", ["!" * 20_000, "new " * 20_000, "f()" * 20_000, "{" + "new " * 20_000 + "}"])
def test_random_characters_are_a_syntax_error(code: str) -> None:
    with pytest.raises(SandboxSyntaxError):
        prepare(code)


def test_a_text_in_several_pieces_gives_the_tokens_of_one_piece() -> None:
    lines = "".join(f"const name{i}: number = {i};\n" for i in range(6000))
    program = prepare(lines + "return name5999;")
    assert program.js.count(": number") == 0
    assert "return name5999" in program.js


def test_looking_for_the_place_of_an_error_ends_when_the_time_is_over() -> None:
    data = b"const y = 1;\n" * 2000 + b"const x = ;\n"
    root = parse_tree(data).root_node
    with patience(0.0), pytest.raises(ReadingTooLong):
        offending_offset(data, root)
    assert offending_offset(data, root) == data.index(b"= ;") + 2


@pytest.mark.parametrize("stretch", [7, 64, 1000])
def test_findings_do_not_depend_on_the_pieces_the_code_is_read_in(
    stretch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (Path(__file__).parent / "cases" / "types.ts").read_bytes()
    root = parse_tree(code).root_node

    def found() -> list[tuple[str, int, int]]:
        return [(kind, node.start_byte, node.end_byte) for kind, node in collect(code, root)]

    whole = found()
    monkeypatch.setattr("gatemini_sandbox.typescript.parse.STRETCH", stretch)
    assert found() == whole
    assert len(whole) > 100


# What is never closed, and text that the parser recovers from in quadratic time.
HOSTILE = [
    "`${", "`a${b(", "`${/*", "f(`${", "xs.map(x => `${x.map(y => `", "({[", "f<A<", "a<b?", '"a', '`${"', "'a\n",
    "|-", "+x<>]", "->{", "if\n-case ", "(/*", "@\n`", '+keyof "\n', "type <", "async(", "{a:",
]  # fmt: skip


def cpu_seconds(code: str) -> float:
    """Of the quickest of three readings."""
    taken = []
    for _ in range(3):
        before = time.thread_time()
        with contextlib.suppress(SandboxSyntaxError, ReadingTooLong):
            prepare(code)
        taken.append(time.thread_time() - before)
    return min(taken)


ONE_OF_A_KIND = {"`${", "f(`${", "({[", "f<A<", '"a', "|-", "->{", "(/*", "type <"}


@pytest.fixture(scope="module")
def ordinary() -> float:
    oxc.transform("")  # compiles it
    return cpu_seconds("const rows = await demo.rows({ n: 3 });\n" * 50 + "const x = ;")


@pytest.mark.parametrize(
    "unit", [pytest.param(u, marks=[] if u in ONE_OF_A_KIND else pytest.mark.long) for u in HOSTILE]
)
def test_code_that_is_never_closed_is_refused_in_time_that_grows_with_its_length(
    ordinary: float, unit: str
) -> None:
    short, long = (cpu_seconds(unit * (size // len(unit))) for size in (2_000, 8_000))
    assert short < 12 * ordinary
    assert long < 8 * short + 5 * ordinary
