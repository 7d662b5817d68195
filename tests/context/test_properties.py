"""Over generated conversations of the three formats: order, pairing, bytes of what must not change, budget, idempotence."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.context_checks import calls_and_results, is_result
from gatemini.context import (
    Format,
    SessionStore,
    filter_tools,
    fold_results,
    mark_cache,
    measure_turns,
    parse_request,
    trim_history,
)
from gatemini.context.request.json_places import Json, read_json

WORDS = st.text(alphabet=st.sampled_from('ab "\\\n\té漢😀'), max_size=40)
LONG = st.builds(lambda word, n: (word or "x") * n, WORDS, st.integers(0, 60))
NUMBERS = st.sampled_from(["1.0", "1e2", "-0", "12345678901234567890123", "0.10"])
"""Spellings that a reader and writer of numbers would change."""
CHAINS = st.lists(
    st.tuples(LONG, st.lists(st.lists(LONG, min_size=1, max_size=3), max_size=3), LONG),
    min_size=1,
    max_size=6,
)
"""Exchanges: the user's text, rounds of parallel results, the answer."""


def _escaped(text: str, ascii_only: bool) -> str:
    return json.dumps(text, ensure_ascii=ascii_only)


class Writer:
    """Writes requests with white space, escapes, number spellings and unknown keys of its own."""

    def __init__(self, format: Format, number: str, ascii_only: bool, space: str) -> None:
        self.format = format
        self.number = number
        self.ascii = ascii_only
        self.space = space
        self.calls = 0

    def text(self, text: str) -> str:
        return _escaped(text, self.ascii)

    def unknown(self) -> str:
        return f'"x_{self.format}":{self.space}{{"n":{self.number},"s":"\\u00e9\\/"}}'

    def user(self, text: str) -> str:
        if self.format == "gemini":
            return f'{{{self.unknown()},"role":"user","parts":[{{"text":{self.text(text)}}}]}}'
        return f'{{"role":"user",{self.space}"content":{self.text(text)},{self.unknown()}}}'

    def answer(self, text: str) -> str:
        if self.format == "gemini":
            return f'{{"role":"model","parts":[{{"text":{self.text(text)}}}]}}'
        if self.format == "anthropic":
            thought = f'{{"type":"thinking","thinking":{self.text(text)},"signature":"c2ln"}}'
            return f'{{"role":"assistant","content":[{thought},{{"type":"text","text":{self.text(text)}}}]}}'
        return f'{{"role":"assistant","content":{self.text(text)},"reasoning_content":"\\u0041"}}'

    def round(self, results: list[str]) -> list[str]:
        ids = [f"c{self.calls + n}" for n in range(len(results))]
        self.calls += len(ids)
        if self.format == "openai":
            calls = [
                f'{{"id":"{i}","type":"function","function":{{"name":"f","arguments":"{{ \\"n\\":{self.number} }}"}}}}'
                for i in ids
            ]
            said = f'{{"role":"assistant","content":null,"tool_calls":[{f",{self.space}".join(calls)}]}}'
            pairs = zip(ids, results, strict=True)
            return [
                said,
                *(f'{{"role":"tool","tool_call_id":"{i}","content":{self.text(r)}}}' for i, r in pairs),
            ]
        if self.format == "anthropic":
            calls = [
                f'{{"type":"tool_use","id":"{i}","name":"f","input":{{"n":{self.number}}}}}' for i in ids
            ]
            thought = '{"type":"redacted_thinking","data":"ZGF0\\u0061"}'
            made = [
                f'{{"type":"tool_result","tool_use_id":"{i}",{self.space}"content":{self.text(r)},{self.unknown()}}}'
                for i, r in zip(ids, results, strict=True)
            ]
            return [
                f'{{"role":"assistant","content":[{thought},{",".join(calls)}]}}',
                f'{{"role":"user","content":[{",".join(made)}]}}',
            ]
        calls = [
            f'{{"functionCall":{{"id":"{i}","name":"f","args":{{"n":{self.number}}}}},"thoughtSignature":"c2l\\u006e"}}'
            for i in ids
        ]
        made = [
            f'{{"functionResponse":{{"id":"{i}","name":"f","response":{{"result":{self.text(r)}}},{self.unknown()}}}}}'
            for i, r in zip(ids, results, strict=True)
        ]
        return [
            f'{{"role":"model","parts":[{",".join(calls)}]}}',
            f'{{"role":"user","parts":[{",".join(made)}]}}',
        ]

    def request(self, chains: Any, *, pending: bool) -> bytes:
        messages: list[str] = []
        for text, rounds, answer in chains:
            messages.append(self.user(text))
            for results in rounds:
                messages += self.round(results)
            messages.append(self.answer(answer))
        if pending:
            messages += [self.user("more"), *self.round(["pending " * 30])]
        key = "contents" if self.format == "gemini" else "messages"
        joined = f",{self.space}".join(messages)
        return f'{{{self.unknown()},{self.space}"{key}":[{joined}{self.space}],"z":{self.number}}}'.encode()


