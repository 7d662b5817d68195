"""The acceptance cases of the proxy, in all formats, whole and streamed."""

from __future__ import annotations

import copy
import itertools
import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx2
import pytest

from fixtures.context_cases import case, cases, expanded
from fixtures.llm_proxy import Proxy, running_proxy
from fixtures.llm_upstream import FakeProvider, Got, Said, running_provider

FORMATS = ("openai", "anthropic", "gemini")
PATHS = {
    "openai": "/v1/chat/completions",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/m-1:generateContent",
}
STREAMED = "/v1beta/models/m-1:streamGenerateContent?alt=sse"
HANDLE = re.compile(r"res_[0-9a-f]{8}")
VARIANTS = [
    pytest.param(case, format, streamed, id=f"{case['id']}-{format}-{'streamed' if streamed else 'whole'}")
    for case, format, streamed in itertools.product(cases("proxy"), FORMATS, (False, True))
]


class Answered:
    """What the client got: its text and the names of its calls."""

    def __init__(self, raw: str, status: int) -> None:
        self.raw, self.status = raw, status
        self.text, self.calls, self.starts, self.ends = "", [], 0, 0
        if raw.startswith("{"):
            self._read(json.loads(raw))
            return
        for line in raw.splitlines():
            if line == "data: [DONE]":
                self.ends += 1
            elif line.startswith("data: "):
                self._read(json.loads(line[6:]))

    def _read(self, value: dict[str, Any]) -> None:
        for choice in value.get("choices", ()):
            message = choice.get("message") or choice["delta"]
            self.text += message.get("content") or ""
            calls = message.get("tool_calls", ())
            self.calls += [call["function"]["name"] for call in calls if call["function"].get("name")]
            self.starts += "role" in message
        for candidate in value.get("candidates", ()):
            for part in candidate["content"].get("parts", ()):
                self.text += part.get("text", "")
                self.calls += [part["functionCall"]["name"]] if "functionCall" in part else []
        kind = value.get("type")
        self.starts += kind == "message_start"
        self.ends += kind == "message_stop"
        blocks = value.get("content", ()) if kind == "message" else [value.get("content_block", {})]
        for block in blocks:
            self.text += block.get("text", "")
            self.calls += [block["name"]] if block.get("type") == "tool_use" else []
        self.text += (value.get("delta") or {}).get("text", "")


def said(given: dict[str, Any]) -> Any:
    """The provider's answer, with the handle that it finds in the request."""

    def answer(got: Got) -> Said:
        handles = HANDLE.findall(got.body.decode())
        text = json.dumps(given.get("calls", []))
        calls = json.loads(text.replace("$HANDLE", handles[0] if handles else "res_00000000"))
        return Said(given.get("text", ""), [(name, arguments) for name, arguments in calls])

    return answer


def post(proxy: Proxy, step: dict[str, Any], format: str, streamed: bool) -> Answered:
    request = expanded(step["request"], format)
    path = STREAMED if streamed and format == "gemini" else PATHS[format]
    if streamed and format != "gemini":
        request["stream"] = True
    headers = {"x-gatemini-session": step["session"], "authorization": "Bearer k"}
    answer = httpx2.post(f"{proxy.address}{path}", json=request, headers=headers, timeout=30)
    return Answered(answer.text, answer.status_code)


def in_format(step: dict[str, Any], format: str) -> dict[str, Any]:
    """The step's request with the members that this format has."""
    step = copy.deepcopy(step)
    request = step["request"]
    messages = request.pop("messages", None) or request.pop("contents")
    request["contents" if format == "gemini" else "messages"] = messages
    if format == "gemini":
        request.pop("model", None)
        request.pop("max_tokens", None)
    request.pop("stream", None)
    return step


@pytest.fixture(scope="module")
def proxies(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[Any], tuple[FakeProvider, Proxy]]]:
    """A proxy for each configuration, with its own provider."""
    with ExitStack() as stack:
        made: dict[str, tuple[FakeProvider, Proxy]] = {}

        def get(config: Any) -> tuple[FakeProvider, Proxy]:
            key = json.dumps(config)
            if key not in made:
                provider = stack.enter_context(running_provider())
                folder = tmp_path_factory.mktemp("proxy")
                made[key] = provider, stack.enter_context(running_proxy(provider.url, folder, config=config))
            return made[key]

        yield get


