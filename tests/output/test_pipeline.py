"""The pipeline by example: which stage runs when, and what the notes say."""

import json
import re
from typing import Any

import pytest
from msgspec import Raw

from gatemini.output.document_outline import outline
from gatemini.output.json.lazy_json import written
from gatemini.output.options import OutputOptions
from gatemini.output.pipeline import Reduced, reduce_output
from gatemini.output.store.results import ResultStore


@pytest.fixture
def store() -> ResultStore:
    return ResultStore()


def reduced(value: object, store: ResultStore, **options: object) -> Reduced:
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    made = OutputOptions(**options)  # type: ignore[arg-type]
    return reduce_output(text, options=made, store=store)


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


def test_an_array_inside_an_object_is_collapsed_in_place(store: ResultStore) -> None:
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


def test_a_key_missing_from_a_tenth_of_the_rows_is_allowed_and_named(store: ResultStore) -> None:
    rows = people(600)
    for row in rows[100:160]:
        del row["team"]
    shown = json.loads(reduced(rows, store).text)
    assert shown["missing_in_rows"] == {"team": 60}
    del rows[160]["team"]
    assert "total_rows" not in json.loads(reduced(rows, store).text)


@pytest.mark.parametrize("count", [3000, 200_000])
@pytest.mark.parametrize(
    ("item", "types", "digest"),
    [
        (lambda n: n * 7 - 5, "integer", lambda count: {"range": [-5, (count - 1) * 7 - 5]}),
        (lambda n: n / 2, "number", lambda count: {"range": [0, (count - 1) / 2]}),
        (lambda n: f"name {n:06}", "string", lambda count: {"range": ["name 000000", f"name {count - 1:06}"]}),
        (lambda n: n % 4 == 0, "boolean", lambda count: {"counts": {"false": count * 3 // 4, "true": count // 4}}),
        (
            lambda n: None if n % 4 else "yes, of course",
            "null|string",
            lambda count: {"counts": {"null": count * 3 // 4, "yes, of course": count // 4}, "nulls": count * 3 // 4},
        ),
    ],
)  # fmt: skip
def test_an_array_of_plain_values_becomes_count_type_first_values_and_range(
    store: ResultStore, item: Any, types: str, digest: Any, count: int
) -> None:
    values = [item(n) for n in range(count)]
    answer = reduced({"of": "a sensor", "values": values}, store)
    seen = json.loads(answer.text)
    assert seen["of"] == "a sensor"
    assert seen["values"]["total_rows"] == count
    assert seen["values"]["types"] == types
    assert seen["values"]["first_rows"] == values[: seen["values"]["shown_rows"]]
    assert seen["values"]["shown_rows"] == 20
    assert seen["values"]["digest"] == digest(count)
    assert f"values: {count} rows, 20 shown" in answer.notes[0]


@pytest.mark.parametrize(
    "value",
    [
        [[n / 7 for n in range(1000)] for _ in range(40)],
        {f"series {n}": [{"id": m, "name": f"point {m}"} for m in range(300)] for n in range(60)},
        [["x" * 600, n] for n in range(4000)],
    ],
    ids=["matrix", "many arrays", "large rows, surveyed"],
)
def test_the_note_names_no_array_that_cannot_be_seen(store: ResultStore, value: Any) -> None:
    answer = reduced(value, store)
    told = re.findall(r"([^;(]+|\(root\)): (\d+) rows, (\d+) shown", answer.notes[0].partition("(")[2])
    seen = list(stand_ins(json.loads(answer.text)))
    for _, total, shown in told:
        assert {"total_rows": int(total), "shown_rows": int(shown)} in seen


def stand_ins(value: Any) -> Any:
    if isinstance(value, dict):
        if "shown_rows" in value:
            assert len(value["first_rows"]) == value["shown_rows"]
            yield {"total_rows": value["total_rows"], "shown_rows": value["shown_rows"]}
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from stand_ins(item)


def test_objects_with_differing_keys_are_summarised_by_number_keys_and_counts(
    store: ResultStore,
) -> None:
    rows = [
        {"at": n, "text": "w" * 90, **({"kind": "bot"} if n % 3 == 0 else {"user": f"u{n}"})}
        for n in range(300)
    ]
    shown = json.loads(reduced({"ok": True, "messages": rows}, store).text)["shown"]
    told = shown["messages"]
    assert shown["ok"] is True
    assert (told["total_rows"], told["shown_rows"], told["first_rows"]) == (300, 3, rows[:3])
    assert told["types"] == {"at": "integer", "text": "string", "kind": "string", "user": "string"}
    assert told["missing_in_rows"] == {"kind": 200, "user": 100}
    assert told["digest"]["counts"] == {"kind": {"bot": 100}}


def test_rows_without_identity_of_their_own_are_named_by_an_object_inside(store: ResultStore) -> None:
    rows = [{"metadata": {"name": f"pod-{n}"}, "spec": {"x": "y" * 50}} for n in range(200)]
    shown = json.loads(reduced({"items": rows}, store).text)["items"]
    assert shown["next_identities"]["key"] == "metadata.name"
    assert shown["next_identities"]["values"][0] == "pod-3"


def test_long_arrays_inside_the_first_rows_are_collapsed_too(store: ResultStore) -> None:
    rows = [{"id": n, "events": people(200)} for n in range(20)]
    shown = json.loads(reduced(rows, store).text)
    assert [row["events"]["total_rows"] for row in shown["first_rows"]] == [200, 200, 200]


def test_what_is_no_uniform_array_is_listed_by_key_path_with_size_and_small_branches_in_full(
    store: ResultStore,
) -> None:
    value = {
        "info": {"title": "T", "version": 1},
        "results": {"items": [[n, "x" * 500] for n in range(100)]},
        "blob": "y" * 9000,
    }
    answer = reduced(value, store)
    shown = json.loads(answer.text)
    assert shown["shown"]["info"] == {"title": "T", "version": 1}
    assert shown["chunks"]["results > items > [0-7]"] == "4.0KB, 8 arrays"
    assert shown["chunks"]["blob"].startswith("8.8KB, string: yyy")
    covered = sum(
        int(last) - int(first) + 1
        for first, last in re.findall(r"\[(\d+)-(\d+)\]", " ".join(shown["chunks"]))
    )
    assert covered == 100


def test_rows_that_are_arrays_are_summarised_like_those_with_differing_keys(store: ResultStore) -> None:
    cells = [["Name", "Team"], *([f"person {n}", "blue" if n % 2 else "red"] for n in range(900))]
    answer = reduced({"range": "A1:B901", "values": cells}, store)
    shown = json.loads(answer.text)["shown"]
    assert shown["range"] == "A1:B901"
    told = shown["values"]
    assert (told["total_rows"], told["shown_rows"], told["types"]) == (901, 3, "array")
    assert told["first_rows"] == cells[:3]
    mixed = json.loads(reduced([1, "x", None, {"a": 1}] * 2000, store).text)["shown"]
    assert (mixed["types"], mixed["first_rows"]) == ("integer|null|object|string", [1, "x", None])


def test_of_more_branches_than_are_listed_the_largest_are() -> None:
    value = {"kind": "list", "rows": [["y" * 100]] * 200, "more": True}
    made = outline(Raw(written(value)), max_chunks=2, shown_bytes=0)
    assert [chunk.text for chunk in made.chunks] == ["rows > [0-100]", "rows > [101-199]"]
    assert made.unlisted == 2


def test_an_empty_key_is_not_the_root(store: ResultStore) -> None:
    answer = reduced({"": [{"id": n, "name": "x" * 40} for n in range(400)]}, store)
    assert answer.notes[0].startswith('Arrays collapsed ("": 400 rows')


def test_a_branch_that_is_really_empty_is_shown_as_empty(store: ResultStore) -> None:
    shown = json.loads(reduced({"none": {}, "nil": [], "big": "x" * 20_000}, store).text)
    assert shown["shown"] == {"none": {}, "nil": []}


def test_a_document_with_more_chunks_than_are_listed_says_how_many_more(store: ResultStore) -> None:
    value = {f"k{n}": {"a": "x" * 300, "b": {"c": [1] * 300}} for n in range(500)}
    shown = json.loads(reduced(value, store).text)
    assert len(shown["chunks"]) <= 40


def test_text_is_cut_to_sixty_percent_head_and_forty_percent_tail_at_line_boundaries(
    store: ResultStore,
) -> None:
    lines = [f"line number {n}" for n in range(10_000)]
    answer = reduced("\n".join(lines), store, max_chars=2000)
    marker = next(line for line in answer.text.split("\n") if "truncated" in line)
    found = re.fullmatch(
        r"\.\.\. \[(\d+) lines / (\d+\.\d)KB truncated — showing first (\d+) \+ last (\d+) lines\] \.\.\.",
        marker,
    )
    assert found is not None
    cut, first, last = int(found[1]), int(found[3]), int(found[4])
    head, tail = answer.text.split(f"{marker}\n")
    assert head.rstrip("\n").split("\n") == lines[:first]
    assert tail.split("\n") == lines[-last:]
    assert cut + first + last == 10_000
    assert 0.55 < len(head) / (len(head) + len(tail)) < 0.65


def test_one_giant_line_is_cut_at_characters(store: ResultStore) -> None:
    answer = reduced("é" * 50_000, store, max_chars=1000)
    assert len(answer.text) <= 1000
    assert "truncated — showing first" in answer.text
    assert "characters] ..." in answer.text


def test_a_smaller_budget_shows_less_but_still_json(store: ResultStore) -> None:
    rows = [{"id": n, "text": "w " * 200} for n in range(500)]
    sizes = []
    for budget in (100_000, 1800, 1000, 300):
        answer = reduced(rows, store, max_chars=budget)
        assert json.loads(answer.text)["total_rows"] == 500
        assert len(answer.text) + sum(map(len, answer.notes)) <= budget
        sizes.append(len(answer.text))
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (lambda n: people(n), "array of {n} items"),
        (lambda n: {"items": people(n), "total": n}, "object of 2 keys"),
        (lambda n: {f"person {k}": {"name": "x" * 60} for k in range(n)}, "object of {n} keys"),
        (lambda n: [["x" * 30, [k] * 9] for k in range(n)], "array of {n} items"),
    ],
)
def test_a_budget_of_a_dozen_words_tells_what_the_document_is(
    store: ResultStore, value: Any, what: str
) -> None:
    count = 500
    answer = reduced(value(count), store, max_chars=100)
    assert json.loads(answer.text)["$reduced"].startswith(what.format(n=count))
    assert len(answer.text) + sum(len(line) + 1 for line in answer.notes) <= 100
    assert answer.handle is not None
    assert store.load(answer.handle) == value(count)


def test_a_token_budget_cuts_fields_before_rows_and_says_what(store: ResultStore) -> None:
    rows = [{"id": n, "name": f"n{n}", "body": "b" * 300, "extra": "e" * 30} for n in range(100)]
    made = json.loads(reduced({"rows": rows, "page": 1}, store, budget_tokens=2000).text)
    assert made["page"] == 1
    told = made["rows"]
    assert told["dropped_fields"] == ["body"]
    assert told["rows"] == [{k: row[k] for k in ("id", "name", "extra")} for row in rows]
    assert (told["total_rows"], told["returned_rows"], told["truncated"]) == (100, 100, False)
    tight = json.loads(reduced(rows, store, budget_tokens=200).text)
    assert tight["dropped_fields"] == ["body", "extra", "name"]
    assert tight["truncated"]
    assert tight["rows"] == [{"id": n} for n in range(tight["returned_rows"])]


@pytest.mark.parametrize("tokens", range(100, 900, 50))
def test_sizes_and_counts_within_a_token_budget_are_those_of_the_whole(
    store: ResultStore, tokens: int
) -> None:
    rows = [{"id": n, **{f"field_number_{f}": "x" * 20 for f in range(40)}} for n in range(100)]
    answer = reduced({"took": 5, "hits": {"total": 100, "hits": rows}}, store, budget_tokens=tokens)
    shown = json.loads(answer.text)
    if "$reduced" in shown:  # no room for rows
        assert "KB" in answer.text
        assert sum(map(float, re.findall(r"([0-9.]+)KB", answer.text))) > 100
        return
    told = shown["hits"]["hits"]
    assert told["total_rows"] == 100
    if "dropped_fields" in told:
        assert len(told["rows"]) == told["returned_rows"] > 0
        assert set(told["dropped_fields"]) | set(told["rows"][0]) == set(rows[0])


def test_an_answer_within_the_token_budget_is_unchanged(store: ResultStore) -> None:
    rows = [{"id": n, "body": "b" * 300} for n in range(100)]
    answer = reduced(rows, store, budget_tokens=20_000, table=False)
    assert json.loads(answer.text) == rows


def test_white_space_in_json_is_removed_and_the_saving_is_noted(store: ResultStore) -> None:
    value = {"a": [[n] for n in range(400)]}
    answer = reduce_output(json.dumps(value, indent=4), options=OutputOptions(), store=store)
    assert answer.text == json.dumps(value, separators=(",", ":"))
    assert answer.footer is not None
    assert answer.footer.startswith("[Output: ")


def test_digits_are_shown_as_written_and_halves_of_characters_as_replaced(store: ResultStore) -> None:
    big = 12345678901234567890123
    for count, half, shown in (
        (300, "", ""),
        (40_000, "", ""),
        (300, "\\ud83d", "\\ufffd"),
        (40_000, "\\ud83d", "\\ufffd"),
    ):
        text = "[" + ",".join(f'{{"id":{big},"n":{n},"s":"{half}"}}' for n in range(count)) + "]"
        answer = reduce_output(text, options=OutputOptions(table=False), store=store)
        assert f'"first_rows":[{{"id":{big},"n":0,"s":"{shown}"}}' in answer.text
        assert answer.handle is not None
        assert store.text(answer.handle) == text


def test_duplicate_keys_are_reported_in_a_note(store: ResultStore) -> None:
    for count in (100, 1_000):
        text = (
            "["
            + ",".join(f'{{"id":{n},"v":"first","v":"last","pad":"{"x" * 120}"}}' for n in range(count))
            + "]"
        )
        answer = reduce_output(text, options=OutputOptions(), store=store)
        assert json.loads(answer.text)["first_rows"][0]["v"] == "last"
        assert f"{count} duplicate keys" in answer.notes[0]


@pytest.mark.parametrize("text", ["[NaN," + "1," * 9000 + "1]", "{" * 9000, "[" * 9000 + "]" * 8999])
def test_what_does_not_parse_is_treated_as_text(store: ResultStore, text: str) -> None:
    answer = reduced(text, store, max_chars=1000)
    assert answer.text.startswith(text[:100])
    assert "truncated" in answer.text


def test_when_nothing_can_be_kept_the_footer_says_so() -> None:
    answer = reduced(people(600), ResultStore(memory_bytes=10, disk_bytes=10))
    assert answer.handle is None
    assert answer.footer is not None
    assert "full result: not kept (" in answer.footer


def test_integer_like_keys_keep_their_order_and_their_values(store: ResultStore) -> None:
    value = {"10": "ten", "9": "nine", "01": "x", "rows": people(600)}
    shown = json.loads(reduced(value, store).text)
    assert list(shown) == ["10", "9", "01", "rows"]


@pytest.mark.long
def test_a_large_document_without_long_arrays_is_outlined_all_the_same(store: ResultStore) -> None:
    value = {
        "versions": {f"1.0.{n}": {"name": "pkg", "deps": {"a": "x" * 400}} for n in range(4000)},
        "latest": "1.0.9",
    }
    shown = json.loads(reduced(value, store).text)
    assert shown["shown"]["latest"] == "1.0.9"
    assert any(re.search(r"versions > 1\.0\.\d+ … 1\.0\.\d+ \(\d+ keys\)", path) for path in shown["chunks"])


def test_just_over_the_budget_an_answer_is_cut_only_when_that_makes_it_shorter_in_bytes_too(
    store: ResultStore,
) -> None:
    whole = 0
    for length in range(1001, 1300):
        answer = reduced("a" * length, store, max_chars=1000)
        whole += answer.footer is None
        assert answer.bytes_out <= length
        assert len(answer.text) <= 1000 or answer.bytes_out == length
    assert 0 < whole < 299
