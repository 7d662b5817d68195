"""What holds for every input: nothing lost, nothing longer but by a note, nothing that says it is JSON and is not."""

import json
import re
from contextlib import closing
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fixtures.documents import documents, options, values
from gatemini.output.collapsed_arrays import FIRST_ROWS
from gatemini.output.json import lazy_json as lazy
from gatemini.output.json.json_text import dump, parse
from gatemini.output.options import OutputOptions
from gatemini.output.pipeline import Reduced, reduce_output
from gatemini.output.store.results import ResultStore
from gatemini.text.size_limit import BOUNDLESS, SizeLimit
from gatemini.text.truncate import truncate
from gatemini.text.utf8 import decode, encode

LONGEST_FOOTER = 130
"""Time is for the benchmarks; a busy machine must not fail a property."""


def whole(answer: Reduced) -> str:
    return "\n".join([answer.text, *answer.notes, *([answer.footer] if answer.footer else [])])


def reduced(text: str, made: OutputOptions, store: ResultStore | None = None) -> Reduced:
    return reduce_output(text, options=made, store=ResultStore() if store is None else store)


texts = st.one_of(
    documents().map(dump),
    st.tuples(st.text(st.characters(codec=None)), st.integers(1, 400)).map(
        lambda drawn: "\n".join(f"{drawn[0]} {n}" for n in range(drawn[1]))
    ),
    st.tuples(st.sampled_from(["結果", "отчёт", "😀", "é a"]), st.integers(1, 400)).map(
        lambda drawn: "\n".join(f"{drawn[0] * (n % 30)} {n}" for n in range(drawn[1]))
    ),
)
"""JSON and plain text; the pipeline has nothing but the text to find out which it is."""


@given(texts, options())
def test_an_answer_is_never_longer_than_its_input_in_characters_or_bytes(
    text: str, made: OutputOptions
) -> None:
    found = reduced(text, made)
    # That an intent finds nothing is said even of a text that is shorter than the note.
    answer = whole(replace(found, notes=[note for note in found.notes if not note.startswith("[Intent '")]))
    assert len(encode(answer)) <= len(encode(text))
    if len(encode(text)) <= made.limit.bytes:  # else there may be fewer bytes in more characters
        assert len(answer) <= len(text)


@given(texts, options())
def test_an_answer_is_never_longer_than_its_budget_and_the_footer(text: str, made: OutputOptions) -> None:
    answer = reduced(text, made)
    limit = made.limit
    footer = len(answer.footer) + 1 if answer.footer else 0
    assert footer <= LONGEST_FOOTER
    if answer.text == text:  # perhaps the shortest there is
        footer = LONGEST_FOOTER
    assert len(whole(answer)) <= limit.chars + footer
    assert len(encode(whole(answer))) <= limit.bytes + footer


@given(texts, options())
def test_whatever_was_left_out_is_in_the_store_byte_for_byte(text: str, made: OutputOptions) -> None:
    store = ResultStore()
    answer = reduced(text, made, store)
    if answer.footer is None:
        assert store.list() == []
        assert answer.text == text or json.loads(answer.text) == json.loads(text) or is_table(answer)
    else:
        assert answer.handle is not None
        assert answer.footer.endswith(f"full result: {answer.handle}]")
        assert encode(store.text(answer.handle)) == encode(text)


@given(texts, options())
def test_the_reduction_counts_bytes_in_and_out_exactly(text: str, made: OutputOptions) -> None:
    answer = reduced(text, made)
    assert answer.bytes_in == len(encode(text))
    assert answer.bytes_out == len(encode(whole(answer)))


def is_table(answer: Reduced) -> bool:
    return any(line.startswith("Table of") for line in answer.notes)


@given(documents(), options())
def test_json_stays_json_unless_the_notes_say_table_or_the_text_ends_in_the_mark_of_a_cut(
    value: Any, made: OutputOptions
) -> None:
    answer = reduced(dump(value), made)
    marked = "truncated — showing" in answer.text or answer.text.endswith("…")
    if answer.text and not is_table(answer) and not marked:
        json.loads(answer.text)


@given(documents(), options())
def test_with_room_for_a_few_lines_json_is_never_cut_as_text(value: Any, made: OutputOptions) -> None:
    made = replace(made, max_chars=200_000, max_bytes=BOUNDLESS, budget_tokens=None)
    answer = reduced(dump(value), made)
    if not is_table(answer):
        json.loads(answer.text)


def collapsed(value: Any) -> Any:
    """Every object in `value` that summarises an array."""
    if isinstance(value, list):
        for item in value:
            yield from collapsed(item)
    if isinstance(value, dict):
        if "total_rows" in value and "first_rows" in value:
            yield value
        for item in value.values():
            yield from collapsed(item)


