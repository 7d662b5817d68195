"""The pipeline by example: which stage runs when, and what the reader is told."""

import json

import pytest

from gatemini.output.pipeline import OutputOptions, Reduced, reduce_output
from gatemini.output.results import ResultStore


@pytest.fixture
def store() -> ResultStore:
    return ResultStore()


def reduced(value: object, store: ResultStore, **options: object) -> Reduced:
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    made = OutputOptions(**options)  # type: ignore[arg-type]
    return reduce_output(text, is_json=not isinstance(value, str), options=made, store=store)


def people(count: int) -> list[dict[str, object]]:
    return [
        {"id": n, "name": f"person {n}", "score": n / 2, "team": "red" if n % 3 else "blue"}
        for n in range(count)
    ]


def test_a_small_answer_goes_out_byte_for_byte(store: ResultStore) -> None:
    assert reduced({"a": 1}, store) == Reduced('{"a":1}', bytes_in=7, bytes_out=7)
    assert store.list() == []


def test_a_large_uniform_array_becomes_count_types_first_rows_and_identities(store: ResultStore) -> None:
    answer = reduced(people(600), store)
    shown = json.loads(answer.text)
    assert shown["total_rows"] == 600
    assert shown["first_rows"] == people(3)
    assert shown["types"] == {"id": "integer", "name": "string", "score": "number", "team": "string"}
    assert shown["next_identities"] == {"key": "id", "values": list(range(3, 23))}
    assert shown["digest"]["counts"]["team"] == {"red": 400, "blue": 200}


def test_an_array_inside_an_object_is_collapsed_where_it_stands(store: ResultStore) -> None:
    shown = json.loads(reduced({"items": people(600), "total": 600}, store).text)
    assert shown["total"] == 600
    assert shown["items"]["total_rows"] == 600


def test_the_footer_names_a_handle_that_gives_the_whole_back(store: ResultStore) -> None:
    answer = reduced(people(600), store)
    assert answer.handle is not None
    assert answer.footer is not None
    assert answer.footer.endswith(f"full result: {answer.handle}]")
    assert store.load(answer.handle) == people(600)
    assert store.rows(answer.handle, 550, 1)["rows"] == [people(551)[550]]
