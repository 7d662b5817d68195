"""The intent keeps what it names and never breaks JSON."""

import json
from dataclasses import replace
from typing import Any

import pytest
from msgspec import Raw

from gatemini.output.intent import Filtered, Wanted, filter_text, terms
from gatemini.output.intent import filter_json as filter_document
from gatemini.output.json.json_text import dump
from gatemini.output.json.lazy_json import written
from gatemini.output.options import OutputOptions
from gatemini.output.pipeline import reduce_output
from gatemini.output.store.results import ResultStore
from gatemini.text.utf8 import encode


def filter_json(value: Any, intent: str) -> Filtered:
    found = filter_document(Raw(encode(dump(value))), intent)
    return found if not found.kept else replace(found, value=json.loads(written(found.value)))


def test_terms_are_the_distinct_lower_case_words_of_the_intent() -> None:
    assert terms("Failed orders of FAILED-order №7, naïve_user") == [
        "failed", "orders", "order", "7", "naïve", "user",
    ]  # fmt: skip
    assert terms("what is it for") == ["what", "is", "it", "for"]
    assert terms("Größe der Bestellung") == ["größe", "bestellung"]


def test_words_that_say_nothing_neither_keep_a_part_nor_cost_it_its_place() -> None:
    rows = [{"id": n, "state": "failed" if n % 10 == 0 else "done"} for n in range(50)]
    found = filter_json(rows, "show me all of the orders that failed")
    assert found.value == rows[::10]
    text = "the weather is for all of us\n\npayment failed\n\nwhat do you do with it"
    picked = filter_text(text, "show me all of the payments that failed with it")
    assert picked is not None
    assert picked.text == "payment failed"


def test_a_part_stays_when_more_than_three_tenths_of_the_terms_occur_as_whole_words() -> None:
    ten = Wanted(" ".join(f"term{n}x" for n in range(10)))
    assert not ten.hits(["term0x term1x term2x"])
    assert ten.hits(["term0x term1x term2x term3x"])
    cat = Wanted("cat")
    assert not cat.hits(["concatenate"])
    assert cat.hits(["a cat."])
    assert not cat.hits(["cat2"])
    assert not cat.hits(["2cat, écat"])
    assert cat.hits(["cat_2"])
    assert cat.hits(["concat cat"])


@pytest.mark.parametrize(
    ("intent", "kept"),
    [
        ("日本語", "これは日本語のテキストです。"),
        ("支払いのタイムアウトエラー", "支払いがタイムアウトしました。"),
        ("退款 订单", "退款订单已创建。"),
        ("API", "api接口返回错误"),
        ("接口 错误", "api接口返回错误"),
        ("결제 실패", "결제가 실패했습니다"),
        ("การชำระเงิน", "การชำระเงินล้มเหลว"),
    ],
)
def test_words_are_found_in_scripts_that_are_written_without_spaces(intent: str, kept: str) -> None:
    parts = [
        "これは日本語のテキストです。",
        "支払いがタイムアウトしました。",
        "何もない。",
        "退款订单已创建。",
        "api接口返回错误",
    ]
    parts += ["결제가 실패했습니다", "การชำระเงินล้มเหลว", "an apiary"]
    found = filter_text("\n\n".join(parts), intent)
    assert found.text == kept
    rows = filter_json([{"text": part} for part in parts], intent)
    assert rows is not None
    assert rows.value == [{"text": kept}]


def test_text_is_split_into_paragraphs_when_there_are_three() -> None:
    found = filter_text("one apple\nmore\n\ntwo pears\n\n \nthree apple pies", "apple")
    assert (found.kept, found.total) == (2, 3)
    assert found.text == "one apple\nmore\n\nthree apple pies"


def test_text_without_paragraphs_is_split_into_groups_of_ten_lines() -> None:
    lines = [f"line {n}" for n in range(35)]
    lines[17] = "the needle"
    found = filter_text("\n".join(lines), "needle")
    assert (found.kept, found.total) == (1, 4)
    assert found.text.split("\n") == lines[10:20]


def test_nothing_matching_and_everything_matching_both_leave_the_answer_unchanged() -> None:
    assert not filter_text("a\n\nb\n\nc", "zebra").kept
    assert not filter_text("a x\n\nb x\n\nc x", "x").kept
    assert not filter_text("a\n\nb\n\nc", "?!").kept
    assert not filter_json([{"a": 1}], "zebra").kept