@given(st.integers(5, 400), st.integers(0, 30), st.integers(1, 4))
def test_the_counts_in_notes_equal_the_counts_dropped(rows: int, lacking: int, depth: int) -> None:
    table = [{"id": n, "text": "word " * 9, **({} if n < lacking else {"extra": n})} for n in range(rows)]
    value: Any = table
    for level in range(depth):
        value = {f"level{level}": value, "other": level}
    answer = reduce_output(
        dump(value),
        options=OutputOptions(chunk_threshold=1000, table=False),
        store=ResultStore(),
    )
    for found in collapsed(json.loads(answer.text)):
        assert found["total_rows"] == rows
        assert found["first_rows"] == table[: found["shown_rows"]]
        assert "chunks" not in found or lacking > rows * 0.1
        if lacking > rows * 0.1:  # too few of the rows have the key: the others are listed by key path
            assert found.get("missing_in_rows", {"extra": lacking}) == {"extra": lacking}
            continue
        assert len(found["first_rows"]) == found["shown_rows"] == min(rows, FIRST_ROWS)
        assert found.get("missing_in_rows", {}) == ({"extra": lacking} if lacking else {})
        listed = found["next_identities"]["values"]
        assert listed == [row["id"] for row in table[FIRST_ROWS : FIRST_ROWS + len(listed)]]
        assert len(listed) == min(20, rows - FIRST_ROWS)


@given(st.integers(31, 300), st.integers(1, 30), st.sampled_from(["needle", "needle hay", "hay"]))
def test_the_note_of_an_intent_counts_the_sections_kept_and_in_total(
    count: int, every: int, intent: str
) -> None:
    rows = [
        {"id": n, "text": f"{'needle' if n % every == 0 else 'hay'} {'word ' * 40}"} for n in range(count)
    ]
    answer = reduced(dump(rows), OutputOptions(intent=intent, auto_chunk_json=False, table=False))
    kept = json.loads(answer.text)
    told = [line for line in answer.notes if line.startswith("[Filtered")]
    if told:
        assert told == [f"[Filtered by intent: '{intent}' — {len(kept)}/{count} sections]"]
    else:
        assert kept == rows
    matching = [row for row in rows if any(word in row["text"] for word in intent.split())]
    assert kept == (matching or rows)


@given(st.integers(1, 400), st.integers(200, 3000))
def test_the_lines_noted_as_truncated_are_those_not_shown(count: int, budget: int) -> None:
    lines = [f"line number {n}" for n in range(count)]
    text = "\n".join(lines)
    made = OutputOptions(max_chars=budget)
    answer = reduced(text, made)
    if answer.text == text:
        return
    told = re.search(r"\[(\d+) lines / .* showing first (\d+) \+ last (\d+) lines\]", answer.text)
    assert told is not None
    cut, first, last = map(int, told.groups())
    shown = answer.text.split("\n")
    assert shown[:first] == lines[:first]
    assert shown[-last:] == lines[-last:]
    assert len(shown) == first + 1 + last
    assert cut == count - first - last


@given(
    st.lists(
        st.tuples(st.sampled_from(["x", "é", "😀", '\\"']), st.integers(0, 900)), min_size=1, max_size=12
    ),
    st.integers(200, 3000),
)
def test_a_cut_names_the_missing_lines_kilobytes_and_characters(
    lines: list[tuple[str, int]], budget: int
) -> None:
    text = "\n".join(sign * count for sign, count in lines)
    made = truncate(text, SizeLimit(budget))
    if made.text == text:
        return
    told = re.search(
        r"\[(\d+) lines / ([\d.]+)KB truncated — showing first (\d+) \+ last (\d+) (lines|characters)\]",
        made.text,
    )
    assert told is not None
    missing = text[len(made.head) : len(text) - len(made.tail)]
    assert made.head + missing + made.tail == text
    assert int(told[1]) == len(missing.split("\n")) - missing.endswith("\n")
    assert told[2] == f"{len(encode(missing)) / 1024:.1f}"
    if told[5] == "characters":
        assert (int(told[3]), int(told[4])) == (len(made.head), len(made.tail))
    else:
        whole_lines = [made.head.split("\n"), made.tail.split("\n")]
        assert [int(told[3]), int(told[4])] == [len(part) - (part[-1] == "") for part in whole_lines]


