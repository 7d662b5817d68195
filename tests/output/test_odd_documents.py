"""Documents with one odd thing in them: it alone is shown in its own way, and the answer tells."""

from typing import Any

import pytest

from gatemini.output.json.json_text import dump, parse_carefully
from gatemini.output.options import OutputOptions
from gatemini.output.pipeline import Reduced, reduce_output
from gatemini.output.store.results import ResultStore
from gatemini.text.utf8 import encode


@pytest.fixture
def store() -> ResultStore:
    return ResultStore()


def reduced(text: str, store: ResultStore, **made: Any) -> Reduced:
    return reduce_output(text, options=OutputOptions(**made), store=store)


def value_of(text: str) -> Any:
    """What a text says, whatever digits are in it."""
    parsed = parse_carefully(encode(text))
    assert parsed is not None
    return parsed.value


@pytest.mark.parametrize("value", [[], {}, [1, "a b"], {"a": [{"b": "c  d"}]}])
@pytest.mark.parametrize("space", [" ", "\n", "\r\n\t "])
def test_a_small_value_in_much_white_space_is_shown_whole(store: ResultStore, value: Any, space: str) -> None:
    for text in (
        space * 300_000 + dump(value),
        dump(value).replace("[", "[" + space * 200_000).replace("{", "{" + space * 200_000),
        dump(value) + space * 300_000,
    ):
        answer = reduced(text, store, max_chars=5000)
        assert answer.text == dump(value)
        assert answer.footer is not None


ODD = {
    "nested as deeply as a value may be": '{"id":9000,"name":"needle deep","d":'
    + "[" * 400
    + "7" * 300
    + "]" * 400
    + "}",
    "a number of 5,000 digits": '{"id":9000,"name":"needle deep","d":' + "7" * 5000 + "}",
    "a number beyond doubles": '{"id":9000,"name":"needle deep","d":1e400}',
}


@pytest.mark.parametrize("odd", list(ODD))
@pytest.mark.parametrize("count", [900, pytest.param(20_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("shape", ["[%s]", '{"total":1,"items":[%s]}', '{"x":{"y":1},"items":[[%s],[1]]}'])
@pytest.mark.parametrize("intent", ["needle", None])
def test_one_odd_row_does_not_change_how_the_others_are_shown(
    store: ResultStore, odd: str, count: int, shape: str, intent: str | None
) -> None:
    rows = [
        dump({"id": n, "name": f"{'needle' if n % 50 == 0 else 'hay'} {n}", "d": 1}) for n in range(count)
    ]
    rows[100] = ODD[odd]
    text = shape % ",".join(rows)
    answer = reduced(text, store, intent=intent, table=False, chunk_threshold=200_000 if intent else 10_240)
    shown = value_of(answer.text)
    assert "truncated" not in answer.text
    if answer.text == text:  # nothing was left out
        return
    if intent and "[[" not in shape:
        kept = shown["items"] if isinstance(shown, dict) and "items" in shown else shown
        if isinstance(kept, dict):
            assert kept["total_rows"] == count // 50
            kept = kept["first_rows"]
        assert [row["id"] for row in kept[:4]] == [0, 50, 9000, 150]
        assert any(line.startswith("[Filtered by intent") for line in answer.notes)
    assert answer.handle is not None
    assert store.text(answer.handle) == text


def test_a_document_nested_deeper_than_parsers_go_is_cut_as_text_and_kept_whole(store: ResultStore) -> None:
    text = '{"a":' * 100_000 + "1" + "}" * 100_000
    answer = reduced(text, store, max_chars=1000)
    assert answer.text.startswith('{"a":{"a":')
    assert "truncated" in answer.text
    assert answer.handle is not None
    assert store.text(answer.handle) == text
