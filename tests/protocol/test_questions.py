"""Requests of backends to a client, and its answers: what is passed on, and what is refused with which error."""

from __future__ import annotations

from typing import Any

import pytest
from mcp_types import ClientCapabilities

from gatemini.backends.calls.callers import RpcError
from gatemini.protocol.questions.translation import answer, as_json, can_be_asked, question

OLD, NEW = "2025-11-25", "2026-07-28"
ALL: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {"listChanged": True}}
SAMPLE = {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "maxTokens": 9}
URL = {"mode": "url", "message": "log in", "url": "https://x.test/"}

eras = pytest.mark.parametrize("version", [OLD, NEW])


def test_a_backend_learns_what_the_client_announced_and_no_more() -> None:
    said = ClientCapabilities.model_validate({**ALL, "experimental": {"x": {}}, "tasks": {}})
    assert can_be_asked(said, OLD) == ALL
    assert can_be_asked(said, NEW) == {**ALL, "roots": {}}
    assert can_be_asked(ClientCapabilities(), OLD) == can_be_asked(None, NEW) == {}


@eras
@pytest.mark.parametrize(
    ("method", "params", "can", "code", "said"),
    [
        ("tasks/get", {}, ALL, -32601, "not tasks/get"),
        ("elicitation/create", {}, {"roots": {}}, -32601, "announced no elicitation"),
        ("sampling/createMessage", SAMPLE, {"elicitation": {}}, -32601, "announced no sampling"),
        ("roots/list", {}, {}, -32601, "announced no roots"),
        ("elicitation/create", URL, {"elicitation": {}}, -32602, "no elicitation by URL"),
        ("elicitation/create", {}, {"elicitation": {"url": {}}}, -32602, "only by URL"),
        ("sampling/createMessage", {**SAMPLE, "tools": []}, ALL, -32602, "no tools"),
        ("sampling/createMessage", {"messages": 5}, ALL, -32602, "cannot be read: params.messages: Input"),
        ("elicitation/create", {"message": 5}, ALL, -32602, "cannot be read: params"),
    ],
)
def test_what_a_client_cannot_answer_is_refused_with_the_reason(
    version: str, method: str, params: dict[str, Any], can: dict[str, Any], code: int, said: str
) -> None:
    with pytest.raises(RpcError, match=said) as refused:
        question(method, params, can, version)
    assert refused.value.code == code
    assert "\n" not in refused.value.message


def test_a_url_has_the_identity_that_its_revision_wants() -> None:
    old = as_json(question("elicitation/create", URL, ALL, OLD))
    assert old.pop("elicitationId")
    new = as_json(question("elicitation/create", {**URL, "elicitationId": "e"}, ALL, NEW))
    assert old == new == URL
    kept = as_json(question("elicitation/create", {**URL, "elicitationId": "e"}, ALL, OLD))
    assert kept["elicitationId"] == "e"


@eras
def test_progress_tokens_and_tasks_are_not_passed_on_in_a_question(version: str) -> None:
    params = {**SAMPLE, "_meta": {"progressToken": 5}, "task": {"ttl": 5}}
    assert as_json(question("sampling/createMessage", params, ALL, version)) == SAMPLE


def test_an_answer_is_passed_on_without_its_envelope_fields() -> None:
    asked = question("elicitation/create", {}, ALL, NEW)
    given = {"action": "accept", "content": {"a": [" x "]}, "resultType": "complete", "_meta": {"k": 1}}
    assert answer(asked, given) == {"action": "accept", "content": {"a": [" x "]}}
    for none in (None, [], {}, {"action": "maybe"}, {"roots": []}):
        with pytest.raises(RpcError, match="answer is invalid"):
            answer(asked, none)
