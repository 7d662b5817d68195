"""The arithmetic of `gatemini eval`, and the query files it accepts."""

from __future__ import annotations

from typing import Any

import pytest

from gatemini.discovery.search.evaluate import Query, evaluate, parse_queries
from gatemini.errors import InvalidRequest


def test_recall_counts_needs_and_mrr_the_first_right_tool() -> None:
    answers = {"one": ["x", "a"], "two": ["b", "b2", "x", "x2", "x3", "c"], "none": ["x"]}
    queries = [
        Query("one", (("a", "a2"),), "easy"),
        Query("two", (("b", "b2"), ("c",)), "hard"),
        Query("none", (("z",),), "hard"),
    ]
    report = evaluate(lambda text, _: answers[text], queries)
    assert report.all.recall == {1: pytest.approx(0.5 / 3), 5: pytest.approx(0.5), 10: pytest.approx(2 / 3)}
    assert report.all.mrr == pytest.approx((0.5 + 1 + 0) / 3)
    assert report.categories["hard"].recall[10] == pytest.approx(0.5)
    assert report.macro.mrr == pytest.approx((0.5 + 0.5) / 2)
    assert [miss.query.text for miss in report.misses] == ["two", "none"]
    assert report.misses[0].missing == (("c",),)


def test_one_tool_meets_one_need_only() -> None:
    report = evaluate(lambda *_: ["a"], [Query("q", (("a",), ("a",)))])
    assert report.all.recall[5] == 0.5


def test_no_queries_are_an_error() -> None:
    with pytest.raises(InvalidRequest):
        evaluate(lambda *_: [], [])


@pytest.mark.parametrize(
    ("entry", "needs"),
    [
        ({"query": "q", "tool": "b.t"}, (("b.t",),)),
        ({"query": "q", "tools": ["b.t", "b.u"]}, (("b.t",), ("b.u",))),
        ({"query": "q", "needs": [["b.t", "c.t"]]}, (("b.t", "c.t"),)),
    ],
)
def test_a_query_may_have_needs_tools_or_one_tool(entry: Any, needs: Any) -> None:
    assert parse_queries([entry]) == parse_queries({"queries": [entry]}) == [Query("q", needs)]


@pytest.mark.parametrize(
    "data",
    [
        5,
        {},
        [5],
        [{}],
        [{"query": "q"}],
        [{"query": "q", "needs": [[]]}],
        [{"query": 5}],
        [{"query": "q", "tools": 5}],
    ],
)
def test_an_invalid_query_file_gets_an_example(data: Any) -> None:
    with pytest.raises(InvalidRequest):
        parse_queries(data)
