"""The one stream that a client reads: the same however the provider's bytes are cut, with the tokens of all answers."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.llm_upstream import SHAPES, Said
from gatemini.llm_proxy.wire.answer import Wire, usage_sum
from gatemini.llm_proxy.wire.events import ArrayOfEvents, EventSplitter, written
from gatemini.llm_proxy.wire.formats import WIRES

FORMATS = ("openai", "anthropic", "gemini")
OURS = ("tool_search", {"tool_name": "mail", "reason": "to write"})
SHAPE: dict[str, Any] = dict(zip(FORMATS, (shape for _, shape in SHAPES), strict=True))
each_format = pytest.mark.parametrize("format", FORMATS)


def streamed(format: str, said: Said, number: int) -> bytes:
    return b"".join(SHAPE[format].stream(said, number))


def client_gets(wire: Wire, answers: list[bytes], cuts: list[int] | None = None) -> bytes:
    """What the client reads of these answers, of which each but the last is repeated; `cuts` are sizes of parts."""
    stream, got = wire.stream(), b""
    for number, answer in enumerate(answers, 1):
        stream.begin()
        splitter, at, sizes = EventSplitter(), 0, iter(cuts or ())
        while at < len(answer):
            size = next(sizes, len(answer))
            got += b"".join(map(stream.feed, splitter.feed(answer[at : at + size])))
            at += size
        got += b"".join(map(stream.feed, splitter.end()))
        calls = stream.answer().calls
        assert any(call.name == "tool_search" for call in calls) is (number < len(answers))
    return got + stream.release()


def values(stream: bytes) -> list[Any]:
    return [event.value for event in EventSplitter().feed(stream) if event.value is not None]


@given(
    st.sampled_from(FORMATS),
    st.lists(st.integers(1, 40), max_size=200),
    st.lists(st.text(alphabet='ab é漢😀\n"\\', max_size=20), min_size=1, max_size=3),
)
def test_a_stream_reads_the_same_wherever_its_bytes_are_cut(
    format: str, cuts: list[int], texts: list[str]
) -> None:
    answers = [streamed(format, Said(text, [OURS, ("read", {"p": text})]), n) for n, text in enumerate(texts)]
    answers.append(streamed(format, Said("end", [("mail", {"to": texts[0]})]), len(texts)))
    whole = client_gets(WIRES[format], answers)
    assert client_gets(WIRES[format], answers, cuts) == whole
    assert b"tool_search" not in whole
    assert whole.count(b"message_stop" if format == "anthropic" else b"[DONE]") == {
        "openai": 1,
        "anthropic": 2,  # name of the event, and type in its data
        "gemini": 0,
    }.get(format)


def test_half_of_a_surrogate_pair_stays_an_escape() -> None:
    raw = b'data: {"delta":"\\ud83d"}\n\n'
    (event,) = EventSplitter().feed(raw)
    assert written(event.value) == raw


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_lines_of_events_may_end_in_three_ways(line_end: str) -> None:
    text = f"event: x{line_end}data: 1{line_end}{line_end}: comment{line_end}{line_end}data: 2{line_end}{line_end}"
    splitter = EventSplitter()
    found = [event for byte in text.encode() for event in splitter.feed(bytes([byte]))]
    found += splitter.end()
    assert [event.value for event in found] == [1, None, 2]
    assert b"".join(event.raw for event in found) == text.encode()


def test_an_event_of_many_parts_is_searched_once() -> None:
    splitter, part, before = EventSplitter(), b"x" * 100_000, time.process_time()
    assert not [event for _ in range(300) for event in splitter.feed(part)]
    (event,) = splitter.feed(b"\n\n")
    assert len(event.raw) == 30_000_002
    assert time.process_time() - before < 2  # seconds; each part searched with all before it takes several


@each_format
def test_a_repeated_stream_counts_the_tokens_of_all_its_answers(format: str) -> None:
    first, second = (streamed(format, said, n) for n, said in enumerate((Said("", [OURS]), Said("done"))))
    if format == "openai":  # as with stream_options.include_usage
        usage = {
            "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15,
            "prompt_tokens_details": {"cached_tokens": 4},
        }  # fmt: skip
        last = b"data: %b\n\ndata: [DONE]" % json.dumps({"id": "x", "choices": [], "usage": usage}).encode()
        first, second = (each.replace(b"data: [DONE]", last) for each in (first, second))
    got = values(client_gets(WIRES[format], [first, second]))
    key = "usageMetadata" if format == "gemini" else "usage"
    counted = [value[key] for value in got if value.get(key)][-1]
    assert counted == {
        "openai": {
            "prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30,
            "prompt_tokens_details": {"cached_tokens": 8},
        },
        "anthropic": {"input_tokens": 20, "output_tokens": 18},
        "gemini": {"promptTokenCount": 20, "candidatesTokenCount": 10, "totalTokenCount": 30},
    }[format]  # fmt: skip


def test_of_a_usage_only_counts_are_added() -> None:
    before = {"tokens": 1, "inner": {"a": 1, "tier": "x"}, "only_before": 3, "off": True, "list": [1]}
    after = {"tokens": 2, "inner": {"a": 2, "tier": "y"}, "off": True, "list": [2], "none": None}
    assert usage_sum(before, after) == {
        "tokens": 3, "inner": {"a": 3, "tier": "y"}, "only_before": 3, "off": True, "list": [2], "none": None,
    }  # fmt: skip


def test_text_and_role_beside_the_first_call_of_a_chunk_stream() -> None:
    """Several providers write text and call into one chunk, OpenAI the role and the call."""
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "tool_search", "arguments": "{}"}}
    delta = {"role": "assistant", "content": "Let me look. ", "tool_calls": [call]}
    first = {"id": "one", "choices": [{"index": 0, "delta": delta, "finish_reason": "tool_calls"}]}
    begun = b"data: %b\n\ndata: [DONE]\n\n" % json.dumps(first).encode()
    got = client_gets(WIRES["openai"], [begun, streamed("openai", Said("Found."), 2)])
    choices = [choice for value in values(got) for choice in value["choices"]]
    assert "".join(choice["delta"].get("content") or "" for choice in choices) == "Let me look. Found."
    assert [choice["delta"]["role"] for choice in choices if "role" in choice["delta"]] == ["assistant"]
    assert [choice["finish_reason"] for choice in choices if choice["finish_reason"]] == ["stop"]
    assert {value["id"] for value in values(got)} == {"one"}


def test_events_are_written_as_one_array() -> None:
    array = ArrayOfEvents()
    text = b"".join(map(array.feed, (b'data: {"a":1}\r', b'\n\r\ndata: {"b":', b"2}\r\n\r\n: ping\r\n\r\n")))
    assert json.loads(text + array.end()) == [{"a": 1}, {"b": 2}]
    assert ArrayOfEvents().end() == b"[]"
    assert re.match(rb'\[\{"a":1\},\r\n', text)
