"""Large JSON read in pieces is what it is when read at once: the same value, the same text, the same refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemini.backends import wire
from gatemini.backends.wire import Broken, Frame
from gatemini.chain.jsvalue import NotJson, dumps, loads, loads_piece
from gatemini.piecewise import cutting, reading, steps, strings
from gatemini.piecewise.reading import Reader, Written, read_document
from gatemini.piecewise.strings import NotInPieces, string_end, windows

WINDOW = 40
"""Bytes of a window here: a few escapes."""

KEYS = st.text(max_size=4) | st.sampled_from(["0", "1", "10", "01", "a", "b", "__proto__", "result"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=90)
    | st.text(alphabet='\\"u0d8\ud83d\ude00\n', max_size=90)
)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(KEYS, inner, max_size=9),
    max_leaves=40,
)
CONTAINERS = st.lists(TREES, min_size=1, max_size=9) | st.dictionaries(KEYS, TREES, min_size=1, max_size=9)
SCRAPS = (
    b'"\\ud800"',
    b'"\\udc00\\ud800 \\ud83d\\ude00"',
    b"NaN",
    b"-Infinity",
    b"1e400",
    b"12345678901234567890",
    b"-0.0",
    b"1e-7",
    b"100000000000000000000000.0",
    b'"\xff\xfe"',
    b'"\xf0\x9f\x98"',
    b'"tab\there"',
    b'{"a":1,"a":2}',
    b'{"a":[{"1":2,"0":3}],"0":0}',
    b"[[],{}]",
    b'"\\u0041\\\\u0041\\""',
    b"[1,2",
    b"]",
    b"1,,2",
    b'"unclosed',
    b"",
)
"""What real servers put between two commas, right or wrong."""


@pytest.fixture(autouse=True)
def small_pieces() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "BATCH_BYTES", 24)
        patch.setattr(reading, "SAMPLE_MEMBERS", 5)
        patch.setattr(steps, "STEP", 7)
        patch.setattr(strings, "WINDOW_BYTES", WINDOW)
        yield


def texts(value: Any, spaces: bool) -> str:
    """JSON with space around its members, or without any, and with as few escapes as possible."""
    separators = (" , ", " :\t") if spaces else (",", ":")
    text = json.dumps(value, ensure_ascii=False, separators=separators, allow_nan=False)
    halves = any("\ud800" <= sign <= "\udfff" for sign in text)
    return json.dumps(value, separators=separators, allow_nan=False) if halves else text


def load(data: bytes, guessed: bool) -> Any:
    return loads_piece(data, guessed)[0]


def whole(message: Any) -> Any:
    """The message with its structured content as a value."""
    result = message.get("result")
    structured = result.get("structuredContent") if isinstance(result, dict) else None
    if not isinstance(structured, Written):
        return message
    assert structured.text == dumps(structured.value())
    return {**message, "result": {**result, "structuredContent": structured.value()}}


def read_both_ways(line: bytes) -> tuple[list[Any], list[Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wire, "LARGE_BYTES", 0)
        pieces = wire.decode(line)
        patch.setattr(wire, "LARGE_BYTES", len(line))
        at_once = wire.decode(line)
    return pieces, at_once


@given(CONTAINERS, st.booleans())
def test_a_document_in_pieces_has_the_value_and_the_text_it_has_at_once(value: Any, spaces: bool) -> None:
    text = texts(value, spaces)
    expected, _ = loads(text)
    read, end = Reader(reading.encoded(text), load).value(0)
    assert (read, end) == (expected, len(reading.encoded(text)))
    assert read_document(text, load).text == dumps(expected)
    assert dumps(read) == dumps(expected), "members keep their order"


@given(st.lists(st.sampled_from(SCRAPS) | TREES.map(lambda v: texts(v, False).encode("utf-8", "replace"))))
def test_a_message_in_pieces_is_read_and_mended_as_at_once(scraps: list[bytes]) -> None:
    pairs = b",".join(b'"k%d":%s' % (n % 5, scrap) for n, scrap in enumerate(scraps))
    for body in (b"[" + b",".join(scraps) + b"]", b"{" + pairs + b"}"):
        for place in (b'"structuredContent":', b'"content":[],"structuredContent":', b'"content":'):
            line = b'{"jsonrpc":"2.0","id":7,"result":{' + place + body + b"}}"
            pieces, at_once = read_both_ways(line)
            assert [type(p) for p in pieces] == [type(p) for p in at_once], line
            for piece, other in zip(pieces, at_once, strict=True):
                if isinstance(piece, Broken):
                    assert piece == other
                    continue
                assert isinstance(piece, Frame)
                assert dumps(whole(piece.message)) == dumps(other.message), line
                assert sorted(piece.notes) == sorted(other.notes), line


@pytest.mark.parametrize(
    "text",
    [
        "[1,2,]",
        "[1 2]",
        "[1,2",
        '{"a":1,}',
        '{"a" 1}',
        '{"a":1}x',
        '["unclosed]',
        '["\\u12"]',
        "[" + "1," * 40 + "]",
        "[" + "[1]," * 40 + "x]",
        '{"a":"' + "\\" * 99 + '"}',
    ],
)
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(NotJson):
        loads(text)
    with pytest.raises(NotInPieces):
        read_document(text, load)


@given(st.text(alphabet='ab"\\\n\ud83d\ude00é😀', max_size=200))
def test_windows_of_a_string_cut_no_escape_no_pair_and_no_character(text: str) -> None:
    data = texts(text, False).encode()
    expected = loads(data)[0]
    found = list(windows(data + b',"next"', 0))
    assert [start for start, _ in found[1:]] == [end for _, end in found[:-1]]
    assert all(end - start <= WINDOW for start, end in found)
    parts = [loads(b'"' + data[start:end] + b'"')[0] for start, end in found]
    assert "".join(parts) == expected
    assert string_end(data, 0) == len(data)


@pytest.mark.parametrize("batch", [24, 8_000])
@pytest.mark.parametrize("depth", [20, 40, 900, 1_020, 1_021, 1_022, 1_500])
def test_a_value_nests_as_deeply_as_at_once(depth: int, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "BATCH_BYTES", batch)
    deep = b"[" * depth + b"]" * depth
    body = b'{"structuredContent":[' + deep + b",1" * 9_000 + b"]}"
    pieces, at_once = read_both_ways(b'{"jsonrpc":"2.0","id":7,"result":' + body + b"}")
    assert len(pieces) == len(at_once) == 1
    if isinstance(at_once[0], Broken):
        assert pieces == at_once
    else:
        assert dumps(whole(pieces[0].message)) == dumps(at_once[0].message)


def test_a_sample_tells_which_of_its_parts_go_on() -> None:
    text = dumps({"few": [1, 2], "many": list(range(99)), "long": "x" * 99, "end": {"a": 1}})
    written = read_document(text, load)
    sample = written.sample
    assert sample["few"] == [1, 2]
    assert sample["end"] == {"a": 1}
    assert 5 <= len(sample["many"]) < 99
    assert sample["long"] == "x" * WINDOW
    assert [key for key in sample if written.goes_on(sample[key])] == ["many", "long"]
    assert not written.goes_on(sample)


@pytest.mark.parametrize("inner", [list(range(99)), {"a": list(range(99))}, "é\n" * 99])
def test_the_only_member_can_be_taken_out(inner: Any) -> None:
    written = read_document(dumps({"result": inner}), load)
    taken = written.only("result")
    assert (taken.value() if isinstance(taken, Written) else taken) == inner
    assert written.only("other") is None
    assert read_document(dumps({"result": inner, "more": 1}), load).only("result") is None


def test_nothing_but_one_batch_is_held_of_a_written_value(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def counting(data: bytes, guessed: bool) -> Any:
        sizes.append(len(data))
        return load(data, guessed)

    read_document(dumps([{"id": n, "tags": ["a", "b"]} for n in range(500)]), counting)
    assert max(sizes) < 4 * reading.BATCH_BYTES


def test_the_end_of_a_giant_text_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []

    def noted(data: bytes, opening: int) -> int:
        looked.append(opening)
        return string_end(data, opening)

    monkeypatch.setattr(cutting, "string_end", noted)
    monkeypatch.setattr(reading, "BATCH_BYTES", 100_000)
    monkeypatch.setattr(strings, "WINDOW_BYTES", 100_000)
    text = json.dumps({"type": "text", "n": 1, "text": "x" * 1_000_000})
    assert read_document(text, lambda data, _guessed: json.loads(data)).text == text.replace(" ", "")
    assert looked == []