@given(st.integers(60, 400), st.integers(100, 900), st.booleans())
def test_the_rows_and_fields_noted_as_dropped_are_those_missing(
    count: int, tokens: int, wrapped: bool
) -> None:
    rows = [{"id": n, "name": f"name {n}", "text": "word " * 9} for n in range(count)]
    made = OutputOptions(budget_tokens=tokens, table=False)
    shown = json.loads(reduced(dump({"page": 1, "rows": rows} if wrapped else rows), made).text)
    told = shown["rows"] if wrapped else shown
    if not isinstance(told, dict) or "dropped_fields" not in told:
        return
    kept = [key for key in rows[0] if key not in told["dropped_fields"]]
    assert told["rows"] == [{key: row[key] for key in kept} for row in rows[: told["returned_rows"]]]
    assert (told["total_rows"], told["truncated"]) == (count, len(told["rows"]) < count)


@given(st.integers(20, 300), st.integers(300, 5000))
def test_keys_listed_by_path_and_keys_shown_are_all_the_keys(count: int, budget: int) -> None:
    value = {f"k{n}": [f"{n}", ["x" * 90, n]] for n in range(count)}
    answer = reduced(dump(value), OutputOptions(max_chars=budget, chunk_threshold=256))
    seen = json.loads(answer.text) if answer.text.startswith('{"$reduced":"small') else None
    if seen is None or "more_chunks" in seen:
        return
    grouped = [re.fullmatch(r"k\d+ … k\d+ \((\d+) keys\)", path) for path in seen["chunks"]]
    told = sum(int(found[1]) if found else 1 for found in grouped)
    assert told + len(seen.get("shown", {})) == count


SWITCHES = {
    "table": "Table of",
    "intent_filter": "[Filtered by intent",
    "auto_chunk_json": "$reduced",
    "smart_truncation": "truncated — showing",
}
"""What in an answer shows that a stage was at work."""


@given(
    st.one_of(
        documents().map(dump),
        st.integers(40, 300).map(lambda n: dump([{"id": k, "name": f"name {k}"} for k in range(n)])),
        st.integers(40, 300).map(lambda n: "\n\n".join(f"name {k} of it" for k in range(n))),
    ),
    options(),
    st.sets(st.sampled_from(list(SWITCHES))),
)
def test_a_stage_that_is_switched_off_does_not_run(text: str, made: OutputOptions, off: set[str]) -> None:
    answer = reduced(text, replace(made, **dict.fromkeys(off, False)))
    for stage in off:
        assert SWITCHES[stage] in text or SWITCHES[stage] not in whole(answer)
    if off == set(SWITCHES) and made.budget_tokens is None:
        assert answer.text == text


small = st.one_of(
    st.text(max_size=2000),
    st.tuples(documents(), st.sampled_from([None, 1, 4])).map(
        lambda drawn: json.dumps(drawn[0], indent=drawn[1])[:2048]
    ),
    st.tuples(st.integers(1, 30), st.sampled_from([None, 2])).map(
        lambda drawn: json.dumps([{"id": n, "name": f"name {n}"} for n in range(drawn[0])], indent=drawn[1])
    ),
    st.integers(1, 200).map(lambda count: "\n\n".join(["name 7"] * count)),
    st.sampled_from(
        [
            '{"a":1,"a":2}',
            "[1e400]",
            "[ ]",
            " {}\n",
            '{"n":1.0,"d":0.10000000000000000001}',
            "[" * 300 + "]" * 300,
        ]
    ),
)
"""Texts that every stage would find something to do with, were they larger."""


@given(small, st.sampled_from([None, "name 7"]))
def test_a_small_answer_is_unchanged_also_when_reduced_twice(text: str, intent: str | None) -> None:
    store = ResultStore()
    if len(encode(text)) > 2048:
        return
    made = OutputOptions(intent=intent)
    once = reduce_output(text, options=made, store=store)
    assert once == Reduced(text, bytes_in=len(encode(text)), bytes_out=len(encode(text)))
    assert reduce_output(once.text, options=made, store=store) == once
    assert store.list() == []


@given(documents(), options())
def test_a_reduced_answer_reduced_again_stays_within_the_same_budget_and_parses(
    value: Any, made: OutputOptions
) -> None:
    store = ResultStore()
    once = reduce_output(dump(value), options=made, store=store)
    again = reduce_output(once.text, options=made, store=store)
    assert len(encode(again.text)) <= len(encode(once.text))


@given(
    st.text(st.characters(codec=None), max_size=3000),
    st.builds(SizeLimit, st.integers(0, 3000), st.integers(0, 3000) | st.just(BOUNDLESS)),
)
def test_truncation_shows_an_exact_head_and_tail_within_its_budget(text: str, limit: SizeLimit) -> None:
    made = truncate(text, limit)
    assert limit.holds(made.text)
    assert len(made.text) <= limit.chars
    assert len(encode(made.text)) <= limit.bytes
    assert text.startswith(made.head)
    assert text.endswith(made.tail)
    assert len(made.head) + len(made.tail) <= len(text)


