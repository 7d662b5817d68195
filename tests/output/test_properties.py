"""What holds for every input: nothing lost, nothing longer, nothing that says it is JSON and is not."""

import json
import re
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemini.output import survey as survey_module
from gatemini.output.json_reduce import FIRST_ROWS
from gatemini.output.jsontext import decode, dump, encode, parse
from gatemini.output.pipeline import OutputOptions, Reduced, reduce_output
from gatemini.output.results import ResultStore
from gatemini.output.survey import NotSurveyed, survey
from gatemini.output.truncate import truncate

LONGEST_FOOTER = 130
OFF = OutputOptions(
    max_chars=10, auto_chunk_json=False, smart_truncation=False, intent_filter=False, table=False, intent="a"
)

relaxed = settings(deadline=None)
"""Time is for the benchmarks; a busy machine must not fail a property."""

any_text = st.text(st.characters(codec=None), max_size=40)
"""With surrogates, which a Python string may hold."""
keys = st.one_of(
    st.sampled_from(["id", "name", "1", "007", "items", "", "a b", "naïve", "$reduced"]), any_text
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    any_text,
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=6), st.dictionaries(keys, inner, max_size=6)),
    max_leaves=25,
)


@st.composite
def documents(draw: st.DrawFn) -> Any:
    """Rows of one shape (some lacking a key), bare or wrapped, beside odd branches; sometimes anything."""
    row = draw(st.dictionaries(keys, values, min_size=1, max_size=5))
    rows = [dict(row, n=n) for n in range(draw(st.integers(0, 60)))]
    for n in draw(st.lists(st.integers(0, 59), max_size=4)):
        if n < len(rows):
            rows[n] = {"n": n}
    shape = draw(st.integers(0, 3))
    if shape == 0:
        return rows
    if shape == 1:
        return {"meta": draw(values), "items": rows, "total": len(rows)}
    if shape == 2:
        return {
            "deep": {"er": [{"rows": rows, "more": draw(values)}]},
            "pad": "x" * draw(st.integers(0, 20_000)),
        }
    return [draw(values), *[draw(values)] * draw(st.integers(0, 100))]


@st.composite
def options(draw: st.DrawFn) -> OutputOptions:
    return OutputOptions(
        max_chars=draw(st.sampled_from([0, 1, 60, 200, 1000, 5000, 200_000])),
        intent=draw(st.sampled_from([None, "", "name 7", "n total rows of the items", "…"])),
        table_threshold=draw(st.sampled_from([0, 200, 2048])),
        chunk_threshold=draw(st.sampled_from([300, 1000, 10_240])),
        intent_threshold=draw(st.sampled_from([0, 500, 5000])),
        budget_tokens=draw(st.sampled_from([None, None, 50, 400])),
    )


def whole(answer: Reduced) -> str:
    return "\n".join([answer.text, *answer.notes, *([answer.footer] if answer.footer else [])])


def check(text: str, answer: Reduced, store: ResultStore, made: OutputOptions) -> None:
    assert len(whole(answer)) <= max(len(text), 0) or answer.text == text
    assert len(encode(whole(answer))) <= len(encode(text))
    assert len(whole(answer)) <= made.limit + LONGEST_FOOTER
    assert answer.bytes_in == len(encode(text))
    assert answer.bytes_out == len(encode(whole(answer)))
    if answer.text != text and answer.footer is not None:
        assert answer.handle is not None
        assert answer.handle in answer.footer
        assert store.text(answer.handle) == text
    if answer.text == text:
        assert not answer.notes
        assert answer.footer is None


@relaxed
@given(documents(), options())
def test_json_answers_keep_within_budget_and_input_and_lose_nothing(value: Any, made: OutputOptions) -> None:
    store, text = ResultStore(), dump(value)
    check(text, reduce_output(text, is_json=True, options=made, store=store), store, made)