@st.composite
def requests(draw: st.DrawFn) -> tuple[Format, bytes]:
    format: Format = draw(st.sampled_from(("openai", "anthropic", "gemini")))
    writer = Writer(format, draw(NUMBERS), draw(st.booleans()), draw(st.sampled_from(("", " ", "\n  "))))
    return format, writer.request(draw(CHAINS), pending=draw(st.booleans()))


def messages(data: bytes) -> list[Json]:
    root = read_json(data)
    assert root is not None
    found = root.get("messages", "contents")
    assert found is not None
    return found.items()


def plain(data: bytes) -> list[dict[str, Any]]:
    value = json.loads(data)
    found: list[dict[str, Any]] = value.get("messages", value.get("contents"))
    return found


def around(data: bytes) -> bytes:
    """What stands around the messages."""
    found = messages(data)
    return data[: found[0].start] + data[found[-1].end :]


OPAQUE = (
    '"signature":"c2ln"',
    '"data":"ZGF0\\u0061"',
    '"thoughtSignature":"c2l\\u006e"',
    '"reasoning_content":"\\u0041"',
)


@given(requests(), st.integers(1, 600), st.integers(0, 3))
def test_trimming_keeps_order_pairs_opaque_bytes_and_meets_the_budget(
    made: tuple[Format, bytes], budget: int, recent: int
) -> None:
    format, data = made
    options = {"max_history_tokens": budget, "keep_recent_exchanges": recent}
    trimmed, report = trim_history(data, options, format=format)
    called, answered = calls_and_results(plain(trimmed))
    before, _ = calls_and_results(plain(data))
    assert called == answered == before[len(before) - len(called) :]
    assert around(trimmed) == around(data)
    measured = sum(message.tokens() for message in parse_request(trimmed, format).messages)
    assert measured == report["tokens_after"]
    assert report["over_budget_by"] == max(0, measured - budget)
    if measured > budget:
        # The old ones that could go are gone: what is left are the recent exchanges.
        assert len(messages(trimmed)) == report["recent"]
    kept = [message.written for message in messages(data)][report["dropped"] :]
    for old, new in zip(kept, (message.written for message in messages(trimmed)), strict=True):
        for sign in OPAQUE:
            assert old.count(sign.encode()) == new.count(sign.encode())
        assert len(json.loads(new)) == len(json.loads(old))
    assert trim_history(trimmed, options, format=format).request == trimmed


@given(requests(), st.integers(0, 2))
def test_folding_changes_bodies_of_results_that_were_read_and_nothing_else(
    made: tuple[Format, bytes], keep_turns: int
) -> None:
    format, data = made
    store, options = SessionStore(), {"keep_turns": keep_turns}
    folded, _ = fold_results(data, options, format=format, store=store)
    before, after = parse_request(data, format), parse_request(folded, format)
    assert [m.calls for m in before.messages] == [m.calls for m in after.messages]
    old, new = data, folded
    pairs = [
        (a, b) for x, y in zip(before.messages, after.messages, strict=True)
        for a, b in zip(x.results, y.results, strict=True)
    ]  # fmt: skip
    for a, b in reversed(pairs):
        assert len(b.text.encode()) <= len(a.text.encode())
        old = old[: a.body.start] + old[a.body.end :]
        new = new[: b.body.start] + new[b.body.end :]
    assert old == new
    assert fold_results(folded, options, format=format, store=store).request == folded
    assert fold_results(data, options, format=format, store=store).request == folded
    last = before.messages[-1]
    if last.role == "tool":
        assert [r.body.written for r in after.messages[-1].results] == [r.body.written for r in last.results]