@pytest.mark.parametrize(("case", "format", "streamed"), VARIANTS)
def test_the_proxy_answers_as_the_acceptance_case_says(
    case: dict[str, Any],
    format: str,
    streamed: bool,
    proxies: Callable[[Any], tuple[FakeProvider, Proxy]],
) -> None:
    provider, proxy = proxies(case["config"])
    first_tools: list[list[str]] = []
    for step in case["steps"]:
        step = in_format(step, format)
        step["session"] = f"{case['id']} {format} {streamed} {step['session']}"
        provider.answers, provider.got = [said(each) for each in step["upstream_answers"]], []
        answered = post(proxy, step, format, streamed)
        check(step["expect"], answered, provider, step, format, first_tools)
        first_tools.append(provider.got[0].tools)
        if streamed and format != "gemini":
            assert (answered.starts, answered.ends) == (1, 1)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("format", FORMATS)
def test_rows_tools_and_the_clients_own_calls_in_one_answer_are_answered_together(
    format: str, streamed: bool, proxies: Callable[[Any], tuple[FakeProvider, Proxy]]
) -> None:
    config = {"context": {"fold": {"handle_over_tokens": 1000}, "tools": {"use_prediction": False}}}
    provider, proxy = proxies(config)
    step = in_format(case("fetch-rows-cap")["steps"][0], format)
    step["request"]["tools"] = {"$tools": ["f", "mail", "fly"]}
    step["session"] = f"together {format} {streamed}"
    wanted = {"tool_name": "mail", "reason": "to write"}
    first = [("fetch_rows", {"handle": "$HANDLE", "limit": 3}), ("tool_search", wanted), ("f", {"x": "1"})]
    second = [("fetch_rows", {"handle": "$HANDLE", "offset": 50, "limit": 2})]
    answers = ({"calls": first}, {"calls": second}, {"text": "done", "calls": [("mail", {"to": "a"})]})
    provider.answers, provider.got = [said(each) for each in answers], []
    answered = post(proxy, step, format, streamed)
    assert (answered.text, answered.calls) == ("done", ["mail"])
    assert "tool_search" not in answered.raw
    assert "fetch_rows" not in answered.raw
    key = "contents" if format == "gemini" else "messages"
    sent = [json.dumps(got.json[key]) for got in provider.got]
    rows = [sorted(set(re.findall(r"row-000\d\d", text.partition("tool_search")[2]))) for text in sent[1:]]
    assert rows[0] == ["row-00000", "row-00001", "row-00002"]
    assert set(rows[1]) == {*rows[0], "row-00050", "row-00051"}
    assert "not run" in sent[1]
    assert ["mail" in got.tools for got in provider.got] == [False, True, True]


def check(
    expect: dict[str, Any],
    answered: Answered,
    provider: FakeProvider,
    step: dict[str, Any],
    format: str,
    first_tools: list[list[str]],
) -> None:
    sent = provider.got
    assert answered.status == 200
    assert len(sent) >= len(expect.get("tools", ()))
    assert expect["client_never"] not in answered.raw
    if "upstream_requests" in expect:
        allowed = expect["upstream_requests"]
        low, high = allowed if isinstance(allowed, list) else (allowed, allowed)
        assert low <= len(sent) <= high
    for got, tools in zip(sent, expect.get("tools", ()), strict=False):
        kept = [name for name in got.tools if name != "tool_search"]
        wanted = [name for name in tools if name != "tool_search"]
        assert sorted(kept) == sorted(wanted)
        assert "tool_search" in got.tools
        assert kept[: len(first_kept(sent))] == first_kept(sent)
    if "added" in expect:
        assert sorted(set(sent[-1].tools) - set(sent[0].tools)) == expect["added"]
    if "client_text" in expect:
        assert answered.text == expect["client_text"]
    if "client_calls" in expect:
        assert answered.calls == expect["client_calls"]
    if "answer_or_error_names_one_of" in expect:
        assert any(name in answered.raw for name in expect["answer_or_error_names_one_of"])
    if "upstream_names_closest" in expect:
        assert expect["upstream_names_closest"] in json.dumps(sent[-1].json)
        messages = sent[-1].json["contents" if format == "gemini" else "messages"]
        assert expect["upstream_names_closest"] in json.dumps(messages[-1])
    if "tools_same_as_step" in expect:
        assert sent[0].tools == first_tools[expect["tools_same_as_step"]]
    for text in expect.get("upstream_last_has", ()):
        assert text in sent[-1].body.decode()
    if "upstream_rows" in expect:
        begin, end = expect["upstream_rows"]
        messages = sent[-1].json["contents" if format == "gemini" else "messages"]
        found = sorted(set(re.findall(r"row-\d{5}", json.dumps(messages[-1]))))
        assert found == [f"row-{i:05d}" for i in range(begin, end)]


def first_kept(sent: list[Got]) -> list[str]:
    return [name for name in sent[0].tools if name != "tool_search"]
