"""A table loses nothing: what its notes promise is enough to read every value and type back."""

import csv
import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gatemini.output.json.json_text import dump
from gatemini.output.options import OutputOptions
from gatemini.output.pipeline import reduce_output
from gatemini.output.store.results import ResultStore
from gatemini.output.table import as_table

ROOMY = 1_000_000


def split(line_text: str) -> list[list[tuple[str, bool]]]:
    """CSV into rows of (cell, was it quoted): the one thing Python's csv module forgets."""
    rows: list[list[tuple[str, bool]]] = [[]]
    at = 0
    while True:
        if line_text[at : at + 1] == '"':
            end = at + 1
            while not (line_text[end] == '"' and line_text[end + 1 : end + 2] != '"'):
                end += 2 if line_text[end] == '"' else 1
            rows[-1].append((line_text[at + 1 : end].replace('""', '"'), True))
            at = end + 1
            json_mark = line_text[at : at + 5] == ":json"
            if json_mark:
                rows[-1][-1] = (rows[-1][-1][0] + ":json", True)
                at += 5
        else:
            end = at
            while end < len(line_text) and line_text[end] not in ",\n":
                end += 1
            rows[-1].append((line_text[at:end], False))
            at = end
        if at >= len(line_text):
            return rows
        if line_text[at] == "\n":
            rows.append([])
        at += 1


def read_back(table: str) -> list[dict[str, Any]]:
    header, *lines = split(table)
    made = []
    for line in lines:
        row: dict[str, Any] = {}
        for (name, _), (cell, quoted) in zip(header, line, strict=True):
            if name.endswith(":json"):
                if cell:
                    row[name.removesuffix(":json")] = json.loads(cell)
            elif quoted:
                row[name] = cell
            elif cell:
                try:
                    row[name] = json.loads(cell)
                except ValueError:
                    row[name] = cell
        made.append(row)
    return made


tricky = st.sampled_from(
    [
        "",
        " ",
        "1",
        "-1.5",
        "+1",
        ".5",
        "1e9",
        "0x1",
        "true",
        "null",
        "NaN",
        "Infinity",
        "-",
        "a,b",
        'say "hi"',
        "a\nb",
        "[1]",
        "{}",
        " x",
        "x ",
        "é",
        "😀",
        "2024-01-01",
        "1st",
        "tab\there",
        "\ttab",
    ]
)
cells = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False), tricky,
    st.text(max_size=8),
)  # fmt: skip
names = st.one_of(
    st.sampled_from(["id", "a:b", "a,b", 'q"', "1", "x:json "]), st.text(min_size=1, max_size=5)
)


@given(st.data())
def test_every_value_and_type_can_be_read_back(data: st.DataObject) -> None:
    columns = data.draw(st.lists(names, min_size=1, max_size=5, unique=True))
    assume(not any(name.endswith(":json") for name in columns))
    rows = [
        {name: data.draw(cells) for name in columns} for _ in range(data.draw(st.integers(3, 8)))
    ]  # fmt: skip
    table = as_table(rows, limit=ROOMY)
    if table is not None:
        assert read_back(table) == rows
        assert [list(map(type, row.values())) for row in read_back(table)] == [
            list(map(type, row.values())) for row in rows
        ]


def test_a_missing_key_an_empty_string_and_null_stay_different() -> None:
    rows: list[dict[str, Any]] = [{"id": n, "v": n, "w": n} for n in range(20)]
    rows[1] = {"id": 1, "w": ""}
    rows[2]["v"] = None
    table = as_table(rows, limit=ROOMY)
    assert table is not None
    assert table.split("\n")[2:4] == ['1,,""', "2,null,2"]
    assert read_back(table) == rows


def test_a_column_of_small_containers_is_json_and_says_so() -> None:
    rows = [{"id": n, "a": 1, "b": 2, "tags": ["x", {"y": n}]} for n in range(5)]
    table = as_table(rows, limit=ROOMY)
    assert table is not None
    assert table.startswith("id,a,b,tags:json\n")
    assert read_back(table) == rows


def test_python_csv_reads_the_same_cells() -> None:
    rows = [{"id": n, "text": f'a "quoted", {n}'} for n in range(5)]
    table = as_table(rows, limit=ROOMY)
    assert table is not None
    assert list(csv.DictReader(table.split("\n"))) == [{"id": str(r["id"]), "text": r["text"]} for r in rows]


def test_rows_that_are_no_table_are_left_alone() -> None:
    flat = {"id": 1, "x": 2}
    assert as_table([flat, flat], limit=ROOMY) is None
    assert as_table([flat, flat, 3], limit=ROOMY) is None
    assert as_table([{"a": [1]}, {"a": [2]}, {"a": [3]}], limit=ROOMY) is None
    assert as_table([{f"k{n}": n} for n in range(9)], limit=ROOMY) is None
    assert as_table([{"bell": "\x07"}] * 5, limit=ROOMY) is None
    assert as_table([{"half": "\ud800"}] * 5, limit=ROOMY) is None
    assert as_table([flat] * 100, limit=100) is None


@pytest.mark.parametrize("path", [("items",), ("result", "page", "rows")])
def test_rows_inside_an_object_become_a_table_below_the_json_around_them(path: tuple[str, ...]) -> None:
    rows = [{"identifier": n, "quantity": n / 2, "code": str(n)} for n in range(90)]
    value: Any = rows
    for key in reversed(path):
        value = {"before": None, key: value, "total": 90}
    text = dump(value)
    answer = reduce_output(text, options=OutputOptions(), store=ResultStore())
    around, _, table = answer.text.partition("\n")
    place = json.loads(around)
    for key in path:
        assert (place["before"], place["total"]) == (None, 90)
        place = place[key]
    assert place == "$table"
    assert read_back(table) == rows
    assert [list(map(type, row.values())) for row in read_back(table)] == [
        list(map(type, row.values())) for row in rows
    ]
    assert len(answer.text) < len(text) * 0.75
    assert f"the table is the array at {' > '.join(path)}" in answer.notes[0]


def test_an_object_is_no_table_when_most_of_it_is_outside_the_array() -> None:
    rows = [{"identifier": n, "quantity": n} for n in range(60)]
    value = {"text": "word " * 600, "items": rows}
    answer = reduce_output(dump(value), options=OutputOptions(), store=ResultStore())
    assert answer.text == dump(value)


def test_a_table_goes_out_only_when_a_quarter_smaller_and_within_the_chunk_threshold() -> None:
    def answer(rows: list[dict[str, Any]]) -> str:
        return reduce_output(dump(rows), options=OutputOptions(), store=ResultStore()).text

    assert answer([{"identifier": n, "quantity": n} for n in range(150)]).startswith(
        "identifier,quantity\n0,0\n"
    )
    longer = [{"id": n, "note": f"some words of row {n}"} for n in range(100)]
    assert answer(longer).startswith("id,note\n0,some words of row 0\n")
    wide = [{"id": "x" * 100 + str(n)} for n in range(60)]
    assert answer(wide) == dump(wide)
    large = [{"identifier": n, "quantity": n} for n in range(3000)]
    assert json.loads(answer(large))["total_rows"] == 3000