@relaxed
@given(st.text(st.characters(codec=None)), st.integers(1, 400), options())
def test_text_answers_keep_within_budget_and_input_and_lose_nothing(
    line: str, times: int, made: OutputOptions
) -> None:
    store, text = ResultStore(), "\n".join(f"{line} {n}" for n in range(times))
    check(text, reduce_output(text, is_json=False, options=made, store=store), store, made)


@relaxed
@given(documents(), options())
def test_json_stays_json_unless_the_notes_say_table_or_the_text_says_truncated(
    value: Any, made: OutputOptions
) -> None:
    made = OutputOptions(
        intent=made.intent,
        table_threshold=made.table_threshold,
        chunk_threshold=made.chunk_threshold,
        intent_threshold=made.intent_threshold,
    )
    answer = reduce_output(dump(value), is_json=True, options=made, store=ResultStore())
    if not any(line.startswith("Table of") for line in answer.notes):
        json.loads(answer.text)


def collapsed(value: Any) -> Any:
    """Every object in `value` that stands for an array."""
    if isinstance(value, list):
        for item in value:
            yield from collapsed(item)
    if isinstance(value, dict):
        if "total_rows" in value and "first_rows" in value:
            yield value
        for item in value.values():
            yield from collapsed(item)


@relaxed
@given(st.integers(5, 400), st.integers(0, 30), st.integers(1, 4))
def test_counts_told_equal_counts_dropped(rows: int, lacking: int, depth: int) -> None:
    table = [{"id": n, "text": "word " * 9, **({} if n < lacking else {"extra": n})} for n in range(rows)]
    value: Any = table
    for level in range(depth):
        value = {f"level{level}": value, "other": level}
    answer = reduce_output(
        dump(value),
        is_json=True,
        options=OutputOptions(chunk_threshold=1000, table=False),
        store=ResultStore(),
    )
    for found in collapsed(json.loads(answer.text)):
        assert found["total_rows"] == rows
        assert found["first_rows"] == table[: found["shown_rows"]]
        assert len(found["first_rows"]) == found["shown_rows"] == min(rows, FIRST_ROWS)
        assert found.get("missing_in_rows", {}) == ({"extra": lacking} if lacking else {})
        listed = found["next_identities"]["values"]
        assert listed == [row["id"] for row in table[FIRST_ROWS : FIRST_ROWS + len(listed)]]
        assert len(listed) == min(20, rows - FIRST_ROWS)


@relaxed
@given(documents())
def test_stages_switched_off_really_are_off(value: Any) -> None:
    text = dump(value)
    answer = reduce_output(text, is_json=True, options=OFF, store=ResultStore())
    assert answer.text == text


@relaxed
@given(st.text(max_size=2000))
def test_small_input_goes_out_as_it_came_and_again(text: str) -> None:
    store = ResultStore()
    if len(encode(text)) > 2048:
        return
    once = reduce_output(text, is_json=False, options=OutputOptions(), store=store)
    assert once.text == text
    assert reduce_output(once.text, is_json=False, options=OutputOptions(), store=store) == once
    assert store.list() == []


@relaxed
@given(documents(), options())
def test_a_reduced_answer_reduced_again_stays_within_the_same_budget_and_parses(
    value: Any, made: OutputOptions
) -> None:
    store = ResultStore()
    once = reduce_output(dump(value), is_json=True, options=made, store=store)
    again = reduce_output(once.text, is_json=True, options=made, store=store)
    assert len(encode(again.text)) <= len(encode(once.text))


@relaxed
@given(st.text(st.characters(), max_size=3000), st.integers(0, 3000))
def test_truncation_shows_an_exact_head_and_tail_within_its_budget(text: str, budget: int) -> None:
    made = truncate(text, budget)
    assert len(made.text) <= max(budget, 0) or len(text) <= budget
    assert text.startswith(made.head)
    assert text.endswith(made.tail)
    assert len(made.head) + len(made.tail) <= len(text)