def test_json_records_are_kept_whole_in_the_array_that_holds_the_bulk() -> None:
    rows = [{"id": n, "state": "failed" if n % 10 == 0 else "done"} for n in range(50)]
    found = filter_json({"total": 50, "rows": rows}, "failed")
    assert found.value == {"total": 50, "rows": rows[::10]}
    assert (found.kept, found.total) == (5, 50)


def test_json_records_are_those_of_the_bulk_wherever_it_lies_in_objects() -> None:
    rows = [{"id": n, "state": "failed" if n % 10 == 0 else "done"} for n in range(50)]
    found = filter_json({"took": 5, "hits": {"total": {"value": 50}, "hits": rows}}, "failed")
    assert found.value == {"took": 5, "hits": {"total": {"value": 50}, "hits": rows[::10]}}
    assert (found.kept, found.total) == (5, 50)


def test_json_branches_are_kept_when_there_is_no_bulk_array() -> None:
    found = filter_json({"network": {"mtu": 1500}, "disk": {"free": 3}, "cpu": {}}, "disk space")
    assert found.value == {"disk": {"free": 3}}


def test_escapes_in_json_do_not_glue_words_together() -> None:
    found = filter_json([{"t": "one\ntwo"}, {"t": "ntwo"}], "two")
    assert found.value == [{"t": "one\ntwo"}]


def test_the_note_tells_the_intent_and_the_sections_and_the_rest_is_kept() -> None:
    rows = [{"id": n, "text": "needle" if n == 7 else "hay " * 8} for n in range(300)]
    store = ResultStore()
    answer = reduce_output(dump(rows), options=OutputOptions(intent="the needle"), store=store)
    assert json.loads(answer.text) == [rows[7]]
    assert answer.notes == [
        "[Filtered by intent: 'the needle' — 1/300 sections]",
        "Kept by shared words, not by a condition: filter in code for that.",
    ]
    assert answer.handle is not None
    assert store.load(answer.handle) == rows


def test_a_small_answer_is_not_filtered() -> None:
    text = "a needle\n\nhay\n\nhay"
    answer = reduce_output(text, options=OutputOptions(intent="needle"), store=ResultStore())
    assert answer.text == text


REVIEWS = [{"id": 1000 + n, "rating": n % 5 + 1, "review": f"Review {n}: fine"} for n in range(120)]


@pytest.mark.parametrize(
    ("intent", "kept"),
    [
        ("price below 20", 0),
        ("price > 7", 0),
        ("between $10 and 12.50", 0),
        ("Ann over 95", 30),
        ("price 20", 1),
    ],
)
def test_a_number_that_records_are_compared_with_does_not_decide(intent: str, kept: int) -> None:
    rows = [{"name": ("Ann", "Bob", "Eve", "Tom")[n % 4], "price": n} for n in range(120)]
    assert filter_json(rows, intent).kept == kept


@pytest.mark.parametrize(("intent", "kept"), [("review 77", 1), ("rating 5", 24), ("review rating", 0)])
def test_words_of_every_record_and_names_of_fields_do_not_decide(intent: str, kept: int) -> None:
    ratings = [row | {"review": f"Text {row['id']}"} for row in REVIEWS] if "5" in intent else REVIEWS
    assert filter_json(ratings, intent).kept == kept


def test_the_name_of_a_field_that_few_records_have_decides_where_nothing_else_does() -> None:
    rows = [{"id": n} | ({"failure": "x"} if n == 7 else {}) for n in range(50)]
    assert filter_json(rows, "failure").value == [rows[7]]


@pytest.mark.parametrize(
    ("intent", "says"), [("zebra", "matches none"), ("fine", "tells none from the others")]
)
def test_an_intent_that_leaves_nothing_out_is_noted(intent: str, says: str) -> None:
    answer = reduce_output(
        dump(REVIEWS),
        options=OutputOptions(intent=intent, table=False, auto_chunk_json=False),
        store=ResultStore(),
    )
    assert json.loads(answer.text) == REVIEWS
    assert answer.notes == [f"[Intent '{intent}': of 120 sections it {says}, so all are kept]"]
    assert answer.handle is None


def test_no_more_than_a_couple_of_dozen_words_are_looked_for() -> None:
    assert terms(" ".join(f"w{n}" for n in range(8000))) == [f"w{n}" for n in range(24)]
