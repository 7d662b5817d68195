"""Rows too large for one page: their pieces say all that the row says, and none is larger than it may be."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemini.output import lazy
from gatemini.output import rows as rows_module
from gatemini.output.jsontext import dump, encode, parse
from gatemini.output.pages import PageRoom
from gatemini.output.pieces import cut_json, cut_text
from gatemini.output.results import ResultStore
from gatemini.output.rows import Shown

SMALLEST = 24
"""Bytes of a piece, below which an escape would not fit."""

characters = st.one_of(
    st.characters(codec=None),
    st.sampled_from('"\\/\n\0\x7f\u2028é😀\ud83d\ude00\ud800\udfff' + "x" * 20),
)
texts = st.text(characters, max_size=200)
keys = st.one_of(
    st.sampled_from(["a", "b", "id", "", "ключ", "\ud800", 'q"k\\']), st.text(characters, max_size=9)
)
numbers = st.one_of(st.integers(-(2**80), 2**80), st.floats(allow_nan=False, allow_infinity=False))
values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(
        st.lists(inner, max_size=12),
        st.dictionaries(keys, inner, max_size=12),
        st.lists(st.dictionaries(st.sampled_from("abcd"), inner, max_size=4), max_size=12),
    ),
    max_leaves=40,
)


def written(value: Any, style: str) -> str:
    if style == "compact":
        return dump(value)
    return json.dumps(value, ensure_ascii=style == "escapes", indent=2 if style == "indented" else None)


def joined(pieces: list[dict[str, Any]]) -> Any:
    """The value that pieces were cut from, put together as the documentation says."""
    holder: list[Any] = [None]

    def place(path: list[Any], fresh: Any) -> tuple[Any, Any]:
        at: Any = holder
        steps = [0, *path]
        for step, following in zip(steps, [*steps[1:], None], strict=True):
            if following is None:
                if isinstance(at, list) and step == len(at):
                    at.append(None)
                if (at[step] if isinstance(at, list) else at.get(step)) is None:
                    at[step] = fresh
                return at, step
            if isinstance(at, list) and step == len(at):
                at.append(None)
            if (at[step] if isinstance(at, list) else at.get(step)) is None:
                at[step] = [] if isinstance(following, int) else {}
            at = at[step]
        raise AssertionError

    for piece in pieces:
        path = piece.get("path", [])
        if "json" in piece:
            key = "items" if piece["json"].startswith("[") else "members"
            piece = {**piece, key: json.loads(piece["json"])}
        if "members" in piece:
            at, last = place(path, {})
            at[last].update(piece["members"])
        elif "items" in piece:
            at, last = place(path, [])
            assert len(at[last]) == piece["first"]
            at[last] += piece["items"]
        elif "text" in piece:
            at, last = place(path, "")
            at[last] += piece["text"]
    return holder[0]


def parse_exactly(text: bytes) -> Any:
    found = parse(text)
    return json.loads(text) if found is None or not found.faithful else found.value


@given(values, st.integers(SMALLEST, 400), st.sampled_from(["compact", "escapes", "indented"]))
def test_pieces_put_together_are_the_row_and_none_is_larger_than_it_may_be(
    value: Any, most: int, style: str
) -> None:
    told = list(map(parse_exactly, cut_json(encode(written(value, style)), most)))
    for piece in told:
        [inside] = [piece[key] for key in ("members", "items", "text", "part") if key in piece]
        assert len(encode(dump(inside))) <= max(most, SMALLEST) + 2 or "part" in piece
    if any("part" in piece for piece in told):  # a number or the like that is longer than a piece
        return
    expected = json.loads(encode(dump(value)).decode())
    if expected == {} or expected == []:
        assert told in ([{"members": {}}], [{"items": [], "first": 0}])
    else:
        assert dump(joined(told)) == dump(without_halves(expected))


def without_halves(value: Any) -> Any:
    """The value as it is shown: a half of a surrogate pair is no character."""
    return json.loads(re.sub("[\ud800-\udfff]", "\ufffd", json.dumps(value, ensure_ascii=False)))


@given(texts.map(lambda text: text * 9), st.integers(SMALLEST, 300))
def test_pieces_of_a_line_are_the_line_byte_for_byte_and_whole_characters(line: str, most: int) -> None:
    pieces = cut_text(line, most)
    assert "".join(pieces) == line
    assert all(len(encode(piece)) <= most for piece in pieces)


@pytest.mark.parametrize("shape", ["one huge string", "a million levels", "a huge number", "a huge key"])
def test_what_cannot_be_cut_by_its_structure_comes_as_parts_of_its_text(shape: str) -> None:
    text = {
        "one huge string": '{"a":"' + "\\ud83d\\ude00" * 500 + '"}',
        "a million levels": "[" * 100_000 + "]" * 100_000,
        "a huge number": '{"n":' + "7" * 5000 + "}",
        "a huge key": '{"' + "k" * 5000 + '":1}',
    }[shape]
    told = [json.loads(piece) for piece in cut_json(text.encode(), 1000)]
    if shape == "one huge string":
        assert "".join(piece["text"] for piece in told) == "😀" * 500
    else:
        inner = "".join(piece["part"] for piece in told)
        assert inner in text
        assert len(text) - len(inner) <= 32


@given(value=values, most=st.integers(1024, 4000))
def test_following_next_offset_gives_every_row_and_no_page_is_too_large(value: Any, most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_module, "ROW_BYTES", 60)
        patch.setattr(lazy, "BATCH_BYTES", 100)
        store = ResultStore()
        handle = store.save(value)
        found: dict[int, Any] = {}
        offset: Any = 0
        while offset is not None:
            page = store.chunk(handle, offset, most=most)
            assert len(encode(dump(page))) <= most
            first = int(str(page["offset"]).partition(":")[0])
            if "pieces" in page:
                found.setdefault(first, []).append(page["rows"][0])
            else:
                found |= {first + n: [row] for n, row in enumerate(page["rows"])}
            assert page["next_offset"] != offset
            offset = page["next_offset"]
        assert sorted(found) == list(range(page["total_rows"]))
        rows = [_row(found[n]) for n in sorted(found)]
        keys_to_rows = rows_module.index_rows(encode(store.text(handle)), as_text=isinstance(value, str)).keys
    if isinstance(value, str):
        assert "\n".join(rows) == value.removesuffix("\n")
    elif not any(row is PARTS for row in rows):
        at: Any = value
        for key in keys_to_rows:
            at = at[key]
        expected = at if isinstance(at, list) else [at]
        halves = [dump(without_halves(row)) for row in rows]
        assert halves == [dump(without_halves(row)) for row in expected]


PARTS = object()
"""Stands for a row that came in parts of its text."""


def _row(pieces: list[Any]) -> Any:
    if all(isinstance(piece, str) for piece in pieces) or not all(
        isinstance(piece, dict) and "$piece" in piece for piece in pieces
    ):
        return "".join(pieces) if len(pieces) > 1 else pieces[0]
    return PARTS if any("part" in piece for piece in pieces) else joined(pieces)


@pytest.mark.parametrize("value", [[{"t": "abcdefg" * 40_000}, 1], "abcdefg" * 40_000], ids=["json", "text"])
def test_pieces_are_cut_where_the_text_shown_now_can_be_cut(value: Any) -> None:
    """As many bytes as before do not make it the same text: a secret may have become known in between."""
    store = ResultStore()
    handle = store.save(value)

    def told(shown: Shown | None) -> list[Any]:
        pieces: list[Any] = []
        offset: Any = 0
        while isinstance(offset, str) or offset == 0:
            page = json.loads(store.read(handle, offset, shown)[1])
            pieces += page["rows"]
            offset = page["next_offset"]
        if isinstance(value, str):
            return ["".join(pieces)]
        return [joined(pieces)]

    row = value if isinstance(value, str) else value[0]
    for instead in ("xééé", "éééx", "é😀x"):
        assert len(encode(instead)) == len("abcdefg")
        assert told(None) == [row]
        assert told(lambda text, instead=instead: text.replace("abcdefg", instead)) == [
            json.loads(dump(row).replace("abcdefg", instead))
        ]


def test_a_reply_leaves_room_for_what_stands_around_its_rows() -> None:
    room = PageRoom.of_reply(32 << 20)
    assert room.row < 32 << 20
    assert room.piece == 1 << 20
    assert room.rows == 4 << 20
