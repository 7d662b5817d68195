"""The text of an error: cause first, nothing that happened left out silently, within its budget."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemini.explain.report import CallLine, ErrorReport, excerpt, render_error
from gatemini.text.size_limit import SizeLimit

SOURCE = "const a = 1;\n\treturn a.b.c;\n"


def test_calls_of_one_tool_are_told_apart_by_their_arguments() -> None:
    calls = [CallLine("demo.get", "error: gone", 1.0, arguments=f'{{"id":{n}}}') for n in (7, 8)]
    calls.append(CallLine("demo.write", "ok", 1.0, arguments='{"key":"a"}'))
    text = render_error(ErrorReport("Error", "x", calls=calls))
    assert '1. demo.get({"id":7}): error: gone (1 ms)' in text
    assert '2. demo.get({"id":8}): error: gone (1 ms)' in text
    assert "3. demo.write: ok (1 ms)" in text


def test_a_report_lists_its_parts_in_order():
    report = ErrorReport(
        "ToolError",
        "no such id",
        tool="demo.fail",
        line=2,
        column=9,
        source=SOURCE,
        hint="look first",
        cause="Caused by: Error: inner",
        calls=[
            CallLine("demo.write", "ok", 3.2),
            CallLine("demo.fail", "error: no such id", 1500),
            CallLine("demo.x", "no answer yet"),
        ],
        console=["one", "two"],
        console_dropped=7,
        notes=["1 call was not awaited"],
    )
    assert render_error(report) == (
        "ToolError: demo.fail: no such id (line 2, column 9)\n"
        "  \treturn a.b.c;\n"
        "  \t       ^\n"
        "Caused by: Error: inner\n"
        "HINT: look first\n"
        "Calls made before the error:\n"
        "  1. demo.write: ok (3 ms)\n"
        "  2. demo.fail: failed with this error (1.5 s)\n"
        "  3. demo.x: no answer yet\n"
        "NOTE: 1 call was not awaited\n"
        "[console]\none\ntwo\n[7 more lines dropped]"
    )


def test_a_call_that_never_left_is_listed_as_not_sent():
    calls = [
        CallLine("demo.add", "error: demo.add was not called: x", 1.0, sent=False),
        CallLine("demo.nope", "error: there is none", 1.0, sent=False),
        CallLine("demo.write", "ok", 1.0, sent=False),
        CallLine("demo.write", "ok", 1.0),
    ]
    text = render_error(ErrorReport("ToolError", "demo.add was not called: x", calls=calls))
    assert text.splitlines()[1:] == [
        "Calls made before the error:",
        "  1. demo.nope: not sent: there is none",
        "  2. demo.write: held, not sent",
        "  3. demo.write: ok (1 ms)",
    ]


def test_the_list_is_left_out_when_the_only_call_never_left():
    calls = [CallLine("demo.add", "error: demo.add was not called: x", 1.0, sent=False)]
    assert "Calls" not in render_error(ErrorReport("ToolError", "demo.add was not called: x", calls=calls))


@pytest.mark.parametrize(
    ("report", "text"),
    [
        (ErrorReport("Error", ""), "Error: (no message)"),
        (
            ErrorReport("Error", "one\ntwo", line=1, source="x"),
            "Error: one (line 1, column 1)\ntwo\n  x\n  ^",
        ),
        (ErrorReport("Error", "m", line=9, source="x"), "Error: m (line 9, column 1)"),
    ],
)
def test_a_short_error_has_its_message_and_its_place_if_there_is_one(report, text):
    assert render_error(report) == text


def test_the_first_last_and_failed_of_many_calls_are_listed():
    calls = [CallLine("demo.echo", "ok", 1.0) for _ in range(500)]
    calls[250] = CallLine("demo.fail", "error: boom", 1.0)
    text = render_error(ErrorReport("Error", "m", calls=calls))
    assert "  1. demo.echo: ok" in text
    assert "  251. demo.fail: error: boom" in text
    assert "  500. demo.echo: ok" in text
    assert text.count("more") == 2
    assert "… 240 more" in text


def test_a_long_console_keeps_its_first_and_its_last_lines():
    text = render_error(
        ErrorReport("Error", "m", console=[f"line {i}" for i in range(5_000)]), budget=SizeLimit(2_000)
    )
    assert "\nline 0\n" in text
    assert text.endswith("line 4999")
    assert "truncated — showing first" in text
    assert len(text) <= 2_000


def test_a_long_message_never_pushes_out_hint_and_calls():
    report = ErrorReport("Error", "x" * 50_000, hint="the hint", calls=[CallLine("demo.write", "ok", 1.0)])
    text = render_error(report, budget=SizeLimit(3_000))
    assert len(text) <= 3_000
    assert text.startswith("Error: xxx")
    assert "HINT: the hint" in text
    assert "demo.write: ok" in text


TEXT = st.text(max_size=300)


@given(
    st.builds(
        ErrorReport,
        name=st.just("Error"),
        message=TEXT,
        tool=st.none() | TEXT,
        line=st.none() | st.integers(1, 5),
        column=st.none() | st.integers(1, 400),
        source=TEXT,
        hint=st.none() | TEXT,
        cause=st.none() | TEXT,
        calls=st.lists(st.builds(CallLine, TEXT, TEXT, st.none() | st.floats(0, 1e6)), max_size=60),
        console=st.lists(TEXT, max_size=20),
        notes=st.lists(TEXT, max_size=3),
    ),
    st.integers(200, 10_000),
)
def test_no_report_is_longer_than_its_budget(report, budget):
    text = render_error(report, budget=SizeLimit(budget))
    assert len(text) <= budget
    assert text.startswith("Error: ")


def test_a_very_long_line_is_shown_only_around_the_caret():
    shown, caret = excerpt("x" * 5000 + "!" + "y" * 5000, 5001)
    assert len(shown) < 140
    assert shown[caret.index("^")] == "!"
