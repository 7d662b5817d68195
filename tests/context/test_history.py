"""What is kept or dropped of a history as one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fixtures.context_checks import calls_and_results
from gatemini.context import Format, trim_history


def calling(format: Format, *ids: str) -> dict[str, Any]:
    if format == "openai":
        calls = [{"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in ids]
        return {"role": "assistant", "content": None, "tool_calls": calls}
    if format == "anthropic":
        blocks = [{"type": "tool_use", "id": i, "name": "f", "input": {}} for i in ids]
        return {"role": "assistant", "content": blocks}
    return {"role": "model", "parts": [{"functionCall": {"id": i, "name": "f", "args": {}}} for i in ids]}


def result(format: Format, ident: str) -> dict[str, Any]:
    text = "r" * 300
    if format == "openai":
        return {"role": "tool", "tool_call_id": ident, "content": text}
    if format == "anthropic":
        block = {"type": "tool_result", "tool_use_id": ident, "content": text}
        return {"role": "user", "content": [block]}
    answer = {"id": ident, "name": "f", "response": {"result": text}}
    return {"role": "user", "parts": [{"functionResponse": answer}]}


def said(format: Format, role: str, text: str) -> dict[str, Any]:
    if format == "gemini":
        return {"role": "model" if role == "assistant" else role, "parts": [{"text": text}]}
    return {"role": role, "content": text}


@pytest.mark.parametrize("format", ["openai", "anthropic", "gemini"])
@pytest.mark.parametrize("recent", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("budget", [20, 100, 180, 260, 340, 420])
def test_calls_stay_with_results_that_come_after_the_users_next_words(
    format: Format, recent: int, budget: int
) -> None:
    """Agents with calls in the background let the user speak before all results are there."""
    messages = [
        said(format, "user", "a" * 400),
        calling(format, "c1", "c2", "c3"),
        result(format, "c1"),
        said(format, "user", "hurry"),
        result(format, "c3"),
        said(format, "user", "please"),
        result(format, "c2"),
        said(format, "assistant", "x" * 900),
        said(format, "user", "end"),
    ]
    key = "contents" if format == "gemini" else "messages"
    options = {"max_history_tokens": budget, "keep_recent_exchanges": recent}
    data = json.dumps({key: messages}).encode()
    made, report = trim_history(data, options, format=format)
    kept = json.loads(made)[key]
    called, answered = calls_and_results(kept)
    assert sorted(called) == sorted(answered)
    assert report["tokens_after"] <= budget or report["over_budget_by"] > 0
    if report["tokens_after"] <= budget:
        assert trim_history(made, options, format=format).request == made
