"""Rows within a token budget: heavy fields are dropped first, then rows, always with a note."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemini.errors import InvalidRequest
from gatemini.output.compact import compact
from gatemini.output.json.json_text import size

ROWS: list[Any] = [{"id": n, "name": f"name {n}", "body": "x" * 100} for n in range(20)]


def test_fields_picks_and_orders_columns() -> None:
    made = compact(ROWS, fields=["name", "id", "nope"])
    assert list(made["rows"][0]) == ["name", "id"]
    assert made["dropped_fields"] == ["body"]
    assert made["note"] == 'no row has: "nope"; fields left out: body'
    assert not made["truncated"]


def test_a_field_that_no_row_has_is_named_in_a_note() -> None:
    made = compact([{"id": 1, "name": "a"}], fields=["nmae", "id"])
    assert made["rows"] == [{"id": 1}]
    assert made["note"] == 'no row has: "nmae"; fields left out: name'


def test_without_limits_everything_is_returned() -> None:
    assert compact(ROWS) == {
        "rows": ROWS, "total_rows": 20, "returned_rows": 20, "truncated": False, "dropped_fields": [],
        "note": "all 20 rows and fields",
    }  # fmt: skip


def test_the_heaviest_field_goes_first_and_the_identity_last() -> None:
    assert compact(ROWS, budget_tokens=200)["dropped_fields"] == ["body"]
    made = compact(ROWS, budget_tokens=30)
    assert made["returned_rows"] == 12
    assert made["dropped_fields"] == ["body", "name"]
    assert made["rows"] == [{"id": n} for n in range(made["returned_rows"])]
    assert made["note"] == f"fields left out: body, name; first {made['returned_rows']} of 20 rows"


@pytest.mark.parametrize("budget", [1e308, float("inf"), 10**400])
def test_an_infinite_budget_cuts_nothing(budget: float) -> None:
    assert compact(ROWS, budget_tokens=budget)["rows"] == ROWS


@given(
    st.lists(
        st.dictionaries(st.sampled_from("abcdef"), st.one_of(st.integers(), st.text(max_size=60))),
        max_size=40,
    ),
    st.integers(1, 400),
)
def test_the_rows_fit_the_budget_and_the_counts_are_true(rows: list[dict[str, Any]], budget: int) -> None:
    made = compact(rows, budget_tokens=budget)
    assert size(made["rows"]) <= budget * 4 or made["returned_rows"] == 1
    assert made["returned_rows"] >= min(1, len(rows))
    assert made["total_rows"] == len(rows)
    assert made["returned_rows"] == len(made["rows"])
    assert made["truncated"] == (len(made["rows"]) < len(rows))
    gone = set(made["dropped_fields"])
    for row, whole in zip(made["rows"], rows, strict=False):
        assert row == {key: item for key, item in whole.items() if key not in gone}


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        ({"a": 1}, {}),
        ("text", {}),
        ([], {"budget_tokens": 0}),
        ([], {"budget_tokens": "9"}),
        ([], {"fields": "id"}),
        ([], {"fields": [1]}),
    ],
)
def test_wrong_arguments_of_compact_are_refused(rows: Any, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        compact(rows, **options)