@given(
    st.lists(
        st.sampled_from(['\\"', "\\\\", "\\u00e9", "\\ud83d\\ude00", "a", "\\n", "é", "😀"]), min_size=40
    ),
    st.data(),
)
def test_a_cut_never_falls_into_a_json_escape(parts: list[str], data: st.DataObject) -> None:
    inside = "".join(parts)
    made = truncate('"' + inside + '"', SizeLimit(data.draw(st.integers(90, max(91, len(inside))))))
    if made.tail:
        assert json.loads(made.head + '"') is not None
        assert json.loads('"' + made.tail) is not None
        assert not re.search("[\ud800-\udbff]$", json.loads(made.head + '"'))


BROKEN = [
    "NaN", "-Infinity", "undefined", "'a'", "01", "1.", ".5", "+1", "0x1", "tru", "", "1 2", "[1,]", "{a:1}",
    '{"a" 1}', '{"a":}', '{"a":1,}', '"a\nb"', '"\\x"', '"\\u12"', '"a', "]", "1]", "// a\n1", "\x00",
]  # fmt: skip
"""What no JSON document may have in place of a value."""


@given(
    st.sampled_from(BROKEN),
    st.integers(2, 120),
    st.sampled_from(["[%s]", '{"total":9,"items":[%s]}', " [\n%s\n] "]),
    options(),
)
def test_no_stage_but_the_cut_runs_on_what_does_not_parse(
    instead: str, count: int, shape: str, made: OutputOptions
) -> None:
    rows = [f'{{"id":{n},"name":"name {n}","v":{instead if n == count // 2 else 1}}}' for n in range(count)]
    text = shape % ",\n ".join(rows)
    assert lazy.checked(encode(text)) is None
    store = ResultStore()
    answer = reduced(text, replace(made, intent=None), store)
    assert answer.notes == []
    if answer.text != text:
        assert answer.text == truncate(text, made.limit).text
        assert answer.handle is not None
        assert store.text(answer.handle) == text
        assert store.info(answer.handle)["kind"] == "text"


@given(
    st.lists(
        st.sampled_from(
            ["\ud83d\ude00", "\ud83d\ude00", "\ud83d\ude00", "\ud83d", "😀", "é", "a", '"', "\\"]
        ),
        min_size=250,
        max_size=400,
    ),
    st.booleans(),
    st.integers(100, 300),
)
def test_no_character_is_split_or_invented(parts: list[str], as_json: bool, budget: int) -> None:
    inside = "".join(parts)
    text = dump([[inside, {"k": inside[:9]}] for _ in range(12)]) if as_json else inside
    answer = reduced(text, OutputOptions(max_chars=budget))
    assert {c for c in whole(answer) if not c.isascii()} <= set(text) | set("…—")
    assert decode(encode(answer.text)) == answer.text
    shown = re.split(r"\n\.\.\. \[.*\] \.\.\.\n", answer.text)
    if len(shown) == 2:
        head, tail = shown
        for before, after in ((head, text[len(head) :]), (text[: len(text) - len(tail)], tail)):
            assert not re.search("[\ud800-\udbff]$", before) or not re.match("[\udc00-\udfff]", after)


def test_a_backslash_before_a_surrogate_pair_leaves_the_pair_whole() -> None:
    text = "\\\ud83d\ude00" * 200
    for budget in range(100, 140):
        made = truncate(text, SizeLimit(budget))
        assert not made.head.endswith("\ud83d")
        assert not made.tail.startswith("\ude00")


@given(values)
def test_parse_gives_back_what_dump_wrote(value: Any) -> None:
    parsed = parse(dump(value).encode())
    assert parsed is not None
    assert parsed.value == value
    assert parsed.faithful


@given(st.text(st.characters(codec=None)))
def test_decoding_encoded_text_gives_the_text(text: str) -> None:
    assert decode(encode(text)) == text


def test_deeply_nested_documents_are_shown_within_the_budget_and_kept_whole() -> None:
    for depth in (200, 254, 255, 600, 1000, 5000):
        text = '{"a":[' * depth + '"' + "x" * 4000 + '"' + "]}" * depth
        with closing(ResultStore()) as store:
            reduced = reduce_output(text, options=OutputOptions(max_chars=2000), store=store)
            assert len(reduced.text) <= 2000
            assert reduced.handle is not None
            assert store.text(reduced.handle) == text
