"""The tool filter: what stays, in which order, and what the model gets by asking."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from gatemini.context import (
    Format,
    NotARequest,
    Question,
    Session,
    ToolFilter,
    filter_tools,
    format_of_path,
    parse_request,
)

NAMES = ("zeta", "read", "alpha", "exec", "omega")


def request(
    names: Sequence[str] = NAMES, *, messages: Sequence[dict[str, Any]] = (), **members: Any
) -> dict[str, Any]:
    tools = [
        {"type": "function", "function": {"name": n, "description": f"The tool {n}. {n * 40}"}} for n in names
    ]
    return {"tools": tools, "messages": list(messages) or [{"role": "user", "content": "go"}], **members}


def names(made: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in made["tools"]]


def parsed(value: dict[str, Any]) -> Any:
    return parse_request(json.dumps(value).encode(), "openai")


CALLED = [
    {"role": "user", "content": "go"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "exec", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c", "content": "done"},
]


def test_where_nothing_is_left_out_the_request_keeps_its_order_and_its_bytes() -> None:
    data = json.dumps(request()).encode()
    made, report = filter_tools(data, format="openai", predictor=lambda question: NAMES)
    assert made == data
    assert report["tool_search"] is None


def test_in_a_session_the_set_only_grows_and_what_is_new_goes_behind() -> None:
    session = Session()
    seen = []
    for predicted in (["zeta"], [], ["alpha"]):
        made, _ = filter_tools(request(), session=session, predictor=lambda question, p=predicted: p)
        seen.append(names(made))
    assert seen == [
        ["exec", "read", "zeta", "tool_search"],
        ["exec", "read", "zeta", "tool_search"],
        ["exec", "read", "zeta", "alpha", "tool_search"],
    ]


def test_while_the_last_message_is_a_result_nothing_is_predicted() -> None:
    asked: list[Question] = []

    def predictor(question: Question) -> list[str]:
        asked.append(question)
        return ["zeta"]

    session = Session()
    first, _ = filter_tools(request(), session=session, predictor=predictor)
    second, _ = filter_tools(request(messages=CALLED), session=session, predictor=predictor)
    assert len(asked) == 1
    assert names(first) == names(second)


def test_a_failed_prediction_keeps_all_tools_for_the_session() -> None:
    def predictor(question: Question) -> str:
        raise TimeoutError

    session = Session()
    made, report = filter_tools(request(), session=session, predictor=predictor)
    assert names(made) == list(NAMES)
    assert report["failure"] == "TimeoutError"
    again, _ = filter_tools(request(messages=CALLED), session=session)
    assert names(again) == list(NAMES)


def test_what_tool_search_finds_stands_behind_and_before_itself() -> None:
    tool_filter, session, value = ToolFilter({"use_prediction": False}), Session(), request()
    tool_filter.apply(parsed(value), None, session=session)
    found = tool_filter.add(parsed(value), session, ["zeta", "omega", "read", "alhpa"])
    assert [each.added for each in found] == ["zeta", "omega", None, None]
    assert found[2].text == "read is available already: call it"
    assert found[3].closest == "alpha"
    assert "alpha" in found[3].text
    made, _ = tool_filter.apply(parsed(value), None, session=session)
    assert names(json.loads(made)) == ["exec", "read", "zeta", "omega", "tool_search"]
    other, _ = tool_filter.apply(parsed(value), None, session=Session())
    assert names(json.loads(other)) == ["exec", "read", "tool_search"]


@pytest.mark.parametrize(
    "choice",
    [
        {"type": "function", "function": {"name": "omega"}},
        {
            "type": "allowed_tools",
            "allowed_tools": {"tools": [{"type": "function", "function": {"name": "omega"}}]},
        },
        {"type": "tool", "name": "omega"},
    ],
)
def test_the_tool_that_a_choice_names_stays(choice: dict[str, Any]) -> None:
    made, _ = filter_tools(request(tool_choice=choice), {"use_prediction": False}, format="openai")
    assert "omega" in names(made)


def test_gemini_keeps_groups_that_are_no_functions_and_names_of_its_choice() -> None:
    declared = [{"name": name, "description": name} for name in NAMES]
    value = {
        "contents": [{"parts": [{"text": "go"}]}],
        "tools": [
            {"googleSearch": {}},
            {"functionDeclarations": declared[:3]},
            {"functionDeclarations": declared[3:]},
        ],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["omega"]}},
    }
    made, _ = filter_tools(value, {"use_prediction": False})
    assert made["tools"][0] == {"googleSearch": {}}
    first, second = (group["functionDeclarations"] for group in made["tools"][1:])
    assert [tool["name"] for tool in first] == ["exec", "omega", "read", "tool_search"]
    assert second == []
    assert list(first[-1]["parameters"]["properties"]) == ["tool_name", "reason"]


def test_a_name_with_half_of_a_surrogate_pair_is_listed_as_an_escape() -> None:
    data = json.dumps(request(["read", "odd\ud83d"])).encode()
    made, _ = filter_tools(data, {"use_prediction": False}, format="openai")
    assert "odd\ud83d" in json.loads(made)["tools"][-1]["function"]["description"]


def test_tools_that_the_provider_runs_stay_where_they_have_no_name() -> None:
    value = request()
    value["tools"].insert(2, {"type": "web_search_preview"})
    made, _ = filter_tools(value, {"use_prediction": False}, format="openai")
    assert made["tools"][0] == {"type": "web_search_preview"}


def test_metrics_count_over_requests() -> None:
    tool_filter = ToolFilter(predictor=lambda question: ["zeta"])
    for _ in range(2):
        tool_filter.filter(request())
    totals = tool_filter.metrics.totals()
    assert (totals["requests"], totals["predicted"], totals["excluded"]) == (2, 2, 4)
    assert totals["precision"] == 0.0


@pytest.mark.parametrize(
    ("path", "format"),
    [
        ("/v1/chat/completions", "openai"),
        ("/openai/deployments/x/chat/completions?api-version=1", "openai"),
        ("/v1/messages", "anthropic"),
        ("/v1/messages/count_tokens", "anthropic"),
        ("/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse", "gemini"),
        ("/v1/models/m:generateContent", "gemini"),
        ("/v1/responses", None),
        ("/v1/models", None),
    ],
)
def test_a_path_tells_the_format(path: str, format: Format | None) -> None:
    assert format_of_path(path) == format


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (b"[1]", ""),
        (b'{"messages":{}}', "messages"),
        (b'{"messages":[1]}', "messages[0]"),
        (b'{"messages":[{"content":"x"}]}', "messages[0].role"),
        (b'{"messages":[{"role":"user"}]}', "messages[0].content"),
        (b'{"messages":[{"role":"user","content":7}]}', "messages[0].content"),
        (b'{"messages":[{"role":"user","content":["x"]}]}', "messages[0].content[0]"),
        (b'{"messages":[{"role":"user","content":null}]}', "messages[0].content"),
        (b'{"messages":[],"tools":{}}', "tools"),
        (b'{"messages":[],"tools":[{"name":"f"},7]}', "tools[1]"),
        (b'{"contents":[{"parts":"x"}]}', "contents[0].parts"),
        (b'{"contents":[{"role":"user"}]}', "contents[0].parts"),
    ],
)
def test_input_that_is_no_request_names_its_field(text: bytes, field: str) -> None:
    with pytest.raises(NotARequest) as raised:
        parse_request(text)
    assert raised.value.field == field
