"""An intent keeps the same records of a document read in pieces as of one parsed at once."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemini.output import branches as branches_module
from gatemini.output import survey as survey_module
from gatemini.output.branches import read_tree
from gatemini.output.intent import Wanted, filter_json
from gatemini.output.jsontext import dump, encode, size
from gatemini.output.pipeline import OutputOptions, reduce_output
from gatemini.output.record_filter import SurveyFilter, TreeFilter
from gatemini.output.results import ResultStore
from gatemini.output.survey import NotSurveyed, at_keys, bulk_path, survey

words = st.sampled_from(
    ["red", "RED", "赤い花", "花red", "Éclair", "éclair", "İstanbul", "x red", "red\nline", "redder", '"},{"id":', "a\\b", "\u001bred", "", "7", 'red",']
)  # fmt: skip
scalars = st.one_of(words, st.integers(0, 99), st.booleans(), st.none())
inner = st.recursive(
    scalars,
    lambda more: st.one_of(st.lists(more, max_size=4), st.dictionaries(words, more, max_size=3)),
    max_leaves=6,
)
row = st.one_of(
    st.fixed_dictionaries(
        {"id": scalars, "tags": st.lists(st.fixed_dictionaries({"id": scalars}), max_size=3)}
    ),
    st.dictionaries(words, inner, max_size=3),
)
rows = st.one_of(
    st.lists(st.fixed_dictionaries({"id": scalars, "more": inner}), min_size=12, max_size=60),
    st.lists(row, min_size=12, max_size=60),
    st.lists(words, min_size=40, max_size=80),
    st.lists(st.integers(0, 99), min_size=60, max_size=99),
    st.lists(inner, min_size=30, max_size=60),
)
intents = st.sampled_from(
    ["red", "id", "赤い", "7", "Éclair", "istanbul", "red 7 id tags", "true null 7 8 9", "line"]
)


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents of a few hundred bytes are read as if they were of many megabytes."""
    for module in (survey_module, branches_module):
        monkeypatch.setattr(module, "LEAST_BATCH", 64)
    monkeypatch.setattr(survey_module, "WINDOW_BYTES", 32)
    monkeypatch.setattr(survey_module, "LITERAL_SHARE", 1)
    monkeypatch.setattr(branches_module, "PIECES", 1000)


@pytest.mark.usefixtures("small_batches")
class TestFilter:
    @given(rows=rows, wrapped=st.booleans(), intent=intents, indent=st.sampled_from([None, 1]))
    def test_records_of_a_long_array_are_those_kept_of_the_parsed_one(
        self, rows: list[Any], wrapped: bool, intent: str, indent: int | None
    ) -> None:
        value = {"of": 1, "rows": rows} if wrapped else rows
        arrays = SurveyFilter(Wanted(intent))
        try:
            found = survey(
                json.dumps(value, indent=indent, ensure_ascii=indent is None).encode(), arrays.visit
            )
        except NotSurveyed:
            return
        if [bulk.keys for bulk in found.bulks] != [("rows",)] * wrapped or [()] * (not wrapped):
            return
        _same(arrays.result(found), filter_json(value, intent))

    @given(
        value=st.one_of(
            rows,
            st.dictionaries(st.one_of(words, st.integers().map(str)), inner, min_size=8, max_size=60),
            st.fixed_dictionaries({"a": scalars, "rows": rows, "z": inner}),
            st.fixed_dictionaries({"a": scalars, "in": st.fixed_dictionaries({"of": inner, "rows": rows})}),
        ),
        intent=intents,
        indent=st.sampled_from([None, 1]),
    )
    def test_parts_of_a_tree_are_those_kept_of_the_parsed_one(
        self, value: Any, intent: str, indent: int | None
    ) -> None:
        data = encode(dump(value)) if indent is None else json.dumps(value, indent=indent).encode()
        members = TreeFilter(Wanted(intent), data)
        read_tree(data, members.enter)
        if isinstance(value, dict):
            # Which array holds the bulk is told by the bytes of the document as it stands, and of long ones only.
            bulk = bulk_path(value)
            if bulk and (indent is not None or size(at_keys(value, bulk)) < 200):
                return
        _same(members.result(), filter_json(value, intent))


def _same(found: Any, expected: Any) -> None:
    if expected is None:
        assert found is None
        return
    assert found is not None
    assert (found.kept, found.total) == (expected.kept, expected.total)
    assert json.loads(found.text) == expected.value


def test_records_with_more_digits_than_a_double_holds_are_kept_as_written() -> None:
    rows = ",".join(f'{{"id":{n},"n":0.1234567890123456789{n}}}' for n in range(30_000))
    found = survey(f"[{rows}]".encode(), (arrays := SurveyFilter(Wanted("29999"))).visit)
    kept = arrays.result(found)
    assert kept is not None
    assert kept.text == '[{"id":29999,"n":0.123456789012345678929999}]'


def test_an_empty_document_of_much_white_space_goes_out_as_what_it_is() -> None:
    for text in ("[" + " " * 300_000 + "]", "{" + "\n" * 300_000 + "}"):
        options = OutputOptions(intent="red")
        answer = reduce_output(text, is_json=True, options=options, store=ResultStore())
        assert len(answer.text) < 1000
