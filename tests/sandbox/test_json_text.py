"""JSON text is judged piece by piece: what is found is the same wherever it was cut."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemini_sandbox import json_text
from gatemini_sandbox.json_text import deeper_than, keep_digits, pieces

JSON = st.recursive(
    st.text() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.none(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=40,
)


@contextmanager
def cut_at(size: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_text, "PIECE", size)
        yield


def depth_of(item: object) -> int:
    if isinstance(item, dict):
        return 1 + max((depth_of(child) for child in item.values()), default=0)
    return 1 + max((depth_of(child) for child in item), default=0) if isinstance(item, list) else 0


@given(JSON, st.integers(2, 40), st.booleans(), st.booleans())
def test_pieces_join_to_the_text_and_split_no_string_or_number(value, size, spaced, escaped):
    separators = (", ", ": ") if spaced else (",", ":")
    text = json.dumps(value, separators=separators, ensure_ascii=escaped).encode()
    whole = {m.span() for m in json_text._TOKEN.finditer(text)}
    with cut_at(size):
        cuts = list(pieces(text))
    assert cuts[0][0] == 0
    assert cuts[-1][1] == len(text)
    for (_, end), (start, _) in pairwise(cuts):
        assert end == start
        assert not any(a < end < b for a, b in whole), (text, end)
    assert all(end > start for start, end in cuts[:-1])


@given(JSON, st.integers(0, 6), st.integers(2, 40))
def test_depth_is_the_same_wherever_the_text_is_cut(value, limit, size):
    with cut_at(size):
        assert deeper_than(json.dumps(value).encode(), limit) == (depth_of(value) > limit)


@given(JSON, st.integers(2, 40))
def test_digits_are_the_same_wherever_the_text_is_cut(value, size):
    text = json.dumps(value).encode()
    with cut_at(size):
        in_pieces = keep_digits(text, [])
    assert in_pieces == keep_digits(text, [])


@pytest.mark.parametrize(
    "text", [b'["' + rb"\"" * 50, b'["a' + b"\\" * 33, b"[" + b"7" * 99, b'"' * 99, b"\\" * 60]
)
@pytest.mark.parametrize("size", [2, 3, 7, 16])
def test_text_that_is_no_json_is_split_to_its_end(text, size):
    with cut_at(size):
        assert "".join(text[start:end].decode() for start, end in pieces(text)) == text.decode()


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        (b"1", 0),
        (b"[]", 1),
        (b"[[1],[2]]", 2),
        (b'{"a":[{"b":"[[[["}]}', 3),
        (b'["\\"[[[["]', 1),
        (b"[" * 50 + b"]" * 50, 50),
    ],
)
def test_depth_is_measured_outside_strings(text, depth):
    assert not deeper_than(text, depth)
    if depth:
        assert deeper_than(text, depth - 1)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (b"9007199254740993", b'"9007199254740993"'),
        (b"9007199254740991", b"9007199254740991"),
        (b"-9007199254740993", b'"-9007199254740993"'),
        (b'{"a":12345678901234567890}', b'{"a":"12345678901234567890"}'),
        (b'{"a": 12345678901234567890 }', b'{"a": "12345678901234567890" }'),
        (
            b'["12345678901234567890, 12345678901234567890"]',
            b'["12345678901234567890, 12345678901234567890"]',
        ),
        (b"[12345678901234567890.5]", b"[12345678901234567890.5]"),
        (b"[1234567890123456789e3]", b"[1234567890123456789e3]"),
        (b'["\\"",12345678901234567890]', b'["\\"","12345678901234567890"]'),
    ],
)
def test_long_integers_become_strings(text, kept):
    assert keep_digits(text, []) == kept
