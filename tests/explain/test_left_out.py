"""What results tell and the code does not look at: further pages, and errors told as text."""

from __future__ import annotations

from typing import Any

import pytest

from gatemini.explain.error_facts import HintContext, ProgramFacts
from gatemini.explain.results.left_out import left_out
from gatemini.output.json.javascript_json import dumps
from gatemini_sandbox.typescript.reads.find_reads import find_reads

PAGE = {"items": [{"id": 1}], "nextCursor": "abc"}


def notes(code: str, result: Any, value: str = "") -> list[str]:
    context = HintContext(
        backends={"shop": "shop"}, results=lambda *_: [dumps(result)], program=ProgramFacts(source=code)
    )
    return left_out(find_reads(code, frozenset(["shop"])), context, value)


COUNT = "const page = await shop.list({});\nreturn page.items.length;"


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (
            PAGE,
            'there is more: nextCursor in the result of shop.list is "abc", and the code does not read it',
        ),
        ({"items": [1], "has_more": True}, "has_more in the result of shop.list is true"),
        ({"items": [1], "next_page_token": "t"}, 'next_page_token in the result of shop.list is "t"'),
    ],
)
def test_a_page_that_is_not_the_last_is_named_with_its_cursor(result: Any, said: str) -> None:
    [note] = notes(COUNT, result)
    assert said in note


@pytest.mark.parametrize(
    ("code", "result", "value"),
    [
        (COUNT, {**PAGE, "nextCursor": None}, "1"),
        (COUNT, {"items": [1], "has_more": False}, "1"),
        (COUNT, {"items": [1], "next_steps": "read"}, "1"),
        (COUNT.replace("{}", "{ limit: 1 }"), PAGE, "1"),
        (COUNT + " // nextCursor", PAGE, "1"),
        ("const page = await shop.list({});\nconsole.log(page.items);\nreturn page;", PAGE, dumps(PAGE)),
    ],
)
def test_nothing_is_said_of_the_last_page_or_where_the_code_wants_no_more(
    code: str, result: Any, value: str
) -> None:
    assert notes(code, result, value) == []


@pytest.mark.parametrize(
    ("declared", "notes"),
    [({}, 1), ({"owner": None}, 0), ({"name": None}, 1)],
    ids=["no member that there may be", "one that the schema declares", "one that is read further in"],
)
def test_an_empty_value_is_no_answer_unless_its_member_may_be_left_out(
    declared: dict[str, None], notes: int
) -> None:
    code = "const r = await shop.get({});\nreturn r.owner?.name ?? null;"
    context = HintContext(
        backends={"shop": "shop"},
        results=lambda *_: [dumps({"id": 1})],
        declared=lambda *_: declared,
        program=ProgramFacts(source=code),
    )
    said = left_out(find_reads(code, frozenset(["shop"])), context, "null")
    assert [text.partition(":")[0] for text in said] == [
        "nothing was taken from the result of shop.get"
    ] * notes


def test_text_that_tells_of_an_error_is_shown_unless_the_value_has_it() -> None:
    error = "Database error: no such table: orders"
    code = "const rows = await shop.query({});\nreturn rows.length;"
    assert notes(code, error) == [f'shop.query answered with text that tells of an error: "{error}"']
    assert notes(code, error, error) == []
    assert notes(code, "errors: 0, warnings: 2") == []
