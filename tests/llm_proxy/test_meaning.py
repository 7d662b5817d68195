"""The tools whose vectors the proxy holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gatemini.context import SearchPredictor, parse_request
from gatemini.context.tools.predict import question_of
from gatemini.llm_proxy import meaning
from gatemini.llm_proxy.one_prediction import ModelPredictor
from gatemini.model import Tool


def test_a_request_with_more_tools_than_are_held_has_all_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meaning, "MOST_TOOLS", 2)
    held = meaning._Tools()
    three, other = [Tool("request", name, "", {}) for name in "abc"], Tool("request", "d", "", {})
    assert held.slots(three) == ([0, 1, 2], True)
    assert held.slots(three) == ([0, 1, 2], False)
    assert held.slots([None, other]) == ([None, 0], True)


def test_the_command_that_filters_predicts_by_meaning_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Words find no tool for this request."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    described = {
        "get_weather": "Forecast for a city",
        "translate": "Put a text into another language",
        "delete_file": "Remove a file from disk",
        "create_invoice": "Bill a customer",
        "list_events": "Show appointments of the calendar",
    }
    tools = [{"name": n, "description": d, "input_schema": {"type": "object"}} for n, d in described.items()]
    message = {"role": "user", "content": "How do you say good morning in French?"}
    request = parse_request(
        json.dumps({"model": "m", "max_tokens": 1, "tools": tools, "messages": [message]}).encode(),
        "anthropic",
    )
    question = question_of(request)
    assert SearchPredictor(2)(question) == []
    assert next(iter(ModelPredictor(2)(question))) == "translate"
