"""Hostile decoding: whatever a guest or a sandbox process says is either a message or a GuestFault."""

from __future__ import annotations

import contextlib
import json
import struct

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.guest import start
from gatemini_sandbox.errors import GuestFault
from gatemini_sandbox.guest_messages import (
    decode_console,
    decode_error,
    decode_outbox,
    decode_summary,
    encode_replies,
    outbox_head,
)
from gatemini_sandbox.limits import Limits
from gatemini_sandbox.messages import (
    Call,
    Calls,
    Done,
    ErrorInfo,
    Facts,
    Failed,
    Frames,
    Reply,
    Stepped,
    answer_of,
    encode_start,
    pack,
)

LIMITS = Limits()
GOOD = [1, "tool", "demo", "echo", False, {"a": 1}, []]


def outbox(**changes: object) -> bytes:
    return orjson.dumps({"state": 0, "open": 1, "wake": None, "calls": [GOOD], **changes})


def test_a_good_outbox_is_taken():
    decoded, calls = decode_outbox(outbox(wake=1.5), LIMITS, set())
    assert (decoded.state, decoded.open, decoded.wake) == (0, 1, 1.5)
    assert calls == [Call(1, "tool", "demo", "echo", False, b'{"a":1}', [])]


def test_arguments_with_broken_utf8_are_repaired_and_half_a_surrogate_pair_is_refused():
    _, calls = decode_outbox(outbox(calls=[[*GOOD[:5], "?", []]]).replace(b"?", b"\xff"), LIMITS, set())
    assert calls[0].text.decode() == '"\ufffd"'
    with pytest.raises(GuestFault):
        decode_outbox(outbox(calls=[[*GOOD[:5], "?", []]]).replace(b"?", b"\\ud800"), LIMITS, set())


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"nonsense",
        b"[]",
        b'{"state":0}',
        outbox(state=3),
        outbox(state=True),
        outbox(state="0"),
        outbox(open=-1),
        outbox(open=1.5),
        outbox(wake="soon"),
        outbox(wake=-1),
        outbox(wake=True),
        outbox(calls={}),
        outbox(calls=[[]]),
        outbox(calls=[GOOD[:-1]]),
        outbox(calls=[[True, *GOOD[1:]]]),
        outbox(calls=[[-1, *GOOD[1:]]]),
        outbox(calls=[["1", *GOOD[1:]]]),
        outbox(calls=[[1, "shell", *GOOD[2:]]]),
        outbox(calls=[[1, "tool", 5, *GOOD[3:]]]),
        outbox(calls=[[1, "tool", "demo", "x" * 200_000, False, {}, []]]),
        outbox(calls=[[1, "tool", "demo", "echo", 1, {}, []]]),
        outbox(calls=[[1, "tool", "demo", "echo", False, {}, ""]]),
        outbox(calls=[[1, "tool", "demo", "echo", False, {}, ["a"]]]),
        outbox(calls=[[1, "tool", "demo", "echo", False, {}, [[1.5]]]]),
        outbox(calls=[[*GOOD[:-1], 5]]),
        outbox(calls=[[*GOOD[:-1], "x" * 200_000]]),
        outbox(calls=[GOOD, GOOD]),
        outbox(calls=[None]),
        b'{"state":0,"open":1,"wake":null,"calls":' + b"[" * 5000 + b"]" * 5000 + b"}",
    ],
)
def test_a_bad_outbox_is_a_fault(bad):
    with pytest.raises(GuestFault):
        decode_outbox(bad, LIMITS, set())


def test_an_id_used_in_an_earlier_step_is_a_fault():
    known: set[int] = set()
    decode_outbox(outbox(), LIMITS, known)
    with pytest.raises(GuestFault, match="twice"):
        decode_outbox(outbox(), LIMITS, known)


def test_more_calls_than_the_limits_allow_is_a_fault():
    few = Limits(calls=2, other_messages=1)
    many = [[number, *GOOD[1:]] for number in range(4)]
    with pytest.raises(GuestFault):
        decode_outbox(outbox(calls=many), few, set())


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda c: st.lists(c) | st.dictionaries(st.text(), c),
    max_leaves=8,
)


