"""The acceptance cases: those of the command run through it, those of the library by its functions."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from fixtures.context_cases import case, cases, request_text
from fixtures.context_checks import CHECKS, Ran
from gatemini.cli.main import main
from gatemini.context import (
    FilterMetrics,
    Question,
    Session,
    TurnMeter,
    cache_savings,
    caps,
    compact_rows,
    filter_tools,
    parse_request,
    prediction_prompt,
)
from gatemini.context.meter import Part, spent
from gatemini.context.request.json_places import read_json


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state directory of this test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "gatemini" / "context"


class _Stdin:
    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)


def run(
    case: dict[str, Any], data: bytes, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> tuple[int, str, str]:
    """The command on these bytes: exit code, stdout, stderr."""
    monkeypatch.setattr(sys, "stdin", _Stdin(data))
    arguments = ["context", case["op"], "--format", case["format"], "--options", json.dumps(case["options"])]
    with pytest.raises(SystemExit) as left:
        main(arguments)
    captured = capfd.readouterr()
    assert isinstance(left.value.code, int)
    return left.value.code, captured.out, captured.err


@pytest.mark.parametrize("case", [c for c in cases("cli") if c["kind"] != "input.bad"], ids=lambda c: c["id"])
@pytest.mark.usefixtures("state")
def test_the_command_gives_what_a_case_expects(
    case: dict[str, Any], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(data: bytes) -> tuple[bytes, dict[str, Any]]:
        code, out, err = run(case, data, capfd, monkeypatch)
        assert code == 0, err
        answer = read_json(out.encode())
        assert answer is not None
        made, report = answer.get("request"), answer.get("report")
        assert made is not None
        assert report is not None
        return made.written, report.value()

    given = request_text(case)
    made, report = step(given)
    ran = Ran(case["format"], given, made, report, lambda data: step(data)[0])
    for expected in case["expect"]:
        CHECKS[expected["check"]](ran, **{key: value for key, value in expected.items() if key != "check"})


@pytest.mark.parametrize("case", cases("cli", "input.bad"), ids=lambda c: c["id"])
def test_the_command_refuses_what_is_no_request_and_names_the_field(
    case: dict[str, Any], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = run(case, request_text(case), capfd, monkeypatch)
    exit_code, *named = case["expect"]
    assert code == exit_code["code"]
    assert out == ""
    assert all(any(name in err for name in each["any"]) for each in named)


def request_of(names: list[str]) -> bytes:
    tools = [{"type": "function", "function": {"name": name, "description": name * 30}} for name in names]
    return json.dumps({"tools": tools, "messages": [{"role": "user", "content": "go"}]}).encode()


def names_of(data: bytes) -> list[str]:
    return [tool["function"]["name"] for tool in json.loads(data)["tools"]]


@pytest.mark.parametrize("case", cases("library", "filter.failure"), ids=lambda c: c["predictor"])
def test_a_prediction_that_fails_keeps_all_tools_and_is_counted(case: dict[str, Any]) -> None:
    def predictor(question: Question) -> str:
        kind, _, what = case["predictor"].partition(" ")
        if kind == "raises":
            raise {"TimeoutError": TimeoutError, "ConnectionError": ConnectionError}[what]
        return str(what.strip("'"))

    made, report = filter_tools(request_of(case["tools"]), format="openai", predictor=predictor)
    assert names_of(made) == case["tools"]
    assert report["prediction_failures"] == 1


@pytest.mark.parametrize("name", ["filter-unknown-predicted", "filter-empty-prediction"])
def test_unknown_names_are_dropped_and_an_empty_prediction_is_one(name: str) -> None:
    found = case(name)
    made, report = filter_tools(
        request_of(found["tools"]), format="openai", predictor=lambda question: found["predictor_returns"]
    )
    assert sorted(names_of(made)) == sorted(found["values"]["included"])
    assert report["prediction_failures"] == 0


def test_the_prompt_for_a_model_lists_tools_query_and_the_last_two_messages() -> None:
    found = case("prompt-text")
    request = parse_request(request_of(["cron", "browser"]), "openai")
    prompt = prediction_prompt(Question(request.tools, found["user_query"], found["messages"]))
    assert "- cron: croncron" in prompt
    assert "- browser: browser" in prompt
    assert all(text in prompt for text in found["prompt_has"][1:])
    assert not any(text in prompt for text in found["prompt_lacks"])


def test_metrics_of_predictions_and_fallbacks() -> None:
    found = case("metrics")
    metrics = FilterMetrics(
        requests=found["requests"], requests_with_fallback=found["requests_with_fallback"]
    )
    metrics.predicted = len(found["predicted"])
    metrics.record_used(found["predicted"], found["used"])
    totals = metrics.totals()
    assert {key: totals[key] for key in found["values"]} == found["values"]


def test_the_caps_without_an_old_message_are_those_of_one() -> None:
    found = case("caps-13")
    made = caps(found["call"]["budget_tokens"], found["call"]["old"])
    assert {key: getattr(made, key) for key in found["values"]} == found["values"]


def test_rows_are_cut_in_steps_of_a_fifth() -> None:
    sequence = case("compact-steps")["values"]["kept_sequence"]
    rows = [{"id": "x" * 40} for _ in range(sequence[0])]
    row_bytes = len(b'{"id":"","x"}') + 40
    for kept in sequence:
        budget = (kept * (row_bytes - 2) + 4) // 4
        assert compact_rows(rows, ["id"], budget)["returned_rows"] <= kept
    found = {compact_rows(rows, ["id"], tokens)["returned_rows"] for tokens in range(1, 4000, 5)}
    assert found == set(sequence)


def test_the_arithmetic_of_a_cached_prefix() -> None:
    found = case("cache-arithmetic")["values"]
    made = cache_savings(found["static_kb"], found["requests"], found["discount"])
    assert made == {
        "without": found["without_kb"],
        "with": found["with_kb"],
        "saved": found["saved_kb"],
        "saved_pct": found["saved_pct"],
    }


def test_folding_sends_each_result_of_the_six_turns_once() -> None:
    found = case("meter-fold")["values"]
    stub = 15
    sent = [
        (1, 1240, None),
        (2, 48560, stub),
        (3, 2500, None),
        (4, 49600, stub),
        (5, 2600, None),
        (6, 600, None),
    ]
    turns = spent([Part(*part) for part in sent], 6, fold=True)
    assert turns == found["turns"]
    assert TurnMeter(turns).total == found["total"]


def test_a_session_adds_behind_what_it_was_sent() -> None:
    names = ["zeta", "read", "alpha", "exec", "omega"]
    session = Session()
    for predicted, expected in (
        (["zeta"], ["exec", "read", "zeta"]),
        (["alpha"], ["exec", "read", "zeta", "alpha"]),
    ):
        made, _ = filter_tools(
            request_of(names), format="openai", session=session, predictor=lambda question, p=predicted: p
        )
        assert names_of(made) == [*expected, "tool_search"]
