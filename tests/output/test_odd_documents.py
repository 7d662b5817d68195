"""Documents with one odd thing in them: it alone is shown in its own way, and the answer tells."""

from typing import Any

import pytest

from gatemini.output import pipeline
from gatemini.output.jsontext import dump, encode, parse
from gatemini.output.pipeline import OutputOptions, Reduced, reduce_output
from gatemini.output.results import ResultStore
from gatemini.piecewise import keys


@pytest.fixture
def store() -> ResultStore:
    return ResultStore()


def reduced(text: str, store: ResultStore, **made: Any) -> Reduced:
    return reduce_output(text, is_json=True, options=OutputOptions(**made), store=store)


def value_of(text: str) -> Any:
    """What a text says, whatever digits are in it."""
    parsed = parse(encode(text))
    assert parsed is not None
    return parsed.value


def test_a_doubled_key_of_a_large_object_is_told_wherever_its_values_lie(store: ResultStore) -> None:
    pad = "x" * 60
    members = [f'"key {n}":{{"n":{n},"pad":"{pad}"}}' for n in range(4000)]
    for first, second in ((0, 3999), (2000, 2001), (10, 2000), (3998, 3999)):
        doubled = [*members]
        doubled[second] = f'"key {first}":"last"'
        for joint in (",", ",\n  "):
            text = "{" + joint.join(doubled) + "}"
            assert len(text) > pipeline.WHOLE_BYTES
            for nested in (text, f'{{"a":1,"within":{text}}}'):
                answer = reduce_output(nested, is_json=True, options=OutputOptions(), store=store)
                assert "1 duplicate keys: only the last value of each is shown" in answer.notes
    answer = reduced("{" + ",".join(members) + "}", store)
    assert not any("duplicate" in line for line in answer.notes)


def test_a_doubled_key_is_found_among_more_keys_than_are_compared_together(
    store: ResultStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "SHARE", 1000)
    members = [f'"key {n}":{n}' for n in range(40_000)]
    for doubled in (True, False):
        text = "{" + ",".join([*members, '"key 17":0'] if doubled else members) + "}"
        told = [line for line in reduced(text, store).notes if "duplicate" in line]
        assert len(told) == doubled


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


DEEP = {
    "too deep to be written again": '{"id":9000,"name":"needle deep","d":'
    + "[" * 400
    + "7" * 300
    + "]" * 400
    + "}",
    "too deep for any parser": '{"id":9000,"name":"needle deep","d":'
    + '{"a":[' * 3000
    + "1"
    + "]}" * 3000
    + "}",
    "a number of 5,000 digits": '{"id":9000,"name":"needle deep","d":' + "7" * 5000 + "}",
    "a number beyond doubles": '{"id":9000,"name":"needle deep","d":1e400}',
}


@pytest.mark.parametrize("odd", list(DEEP))
@pytest.mark.parametrize("count", [900, 20_000])
@pytest.mark.parametrize("shape", ["[%s]", '{"total":1,"items":[%s]}', '{"x":{"y":1},"items":[[%s],[1]]}'])
@pytest.mark.parametrize("intent", ["needle", None])
def test_one_odd_row_is_shown_in_its_own_way_and_all_others_as_ever(
    store: ResultStore, odd: str, count: int, shape: str, intent: str | None
) -> None:
    rows = [
        dump({"id": n, "name": f"{'needle' if n % 50 == 0 else 'hay'} {n}", "d": 1}) for n in range(count)
    ]
    rows[100] = DEEP[odd]
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
        told = kept[2]["d"]
        if "digits" in odd:
            assert told == "7" * 5000
        elif "deep" in odd:
            assert "nested deeper than 250 levels" in dump(told)
    assert answer.handle is not None
    assert store.text(answer.handle) == text


def test_a_document_nested_too_deep_shows_its_first_levels_and_says_so(store: ResultStore) -> None:
    text = '{"a":' * 5000 + "1" + "}" * 5000
    answer = reduced(text, store, max_chars=1000)
    value_of(answer.text)
    assert "[nested deeper than 250 levels: 29.2KB, kept in full]" in answer.text
    assert answer.handle is not None
    assert store.text(answer.handle) == text
