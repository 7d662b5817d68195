"""Rows too large for one page: their pieces joined are the row, and none is larger than it may be."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gatemini.output.json import lazy_json as lazy
from gatemini.output.json.json_text import dump, parse
from gatemini.output.store import row_index as rows_module
from gatemini.output.store.pages import PageRoom, Shown
from gatemini.output.store.results import ResultStore
from gatemini.text.utf8 import encode

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


def joined(pieces: list[Any]) -> Any:
    """The row of its pieces, or the one row there is."""
    if all(isinstance(piece, str) for piece in pieces):
        return "".join(pieces)
    if not any(isinstance(piece, dict) and "$piece" in piece for piece in pieces):
        return pieces[0]
    parsed = parse(encode("".join(piece["part"] for piece in pieces)))
    assert parsed is not None
    return parsed.value


def without_halves(name: str) -> str:
    """A name as paths show it: half a surrogate pair cannot be written as UTF-8."""
    return "".join("\ufffd" if "\ud800" <= each <= "\udfff" else each for each in name)


@given(value=values, most=st.integers(1024, 4000))
@example(value={"\ud800": [{}, {}, {}, {}]}, most=1024)
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
        rows = [joined(found[n]) for n in sorted(found)]
        keys_to_rows = rows_module.index_rows(encode(store.text(handle)), as_text=isinstance(value, str)).keys
    if isinstance(value, str):
        assert "\n".join(rows) == value.removesuffix("\n")
        return
    at: Any = value
    for key in keys_to_rows:
        at = next(below for name, below in at.items() if without_halves(name) == key)
    assert rows == (at if isinstance(at, list) else [at])


@pytest.mark.parametrize("value", [[{"t": "abcdefg" * 40_000}, 1], "abcdefg" * 40_000], ids=["json", "text"])
def test_secrets_are_taken_out_of_a_row_before_it_is_cut(value: Any) -> None:
    """A secret may have become known since the last piece was read."""
    store = ResultStore()
    handle = store.save(value)

    def told(shown: Shown | None) -> Any:
        pieces: list[Any] = []
        offset: Any = 0
        while isinstance(offset, str) or offset == 0:
            page = json.loads(store.read(handle, offset, shown)[1])
            pieces += page["rows"]
            offset = page["next_offset"]
        return joined(pieces)

    row = value if isinstance(value, str) else value[0]
    assert told(None) == row
    for instead in ("xééé", "éééx", "é😀x"):
        shown = told(lambda text, instead=instead: text.replace("abcdefg", instead))
        assert dump(shown) == dump(row).replace("abcdefg", instead)


def test_a_reply_leaves_room_for_the_text_around_its_rows() -> None:
    room = PageRoom.of_reply(32 << 20)
    assert room.row < 32 << 20
    assert room.piece == 1 << 20
    assert room.rows == 4 << 20


def test_an_object_with_thousands_of_keys_is_not_described_key_by_key() -> None:
    wide = {f"key{n}": {"value": n} for n in range(7_000)}
    index = rows_module.index_rows(json.dumps(wide).encode(), as_text=False)
    assert (index.total, index.schema, index.digest) == (1, "object", {})
