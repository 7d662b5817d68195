"""Framing and decoding: any split of any bytes gives the same messages, and nothing raises."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemini.backends.transports.line_reader import LineReader
from gatemini.backends.wire import Broken, Frame, Piece, decode, encode, request_id

MEGABYTE = 1 << 20


def read(data: bytes, *, limit: int = MEGABYTE, step: int | None = None) -> tuple[list[Piece], LineReader]:
    reader = LineReader(limit)
    pieces: list[Piece] = []
    step = step or max(1, len(data))
    for start in range(0, len(data), step):
        pieces.extend(reader.feed(data[start : start + step]))
    pieces.extend(reader.end())
    return pieces, reader


def only(data: bytes) -> Frame:
    pieces = decode(data)
    assert len(pieces) == 1, pieces
    assert isinstance(pieces[0], Frame), pieces
    return pieces[0]


def result(text: str) -> bytes:
    return f'{{"jsonrpc":"2.0","id":1,"result":{text}}}'.encode()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@given(st.lists(json_values, min_size=1, max_size=5), st.integers(1, 40), st.sampled_from([b"\n", b"\r\n"]))
def test_any_split_of_the_stream_gives_the_same_messages(values: list[Any], step: int, ending: bytes) -> None:
    messages = [{"jsonrpc": "2.0", "id": i, "result": v} for i, v in enumerate(values)]
    data = ending.join(orjson.dumps(m) for m in messages)  # the last line has no ending
    pieces, reader = read(data, step=step)
    assert [p.message for p in pieces if isinstance(p, Frame)] == messages
    assert reader.skipped == 0


@given(
    st.lists(st.sampled_from([b"yes", b"", b"  ", b"{", b'{"jsonrpc":"2.0","id":1,"result":5}'])),
    st.integers(1, 30),
)
def test_any_split_of_the_stream_counts_the_same_junk(lines: list[bytes], step: int) -> None:
    data = b"".join(line + b"\n" for line in lines)
    pieces, reader = read(data, step=step)
    whole, at_once = read(data)
    assert (pieces, reader.skipped) == (whole, at_once.skipped)
    assert reader.skipped == sum(line in (b"yes", b"{") for line in lines)


@pytest.mark.parametrize("answer", [{"error": {"code": -32700, "message": "parse error"}}, {"result": {}}])
def test_an_answer_without_an_id_is_a_message(answer: dict[str, Any]) -> None:
    assert only(json.dumps({"jsonrpc": "2.0", **answer}).encode()).message == {"jsonrpc": "2.0", **answer}
    assert decode(json.dumps({"level": "error", **answer}).encode()) == []


@given(st.binary(max_size=300), st.integers(1, 50))
def test_no_bytes_make_the_reader_raise(data: bytes, step: int) -> None:
    assert read(data, step=step)[0] == read(data)[0]


def test_a_batch_gives_each_of_its_messages() -> None:
    batch = [{"jsonrpc": "2.0", "id": n, "result": n} for n in range(3)]
    pieces = decode(orjson.dumps([*batch, 5, None]))
    assert [p.message for p in pieces if isinstance(p, Frame)] == batch


@pytest.mark.parametrize(
    "line",
    [
        b'INFO sent: {"jsonrpc":"2.0","id":1,"result":5}',
        b'{"jsonrpc":"2.0","id":1,"result":5} <- sent',
        b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"result":5}',
        b'\x00\x00{"jsonrpc":"2.0","id":1,"result":5}\x00',
    ],
)
def test_a_message_is_found_beside_log_text_on_its_line(line: bytes) -> None:
    assert only(line).message["result"] == 5


def test_messages_glued_together_on_one_line_are_all_found() -> None:
    one = b'{"jsonrpc":"2.0","id":%d,"result":"}{"}'
    pieces = decode(one % 1 + one % 2 + one % 3)
    assert [p.message["id"] for p in pieces if isinstance(p, Frame)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"\ud800"', "\ufffd"),
        (r'"a\uDC00b"', "a\ufffdb"),
        (r'"\ud83d\ude00"', "😀"),
        (r'"\ud83d\ud83d\ude00"', "\ufffd😀"),
        (r'"\\ud800"', "\\ud800"),
        (r'"\\\ud800"', "\\\ufffd"),
        (r'{"\ud800":1}', {"\ufffd": 1}),
    ],
)
def test_half_surrogate_pairs_are_replaced_and_whole_ones_kept(text: str, value: Any) -> None:
    assert only(result(text)).message["result"] == value


@given(st.text(st.characters(codec=None), max_size=30))
def test_any_escaped_text_is_decoded_to_text_that_can_be_encoded(text: str) -> None:
    arrived = only(result(json.dumps(text))).message["result"]
    paired = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    assert arrived == re.sub("[\ud800-\udfff]", "\ufffd", paired)


def test_invalid_utf8_is_replaced_with_a_note() -> None:
    frame = only(b'{"jsonrpc":"2.0","id":1,"result":"caf\xe9"}')
    assert frame.message["result"] == "caf\ufffd"
    assert frame.notes == ("invalid UTF-8 was replaced",)


def test_integers_beyond_two_to_the_53_keep_their_digits_as_text() -> None:
    frame = only(result('{"a":9007199254740993,"b":[-12345678901234567890123],"c":9007199254740991,"d":1}'))
    assert frame.message["result"] == {
        "a": "9007199254740993",
        "b": ["-12345678901234567890123"],
        "c": 9007199254740991,
        "d": 1,
    }
    assert frame.notes == ("integers beyond 2^53 were kept as text",)


@given(st.integers(-(10**40), 10**40))
def test_every_integer_arrives_exact_or_as_its_digits(number: int) -> None:
    arrived = only(result(f"[{number}]")).message["result"][0]
    assert arrived == (number if abs(number) < 2**53 else str(number))


def test_long_digits_in_text_and_fractions_are_unchanged() -> None:
    frame = only(result('{"t":"1234567890123456789","f":0.12345678901234567,"e":1e300}'))
    assert frame.message["result"] == {"t": "1234567890123456789", "f": 0.12345678901234567, "e": 1e300}


def test_nan_infinity_and_raw_control_characters_are_read() -> None:
    frame = only(b'{"jsonrpc":"2.0","id":1,"result":{"n":NaN,"i":-Infinity,"t":"a\tb"}}')
    assert frame.message["result"] == {"n": None, "i": None, "t": "a\tb"}
    assert "NaN and Infinity were read as null" in frame.notes


@pytest.mark.parametrize("ident", ["head", "tail"])
def test_an_over_long_message_fails_by_its_id_and_the_next_one_is_read(ident: str) -> None:
    big = b'"result":{"id":99,"t":"' + b"x" * 5000 + b'"}'
    line = (
        b'{"jsonrpc":"2.0","id":7,' + big + b"}"
        if ident == "head"
        else b"{" + big + b',"jsonrpc":"2.0","id":7}'
    )
    data = line + b'\n{"jsonrpc":"2.0","id":8,"result":1}\n'
    for step in (1, 64, len(data)):
        pieces, _ = read(data, limit=1000, step=step)
        assert isinstance(pieces[0], Broken)
        assert (pieces[0].ident, pieces[0].too_large) == (7, True)
        assert pieces[1] == Frame({"jsonrpc": "2.0", "id": 8, "result": 1})


def test_an_over_long_line_keeps_no_more_than_the_limit_in_memory() -> None:
    reader = LineReader(10_000)
    for _ in range(1000):
        assert reader.feed(b"x" * 1000) == []
    assert sum(len(p) for p in reader._parts) + len(reader._tail) < 20_000


def test_a_reply_that_is_no_json_or_too_deep_is_named_by_its_id() -> None:
    broken = decode(b'{"jsonrpc":"2.0","id":5,"result":{oops}}')
    assert broken == [Broken("the answer is not valid JSON", 5)]
    deep = decode(b'{"jsonrpc":"2.0","id":6,"result":' + b"[" * 100_000 + b"]" * 100_000 + b"}")
    assert deep == [Broken("the answer is nested too deeply to be read", 6)]


def test_a_reply_without_result_or_error_is_named_by_its_id() -> None:
    assert decode(b'{"jsonrpc":"2.0","id":5}') == [Broken("the answer has neither a result nor an error", 5)]


def test_values_nested_beyond_the_recursion_limit_are_encoded():
    deep: Any = [1, {"b": None, "c": 'é"', "d": [[], {}], "e": 1.5}]
    for _ in range(3000):
        deep = [deep]
    written = encode({"x": deep, "y": 2**80})
    assert written == (
        b'{"x":'
        + b"[" * 3000
        + b'[1,{"b":null,"c":"\\u00e9\\"","d":[[],{}],"e":1.5}]'
        + b"]" * 3000
        + b',"y":1208925819614629174706176}'
    )


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (7, 7),
        ("7", 7),
        (7.0, 7),
        (7.5, None),
        (True, None),
        (None, None),
        ("seven", None),
        ("\u0667", None),
        ("9" * 16, None),
        (float("inf"), None),
        ([7], None),
    ],
)
def test_an_id_returned_as_text_or_float_is_recognised(given: object, meant: int | None) -> None:
    assert request_id(given) == meant