@relaxed
@given(
    st.lists(
        st.sampled_from(['\\"', "\\\\", "\\u00e9", "\\ud83d\\ude00", "a", "\\n", "é", "😀"]), min_size=40
    ),
    st.data(),
)
def test_a_cut_never_falls_into_a_json_escape(parts: list[str], data: st.DataObject) -> None:
    inside = "".join(parts)
    made = truncate('"' + inside + '"', data.draw(st.integers(90, max(91, len(inside)))))
    if made.tail:
        assert json.loads(made.head + '"') is not None
        assert json.loads('"' + made.tail) is not None
        assert not re.search("[\ud800-\udbff]$", json.loads(made.head + '"'))


@relaxed
@given(documents())
def test_text_that_is_not_json_is_only_ever_cut(value: Any) -> None:
    text = dump(value) + "}"
    answer = reduce_output(
        text, is_json=False, options=OutputOptions(chunk_threshold=100), store=ResultStore()
    )
    assert answer.text == text
    assert not answer.notes


@relaxed
@given(values)
def test_parse_gives_back_what_dump_wrote(value: Any) -> None:
    parsed = parse(dump(value).encode())
    assert parsed is not None
    assert parsed.value == value
    assert parsed.faithful


@relaxed
@given(st.text(st.characters(codec=None)))
def test_bytes_and_text_are_one(text: str) -> None:
    assert decode(encode(text)) == text


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Survey documents of a few kilobytes as if they were of many megabytes."""
    monkeypatch.setattr(survey_module, "BATCH_BYTES", 300)
    monkeypatch.setattr(survey_module, "WINDOW_BYTES", 100)


@pytest.mark.usefixtures("small_batches")
class TestSurvey:
    """A document read in pieces says the same as one parsed at once."""

    @relaxed
    @given(value=documents(), indent=st.sampled_from([None, 1]))
    def test_rows_read_by_batch_are_the_rows_of_the_document(self, value: Any, indent: int | None) -> None:
        data = json.dumps(value, indent=indent).encode()
        try:
            found = survey(data)
        except NotSurveyed:
            return
        for bulk in found.bulks:
            rows: list[Any] = []
            for batch in bulk.batches:
                assert batch.first == len(rows)
                rows += json.loads(b"[" + data[batch.start : batch.end] + b"]")
                assert len(rows) == batch.first + batch.count
            inside = value
            for key in bulk.keys:
                inside = inside[key]
            assert rows == inside
            assert bulk.head == inside[: len(bulk.head)]
            assert bulk.summary.total == len(inside)
        assert found.filled([[] for _ in found.bulks]) == _emptied(value, [bulk.keys for bulk in found.bulks])

    @relaxed
    @given(value=documents(), cut=st.integers(1, 500))
    def test_half_a_document_is_never_surveyed(self, value: Any, cut: int) -> None:
        data = json.dumps(value).encode()[:-cut]
        if parse(data) is None:
            with pytest.raises(NotSurveyed):
                survey(data)


def _emptied(value: Any, paths: list[tuple[str, ...]]) -> Any:
    for path in paths:
        value = _emptied_at(value, path)
    return value


def _emptied_at(value: Any, path: tuple[str, ...]) -> Any:
    return [] if not path else {**value, path[0]: _emptied_at(value[path[0]], path[1:])}


def test_documents_nested_beyond_what_can_be_written_again_are_cut_as_text_and_kept_whole() -> None:
    for depth in (200, 254, 255, 600, 1000, 5000):
        text = '{"a":[' * depth + '"' + "x" * 4000 + '"' + "]}" * depth
        with closing(ResultStore()) as store:
            reduced = reduce_output(text, is_json=True, options=OutputOptions(max_chars=2000), store=store)
            assert len(reduced.text) <= 2000
            assert reduced.handle is not None
            assert store.text(reduced.handle) == text