@given(st.binary(max_size=200) | JSON_VALUES.map(lambda value: json.dumps(value).encode("utf-8", "replace")))
def test_decoding_any_bytes_gives_a_message_or_a_fault(raw):
    for decode in (lambda b: decode_outbox(b, LIMITS, set()), decode_summary, decode_error):
        with contextlib.suppress(GuestFault):
            decode(raw)


def test_an_error_of_wrong_types_keeps_what_fits():
    error, stack = decode_error(b'{"name":5,"message":"m","stack":[],"limit":{},"tool":1,"code":{"a":1}}')
    assert (error.name, error.message, error.limit, error.tool, error.code, stack) == (
        "Error",
        "m",
        None,
        None,
        {"a": 1},
        "",
    )


def console(used: int, dropped: int, body: bytes) -> bytes:
    return struct.pack("<4i", used, 1, dropped, 0) + body


def test_a_console_buffer_with_false_lengths_is_read_within_bounds():
    assert decode_console(console(10**6, 5, b"abc\n")).lines == ["abc"]
    assert decode_console(console(-5, -7, b"abc\n")).lines == []
    assert decode_console(console(-5, -7, b"abc\n")).dropped == 0
    assert decode_console(console(3, 0, b"\xff\x0bb\n")).lines == ["\ufffd\nb"]
    assert decode_console(b"short").lines == []


@pytest.mark.parametrize(
    "bad", [b"", b"{}", b'{"state":0,"open":1,"wake":-1,', b'{"state":0,"open":1,"wake":1e+-5,']
)
def test_an_outbox_without_a_head_is_a_fault(bad):
    with pytest.raises(GuestFault):
        outbox_head(bad)


def test_a_start_needs_a_whole_seed():
    with pytest.raises(ValueError, match="32 bytes"):
        encode_start(start(seed=b"short"), LIMITS)
    message = json.loads(encode_start(start(catalog={"demo": ["a"]}), LIMITS))
    assert message["backends"] == [["demo", "demo"]]
    assert message["catalog"] == {"demo": ["a"]}
    assert message["seed"][0] == 0x03020100
    assert "interfaces" not in message


def test_replies_are_one_json_text():
    notes: list[str] = []
    text = encode_replies(
        [Reply(1, True, b'{"a":1}'), Reply(2, False, b'{"message":"m"}'), Reply(3, True, b"")], LIMITS, notes
    )
    assert json.loads(text) == [[1, 1, {"a": 1}], [2, 0, {"message": "m"}], [3, 1, None]]


STEP = Stepped(
    3,
    Calls([Call(1, "tool", "demo", "echo", True, b"{}", [["a", 0]])], 5.0),
    65536,
    bytes(8),
    Facts(shadowed={"demo": (1, 2)}, lost_value=(3, 4, "x")),
)
END = Stepped(3, Failed(ErrorInfo("Error", "m", 1, 2, code={"a": [1]}, stack=[("f", 1, 2)]), lines={7: 1}))


@pytest.mark.parametrize("answer", [STEP, END, Stepped(1, Done("x", "string", given=[(1, 1, "a")]))])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_message_arrives_as_it_was_sent_in_whatever_pieces(answer, size):
    frames, data = Frames(), pack(answer) * 2
    bodies = [b for at in range(0, len(data), size) for b in frames.feed(data[at : at + size])]
    assert [answer_of(body) for body in bodies] == [answer, answer]


@given(st.binary(max_size=60), st.integers(0, 200), st.integers(0, 255))
def test_what_a_process_sends_is_a_message_or_a_fault(data, at, byte):
    with contextlib.suppress(GuestFault):
        for body in Frames().feed(data):
            answer_of(body)
    one_byte_wrong = bytearray(pack(STEP)[4:])
    one_byte_wrong[at % len(one_byte_wrong)] = byte
    for sent in (data, bytes(one_byte_wrong)):
        with contextlib.suppress(GuestFault):
            answer_of(sent)


def test_a_frame_above_the_bound_is_refused_before_it_is_read():
    with pytest.raises(GuestFault, match="a frame of 4294967295 bytes"):
        list(Frames().feed(b"\xff\xff\xff\xff"))


def test_an_error_that_carries_a_value_too_deep_for_the_wire_goes_without_it():
    deep: object = None
    for _ in range(200_000):
        deep = [deep]
    error = answer_of(pack(Stepped(1, Failed(ErrorInfo("E", "m", structured=deep))))[4:]).step.error
    assert (error.message, error.structured) == ("m", None)
