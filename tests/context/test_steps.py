"""The steps together and what each takes from its surroundings: a counter, the messages before, the last request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gatemini.cli.llm_proxy import switched_on
from gatemini.config.model.context import ContextConfig, FoldConfig
from gatemini.context import (
    FoldOptions,
    Session,
    SessionStore,
    Steps,
    compact_results,
    filter_tools,
    fold_results,
    mark_cache,
    measure_turns,
    parse_request,
    question_of,
    trim_history,
)

ROWS = json.dumps([{"id": n, "text": "word " * 40} for n in range(300)])


def conversation(**members: Any) -> dict[str, Any]:
    """A request to Anthropic: a result that was read, answers, a question; six tools."""
    used = {"type": "tool_use", "id": "c1", "name": "read", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": ROWS}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Read it."},
        {"role": "assistant", "content": [used]},
        {"role": "user", "content": [result]},
    ]
    for number in range(5):
        messages.append({"role": "assistant", "content": f"answer {number} " + "so " * 100})
        messages.append({"role": "user", "content": f"question {number}"})
    tools = [{"name": name, "description": "d" * 200} for name in ("a", "b", "c", "d", "e", "read")]
    return {"model": "m", "max_tokens": 9, "system": "S", "tools": tools, "messages": messages, **members}


def test_a_request_is_folded_then_trimmed_then_filtered_then_marked() -> None:
    config = ContextConfig.model_validate(
        {"history": {}, "fold": {}, "tools": {"use_prediction": False}, "cache": {}}
    )
    data = json.dumps(conversation()).encode()
    made, report = Steps(config).run(data, "anthropic", Session())
    request = json.loads(made)
    assert list(report) == ["fold", "trim", "filter", "mark"]
    # Folded, the history is within its budget: trimming finds nothing left to do.
    assert report["fold"]["result_tokens_before"] > 16_000
    assert report["trim"]["tokens_before"] < 16_000
    # What folding added stays in the filter, and the marker is on the last tool that is sent.
    assert [tool["name"] for tool in request["tools"]] == ["fetch_rows", "read", "tool_search"]
    assert ["cache_control" in tool for tool in request["tools"]] == [False, False, True]


@pytest.mark.parametrize("step", [trim_history, fold_results, filter_tools, mark_cache, compact_results])
def test_a_step_whose_options_say_so_changes_no_byte(step: Any) -> None:
    data = json.dumps(conversation(), indent=3).encode()
    assert step(data, {"enabled": False}, format="anthropic").request is data


def test_the_callers_counter_decides() -> None:
    def letters(text: str) -> int:
        return len(text)

    request = {"messages": [{"role": "user", "content": "é" * 90}, {"role": "assistant", "content": "ok"}]}
    options = {"max_history_tokens": 60, "keep_recent_exchanges": 0}
    assert trim_history(request, options).report["tokens_before"] == 45 + 1
    assert trim_history(request, options, count=letters).report["tokens_before"] == 90 + 2
    assert measure_turns(request, count=letters).report["turns"] == [90]
    tool = {"role": "tool", "tool_call_id": "c", "content": "é" * 90}
    spent = {"messages": [request["messages"][0], tool, request["messages"][1]]}
    reports = [
        fold_results(spent, {"min_tokens": 60}, store=SessionStore(), **how).report
        for how in ({}, {"count": letters})
    ]
    assert [report["folded"] for report in reports] == [0, 1]


def test_a_prediction_reads_the_users_last_words_and_the_two_messages_before() -> None:
    said = [("user", "one"), ("assistant", "two"), ("user", "three"), ("assistant", "four"), ("user", "five")]
    messages = [{"role": role, "content": text} for role, text in said]
    messages.append({"role": "assistant", "content": "six"})
    question = question_of(parse_request(json.dumps({"messages": messages}).encode(), "openai"))
    assert (question.query, question.before) == ("five", ("three", "four"))


def test_the_report_says_whether_the_prefix_is_that_of_the_last_request() -> None:
    session = Session()
    changed = conversation(system="T")
    reports = [
        mark_cache(request, session=session).report
        for request in (conversation(), conversation(messages=[]), changed)
    ]
    assert [report["same_prefix_as_last"] for report in reports] == [None, True, False]
    sent = json.dumps(conversation()["tools"], separators=(",", ":"))
    assert reports[0]["stable_prefix_bytes"] == len(sent) + len('"S"')


def test_the_proxy_leaves_small_and_recent_results_alone_and_the_library_none() -> None:
    assert (FoldConfig().min_tokens, FoldConfig().keep_turns) == (2_000, 3)
    assert (FoldOptions().min_tokens, FoldOptions().keep_turns) == (0, 0)


@pytest.mark.parametrize(
    ("written", "options", "on"),
    [
        ({}, [], {"cache"}),
        ({"cache": {"enabled": False}}, [], set()),
        ({"fold": {}}, [], {"fold"}),
        ({"fold": {}, "tools": {"enabled": False}}, [], {"fold"}),
        ({}, ["--fold"], {"fold", "cache"}),
        ({"history": {"enabled": False}}, ["--trim"], {"history"}),
        ({"tools": {}}, ["--trim"], {"tools", "history"}),
        ({}, ["--all"], {"history", "fold", "tools", "cache"}),
    ],
)
def test_a_section_is_on_where_it_is_written_or_an_option_says_so(
    written: dict[str, Any], options: list[str], on: set[str]
) -> None:
    sections = {"--trim": ["history"], "--fold": ["fold"], "--all": ["history", "fold", "tools"]}
    chosen = [section for option in options for section in sections[option]]
    config = switched_on(ContextConfig.model_validate(written), chosen, cache="--all" in options)
    data = json.dumps(conversation()).encode()
    report = Steps(config).run(data, "anthropic", Session()).report
    names = {"fold": "fold", "trim": "history", "filter": "tools", "mark": "cache"}
    assert {names[step] for step, did in report.items() if did.get("enabled", True)} == on
