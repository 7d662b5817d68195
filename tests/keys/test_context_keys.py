"""The keys of `context`: a configuration with one of them changed makes another request of the same one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gatemini.config.load import load_config
from gatemini.config.model.context import ToolsConfig
from gatemini.context import Session, Steps, ToolFilter, WrongOption

TOOLS = ("aardvark", "cron", "read", "search_flights", "zebra")
ROWS = json.dumps([{"id": n, "text": "word " * 40, "score": n % 3} for n in range(60)])


def request(*, last_is_result: bool = False) -> bytes:
    """Eight exchanges with results; the last message is a question about flights, or the last result."""
    messages: list[dict[str, Any]] = []
    for number in range(8):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "zebra", "arguments": "{}"}}
        messages += [
            {"role": "user", "content": f"question {number} " + "why " * 400},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": ROWS if number % 2 else "short"},
            {"role": "assistant", "content": "answer " * 400},
        ]
    messages.append({"role": "user", "content": "search flights to Rome"})
    if last_is_result:
        call = {"id": "c9", "type": "function", "function": {"name": "zebra", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": "c9", "content": "done"})
    tools = [
        {
            "type": "function",
            "function": {"name": n, "description": f"The tool {n.replace('_', ' ')}. {'x' * 300}"},
        }
        for n in TOOLS
    ]
    return json.dumps({"model": "m", "tools": tools, "messages": messages}).encode()


def made(folder: Path, section: dict[str, Any], *, last_is_result: bool = False) -> bytes:
    """The request after the steps of a configuration file."""
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump({"context": section}))
    loaded = load_config(path, environ={})
    assert not loaded.problems
    data: bytes = (
        Steps(loaded.config.context).run(request(last_is_result=last_is_result), "openai", Session()).request
    )
    return data


def unguessed(data: bytes) -> bytes:
    """Without handles, which differ from session to session."""
    return re.sub(rb"res_[0-9a-f]{8}", b"res_", data)


@pytest.mark.proves("context.history.enabled")
@pytest.mark.proves("context.history.history_trimming")
@pytest.mark.proves("context.history.max_history_tokens")
@pytest.mark.proves("context.history.keep_recent_exchanges")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("enabled", False),
        ("history_trimming", False),
        ("max_history_tokens", 50_000),
        ("keep_recent_exchanges", 1),
    ],
)
def test_keys_of_the_history(tmp_path: Path, key: str, value: Any) -> None:
    base = {"max_history_tokens": 4000, "keep_recent_exchanges": 4}
    trimmed = made(tmp_path, {"history": base})
    assert len(trimmed) < len(request())
    assert unguessed(made(tmp_path, {"history": {**base, key: value}})) != unguessed(trimmed)


@pytest.mark.proves("context.history.keep_recent_user_turns_in_chained_tool_calls")
def test_in_a_chain_of_calls_fewer_turns_are_recent(tmp_path: Path) -> None:
    base = {"max_history_tokens": 4000}
    key = "keep_recent_user_turns_in_chained_tool_calls"
    one, three = (made(tmp_path, {"history": {**base, key: n}}, last_is_result=True) for n in (1, 3))
    assert len(one) < len(three)


@pytest.mark.proves("context.fold.enabled")
@pytest.mark.proves("context.fold.min_tokens")
@pytest.mark.proves("context.fold.keep_turns")
@pytest.mark.proves("context.fold.handle_over_tokens")
@pytest.mark.proves("context.fold.compact.fields")
@pytest.mark.proves("context.fold.compact.budget_tokens")
@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("enabled", False, b"word word"),
        ("min_tokens", 100_000, b"word word"),
        ("keep_turns", 50, b"word word"),
        ("handle_over_tokens", 100, b"total_rows"),
        ("compact", {"fields": ["score"]}, b'[{\\"score\\":0}'),
        ("compact", {"budget_tokens": 1000}, b"dropped_fields"),
    ],
)
def test_keys_of_folding(tmp_path: Path, key: str, value: Any, shown: bytes) -> None:
    folded = made(tmp_path, {"fold": {}})
    changed = made(tmp_path, {"fold": {key: value}})
    assert folded.count(b"processed") > 0
    assert changed.count(shown) > folded.count(shown)


def names(data: bytes) -> list[str]:
    return [tool["function"]["name"] for tool in json.loads(data)["tools"]]


@pytest.mark.proves("context.tools.enabled")
@pytest.mark.proves("context.tools.always_included")
@pytest.mark.proves("context.tools.use_prediction")
@pytest.mark.proves("context.tools.include_fallback")
@pytest.mark.proves("context.tools.limit")
@pytest.mark.parametrize(
    ("key", "value", "left"),
    [
        ("enabled", False, list(TOOLS)),
        ("always_included", ["cron"], ["cron", "search_flights", "zebra", "tool_search"]),
        ("use_prediction", False, ["read", "zebra", "tool_search"]),
        ("include_fallback", False, ["read", "search_flights", "zebra"]),
    ],
)
def test_keys_of_the_tool_filter(tmp_path: Path, key: str, value: Any, left: list[str]) -> None:
    assert names(made(tmp_path, {"tools": {}})) == ["read", "search_flights", "zebra", "tool_search"]
    assert names(made(tmp_path, {"tools": {key: value}})) == left


def test_at_most_limit_tools_are_predicted() -> None:
    wanted = b'{"tools":[%b],"messages":[{"role":"user","content":"the tool"}]}' % b",".join(
        b'{"type":"function","function":{"name":"%b","description":"The tool %b"}}' % (n, n)
        for n in (b"a", b"b", b"c")
    )
    few, many = (ToolFilter(ToolsConfig(limit=n)).filter(wanted, format="openai").report for n in (1, 3))
    assert len(few["predicted"]) <= 1 <= len(many["predicted"])


@pytest.mark.proves("context.tools.skip_prediction_on_tool_results")
def test_prediction_can_go_on_while_tools_are_called(tmp_path: Path) -> None:
    key = "skip_prediction_on_tool_results"
    assert "search_flights" not in names(made(tmp_path, {"tools": {}}, last_is_result=True))
    assert "search_flights" in names(made(tmp_path, {"tools": {key: False}}, last_is_result=True))


@pytest.mark.proves("context.tools.predictor")
def test_another_predictor_than_the_search_needs_a_function() -> None:
    with pytest.raises(WrongOption, match=r"options.predictor: llm"):
        ToolFilter({"predictor": "llm"}).filter(request())
    assert (
        ToolFilter({"predictor": "llm"}, predictor=lambda question: []).filter(request()).report["predicted"]
        == []
    )


@pytest.mark.proves("context.tools.max_retries")
def test_so_many_repeats_are_allowed() -> None:
    assert [ToolFilter({"max_retries": 1}).may_repeat(n) for n in (0, 1)] == [True, False]
    assert [ToolFilter().may_repeat(n) for n in (1, 2)] == [True, False]


@pytest.mark.proves("context.cache.enabled")
def test_marks_are_on_where_nothing_is_written(tmp_path: Path) -> None:
    given = b'{"max_tokens":1,"system":"S","messages":[{"role":"user","content":"hi"}]}'
    path = tmp_path / "config.yaml"
    for written, marked in (
        ("context: {}", True),
        ("context: {cache: }", True),
        ("context: {cache: {enabled: false}}", False),
    ):
        path.write_text(written)
        steps = Steps(load_config(path, environ={}).config.context)
        assert (b"cache_control" in steps.run(given, "anthropic", Session()).request) is marked