@given(requests())
def test_a_growing_history_keeps_the_folded_bytes_of_its_beginning(made: tuple[Format, bytes]) -> None:
    format, data = made
    store = SessionStore()
    places = messages(data)
    whole = messages(fold_results(data, format=format, store=store).request)
    ends = [
        n for n, m in enumerate(plain(data), 1) if m["role"] in ("assistant", "model") and n < len(places)
    ]
    for end in ends:
        shorter = data[: places[end - 1].end] + data[places[-1].end :]
        part = messages(fold_results(shorter, format=format, store=store).request)
        assert [m.written for m in part] == [m.written for m in whole[:end]]


@given(requests(), st.sampled_from([trim_history, fold_results, filter_tools, mark_cache, measure_turns]))
def test_a_dict_is_never_changed_and_gives_what_its_bytes_give(made: tuple[Format, bytes], step: Any) -> None:
    format, data = made
    request = json.loads(data)
    compact = json.dumps(request, separators=(",", ":"), ensure_ascii=False)
    outcome = step(request, format=format)
    assert json.dumps(request, separators=(",", ":"), ensure_ascii=False) == compact
    assert isinstance(outcome.request, dict)
    if step is not fold_results:
        assert outcome.request == json.loads(step(data, format=format).request)


@given(
    st.lists(st.sampled_from([f"tool_{n}" for n in range(12)]), unique=True, min_size=1),
    st.lists(st.sampled_from([f"tool_{n}" for n in range(12)])),
    st.sampled_from(("openai", "anthropic", "gemini")),
    NUMBERS,
)
def test_filtered_definitions_are_the_bytes_of_the_request_in_one_order(
    names: list[str], predicted: list[str], format: Format, number: str
) -> None:
    schema = f'{{ "type":"object","maximum": {number} }}'
    inner = [f'{{"description":"\\u0041 {name}", "name":"{name}","parameters":{schema}}}' for name in names]
    if format == "openai":
        tools = ",".join(f'{{"type":"function", "function":{each}}}' for each in inner)
    else:
        tools = ", ".join(inner)
    if format == "gemini":
        tools = f'{{"functionDeclarations":[{tools}]}},{{"googleSearch":{{}}}}'
    key, content = (
        ("contents", '"parts":[{"text":"go"}]') if format == "gemini" else ("messages", '"content":"go"')
    )
    data = f'{{"tools":[{tools}],"{key}":[{{"role":"user",{content}}}]}}'.encode()
    made, report = filter_tools(data, format=format, predictor=lambda question: predicted)
    wanted = set(names) & set(predicted)
    given_tools = {tool.name: tool.place.written for tool in parse_request(data, format).tools}
    kept = [tool for tool in parse_request(made, format).tools if tool.name != "tool_search"]
    assert all(tool.place.written == given_tools[tool.name] for tool in kept)
    if wanted == set(names):
        assert made == data
    else:
        assert [tool.name for tool in kept] == sorted(wanted)
        assert report["included"][-1] == "tool_search"
    assert (b"googleSearch" in made) is (format == "gemini")
    again = filter_tools(made, format=format, predictor=lambda question: predicted).request
    assert [t.name for t in parse_request(again, format).tools][: len(kept)] == [t.name for t in kept]


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":2,"messages":[],"messages":[{"role":"user","content":"x"}]}',
        '{"messages":[{"role":"user","role":"assistant","content":"\\u0061","content":"b\\ud800"}]}',
        '{ "m\\u0065ssages" : [ { "role" : "user" , "content" : [ ] } ] }',
    ],
)
def test_keys_written_twice_or_with_escapes_have_their_last_value(text: str) -> None:
    request = parse_request(text.encode(), "openai")
    (message,) = request.messages
    assert json.loads(message.place.written) == json.loads(text)["messages"][0]
    assert [piece.text for piece in message.pieces] == [
        each for each in [json.loads(text)["messages"][0]["content"]] if isinstance(each, str)
    ]


def test_messages_with_results_are_found_in_all_formats() -> None:
    for format in ("openai", "anthropic", "gemini"):
        data = Writer(format, "1", True, "").request([("q", [["a", "b"]], "r")], pending=False)
        roles = [message.role for message in parse_request(data, format).messages]
        assert [is_result(message) for message in plain(data)] == [role == "tool" for role in roles]
