"""A long text inside JSON shows a useful piece, and the intent finds its lines."""

import base64
import json
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemini.output.describe_value import is_base64
from gatemini.output.intent import filter_text
from gatemini.output.json.json_text import dump, size
from gatemini.output.options import OutputOptions
from gatemini.output.passages import shown_pieces
from gatemini.output.pipeline import Reduced, reduce_output
from gatemini.output.store.results import ResultStore

LINES = [f"2026-01-01 line number {n}: something happened" for n in range(5000)]
FILE = "\n".join(LINES[:2000])


def reduced(value: Any, intent: str | None = None, **options: Any) -> tuple[Reduced, Any]:
    text = dump(value)
    with closing(ResultStore()) as store:
        made = OutputOptions(intent=intent, **options)
        answer = reduce_output(text, options=made, store=store)
        assert answer.handle is not None
        assert store.text(answer.handle) == text
    return answer, json.loads(answer.text)


PLACES: list[tuple[str, Any]] = [
    ("content", lambda text: {"content": text}),
    ("a > b > content", lambda text: {"a": {"b": {"content": text, "size": 7}}}),
    ("[0]", lambda text: [text]),
    ("[0] > text", lambda text: [{"type": "text", "text": text}]),
    ("log", lambda text: {"rows": [{"id": n, "t": "ab " * 9} for n in range(4000)], "log": text, "n": 1}),
]


@pytest.mark.parametrize(("path", "around"), PLACES)
def test_of_a_file_in_json_its_first_and_last_lines_are_shown(path: str, around: Any) -> None:
    answer, seen = reduced(around(FILE))
    piece = seen["texts"][path]
    assert piece.startswith("\n".join(LINES[:20]))
    assert piece.endswith("\n".join(LINES[1990:2000]))
    assert "truncated — showing first" in piece
    assert size(piece) > 2048
    assert "Long texts are cut" in answer.notes[-1] or "rows: 4000 rows" in answer.notes[0]


@pytest.mark.parametrize(("path", "around"), PLACES[:4])
def test_the_intent_finds_the_lines_in_a_file_in_json_and_tells_where(path: str, around: Any) -> None:
    answer, seen = reduced(around(FILE), "line number 1321")
    part = "\n".join(LINES[1320:1330])
    assert seen == around(part)
    assert answer.notes == [f"[Filtered by intent: 'line number 1321' — 1/200 sections of {path}]"]


def test_every_long_text_is_filtered_by_itself() -> None:
    other = "\n".join(f"number {n}" for n in range(3000))
    files: list[Any] = [{"path": f"f{n}", "text": FILE} for n in range(3)]
    answer, seen = reduced({"files": [*files, {"path": "g", "text": other}], "note": "x"}, "number 77")
    found = ["\n".join(LINES[70:80])] * 3 + ["\n".join(f"number {n}" for n in range(70, 80))]
    assert [file["text"] for file in seen["files"]] == found
    assert seen["note"] == "x"
    assert [note.rpartition(" of ")[2] for note in answer.notes] == [
        f"files > [{n}] > text]" for n in range(4)
    ]


def test_words_in_every_part_do_not_count_for_an_intent() -> None:
    found = filter_text(FILE, "line number 1321")
    assert found.text == "\n".join(LINES[1320:1330])
    assert not filter_text(FILE, "line number").kept
    assert not filter_text(FILE, "line number nowhere").kept
    some = filter_text("a b\n\nb c\n\nc x", "b x y")
    assert not some.kept, "all match, and each word is missing somewhere: nothing tells"


def test_long_texts_in_few_objects_are_shown_by_their_beginnings() -> None:
    pages = [{"path": f"p{n}", "text": f"page {n} " + "word " * 600} for n in range(4)]
    _, seen = reduced({"pages": pages})
    assert [text[:6] for text in seen["texts"].values()] == [f"page {n}" for n in range(4)]
    assert list(seen["texts"]) == [f"pages > [{n}] > text" for n in range(4)]


def test_an_array_of_long_texts_shows_more_of_each_the_fewer_there_are() -> None:
    _, seen = reduced([f"text {n} " + "word " * 900 for n in range(6)])
    assert [len(text) for text in seen["first_rows"]] == [683] * 6


def test_a_small_budget_has_small_pieces_or_none() -> None:
    for limit in (3000, 1500, 600):
        answer, _ = reduced({"content": FILE}, max_chars=limit)
        assert len(answer.text) <= limit


awkward = st.text(
    st.sampled_from(["a", "\n", '"', "\\", "\x00", "ä", "漢", "😀", "\ud800", " "]), min_size=1, max_size=40
)


@given(
    texts=st.lists(st.tuples(awkward, st.integers(1, 2000)).map(lambda p: p[0] * p[1]), max_size=10),
    room=st.integers(0, 5000),
)
def test_pieces_fit_their_room_and_their_counts_are_those_of_the_whole(texts: list[str], room: int) -> None:
    pieces = shown_pieces(texts, room)
    assert sum(map(size, filter(None, pieces))) <= room
    for text, piece in zip(texts, pieces, strict=False):
        head, marker, tail = piece.partition("... [")
        if not marker:
            assert text.startswith(piece.removesuffix("…"))
            continue
        lines, kilobytes = tail.partition("KB truncated")[0].split(" lines / ")
        ending = tail.partition("] ...\n")[2]
        assert text.endswith(ending)
        # The line end before the marker is the text's own, or was added.
        heads = [shown for shown in (head, head.removesuffix("\n")) if text.startswith(shown)]
        cuts = [text[len(shown) : len(text) - len(ending)] for shown in heads]
        assert any(abs(int(lines) - cut.count("\n")) <= 1 for cut in cuts)
        assert any(
            abs(float(kilobytes) * 1024 - len(cut.encode("utf-8", "surrogatepass"))) < 60 for cut in cuts
        )


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("parts", [300, 8000])
def test_the_texts_of_a_document_are_filtered_once_whatever_its_size(parts: int, named: bool) -> None:
    content = "".join(f"# Part {n}\n\n{'some words of text here ' * 3}\n\n" for n in range(parts))
    document = dump({"path": "a.md", "content": content} if named else {"content": content})
    made = reduce_output(document, options=OutputOptions(intent="Part 77"), store=ResultStore())
    told = [note for note in made.notes if note.startswith("[Filtered")]
    branches = ["[Filtered by intent: 'Part 77' — 1/2 sections]"] if named else []
    assert told == [*branches, f"[Filtered by intent: 'Part 77' — {parts}/{2 * parts} sections of content]"]
    assert "some words" not in made.text


def test_base64_is_told_with_its_bytes_and_not_shown() -> None:
    data = base64.b64encode(bytes(range(256)) * 60).decode()
    answer, _ = reduced({"content": [{"type": "image", "data": data}], "n": 1})
    assert "base64 of 15,360 bytes" in answer.text
    assert data[:40] not in answer.text
    assert not is_base64("x" * 5000)
