"""What fold and trim take out can be read again: by handle, row by row, for an hour."""

from __future__ import annotations

import json
import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from gatemini.context import (
    Session,
    Sessions,
    SessionStore,
    StateStore,
    Store,
    fetch_rows,
    fold_results,
    parse_request,
    session_key,
    trim_history,
)
from gatemini.errors import ResultGone
from gatemini.output.store.results import IDLE_SECONDS, ResultStore

ROWS = [{"id": n, "name": f"row {n}"} for n in range(100)]


@pytest.fixture(params=["session", "state"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return SessionStore() if request.param == "session" else StateStore(tmp_path)


def conversation(result: str, call_id: str = "c1") -> dict[str, Any]:
    call = {"id": call_id, "type": "function", "function": {"name": "f", "arguments": "{}"}}
    return {
        "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call_id, "content": result},
            {"role": "assistant", "content": "read"},
        ]
    }


def test_rows_of_a_folded_result_are_fetched_forty_at_most(store: Store) -> None:
    (handle,) = fold_results(conversation(json.dumps(ROWS)), store=store).report["handles"]
    answer = json.loads(fetch_rows(store, {"handle": handle, "offset": 0, "limit": 100}))
    assert answer["rows"] == ROWS[:40]
    assert (answer["total_rows"], answer["next_offset"]) == (100, 40)
    assert json.loads(fetch_rows(store, {"handle": handle, "offset": 90}))["rows"] == ROWS[90:]


def test_rows_of_a_text_are_its_lines(store: Store) -> None:
    (handle,) = fold_results(conversation("one\ntwo\n" + "x" * 100), store=store).report["handles"]
    assert json.loads(fetch_rows(store, {"handle": handle, "limit": 2}))["rows"] == ["one", "two"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"handle": "res_0badcafe"}, "handle res_0badcafe does not exist in this run"),
        ({"handle": "../secret"}, "handle ../secret does not exist in this run"),
        ({}, "needs a handle"),
        ("[", "needs a handle"),
    ],
)
def test_the_model_gets_an_error_for_a_handle_that_is_none(store: Store, arguments: Any, said: str) -> None:
    assert said in json.loads(fetch_rows(store, arguments))["error"]


def test_a_wrong_offset_is_an_error_for_the_model(store: Store) -> None:
    handle = store.keep("c", b"[1]")
    assert "offset" in json.loads(fetch_rows(store, {"handle": handle, "offset": -1}))["error"]


def test_the_same_result_has_the_same_handle_and_another_call_another(store: Store) -> None:
    text = json.dumps(ROWS)
    first, again, other = (
        fold_results(conversation(text, call_id), store=store).request for call_id in ("c1", "c1", "c2")
    )
    assert first == again
    assert first["messages"][2]["content"] != other["messages"][2]["content"]


def test_parallel_results_without_ids_keep_their_own_handles(store: Store) -> None:
    answer = {"functionResponse": {"name": "f", "response": {"result": "same " * 50}}}
    request = {
        "contents": [
            {"role": "user", "parts": [{"text": "go"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}] * 2},
            {"role": "user", "parts": [answer, answer]},
            {"role": "model", "parts": [{"text": "read"}]},
        ]
    }
    made = fold_results(request, store=store).request
    assert made == fold_results(request, store=store).request
    first, second = (part["functionResponse"]["response"]["handle"] for part in made["contents"][2]["parts"])
    assert first != second


def test_files_of_the_state_directory_are_private_and_last_an_hour(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    store = StateStore(folder)
    handle = store.keep("c1", b"[1,2]")
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    old = time.time() - IDLE_SECONDS - 1
    os.utime(folder / handle, (old, old))
    with pytest.raises(ResultGone):
        store.rows(handle)
    StateStore(folder).keep("c2", b"[3]")
    assert not (folder / handle).exists()


def test_another_run_finds_what_the_state_directory_has(tmp_path: Path) -> None:
    handle = StateStore(tmp_path).keep("c1", b'[{"a":1}]')
    assert StateStore(tmp_path).rows(handle)["rows"] == [{"a": 1}]
    assert StateStore(tmp_path).keep("c1", b'[{"a":1}]') == handle


def test_handles_of_a_session_are_not_those_of_the_gateways_own_results() -> None:
    results = ResultStore()
    theirs = results.save([1, 2, 3])
    store = SessionStore(results)
    ours = store.keep("c1", b"[4]")
    assert ours != theirs
    assert not store.has(theirs)
    assert results.load(ours) == [4]


def test_results_are_described_before_the_model_reads_them(store: Store) -> None:
    request = conversation(json.dumps(ROWS))
    del request["messages"][3]
    options = {"handle_over_tokens": 200, "keep_turns": 5}
    made, report = fold_results(request, options, store=store, fetch_tool=True)
    body = json.loads(made["messages"][2]["content"])
    assert body["total_rows"] == 100
    assert body["schema"] == {"id": "integer", "name": "string"}
    assert made["tools"][-1]["function"]["name"] == report["fetch_rows"] == "fetch_rows"
    assert json.loads(fetch_rows(store, {"handle": body["handle"], "limit": 1}))["rows"] == ROWS[:1]
    # Read and folded, it keeps the handle of the whole.
    made["messages"].append({"role": "assistant", "content": "read"})
    assert fold_results(made, store=store).report["handles"] == [body["handle"]]


def test_a_tools_own_answer_with_a_handle_is_folded_like_any_other(store: Store) -> None:
    text = json.dumps({"handle": "res_11111111", "total_rows": 7, "rows": ["x" * 100]})
    (handle,) = fold_results(conversation(text), store=store).report["handles"]
    assert handle != "res_11111111"


def test_our_fetch_rows_takes_another_name_where_the_client_has_one(store: Store) -> None:
    own = {"type": "function", "function": {"name": "fetch_rows"}}
    request = {**conversation(json.dumps(ROWS)), "tools": [own]}
    made, report = fold_results(request, store=store, fetch_tool=True)
    assert made["tools"][0] == own
    assert made["tools"][1]["function"]["name"] == report["fetch_rows"] == "gatemini_fetch_rows"


def test_what_trimming_takes_out_lies_under_the_handles_of_its_markers(store: Store) -> None:
    messages = [
        {"role": role, "content": f"{role} {n} " + "word " * 400}
        for n in range(30)
        for role in ("user", "assistant")
    ]
    options = {"max_history_tokens": 3000, "keep_recent_exchanges": 2}
    made, report = trim_history({"messages": messages}, options, store=store, mark_dropped=True)
    assert report["dropped"] > 0 < report["capped"]
    assert report["tokens_after"] <= 3000
    first, capped = made["messages"][0]["content"], made["messages"][1]["content"]
    dropped = json.loads(fetch_rows(store, {"handle": first.split()[-1].rstrip("]"), "limit": 1}))
    assert dropped["total_rows"] == report["dropped"]
    assert dropped["rows"] == messages[:1]
    handle = capped.partition("cut: ")[2][:12]
    whole = messages[len(messages) - len(made["messages"]) + 1]["content"]
    assert json.loads(fetch_rows(store, {"handle": handle}))["rows"] == [whole]


def test_messages_of_many_blocks_meet_the_budget_too() -> None:
    blocks = [{"type": "text", "text": "word " * 20} for _ in range(60)]
    said = [{"role": "user", "content": blocks}, {"role": "assistant", "content": "x" * 9000}] * 3
    request = {"max_tokens": 1, "system": "s", "messages": [*said, {"role": "user", "content": "end"}]}
    options = {"max_history_tokens": 600, "keep_recent_exchanges": 1}
    made, report = trim_history(request, options)
    assert report["tokens_after"] <= 600
    assert trim_history(made, options).request == made


def test_a_session_idle_for_an_hour_is_forgotten() -> None:
    now = 0.0
    sessions = Sessions(clock=lambda: now)
    kept = sessions.get("a")
    kept.added.append("cron")
    now += IDLE_SECONDS - 1
    assert sessions.get("a") is kept
    sessions.get("b")
    now += IDLE_SECONDS
    assert sessions.get("a").added == []
    assert len(sessions) == 1


def test_a_session_is_known_by_its_header_else_by_its_beginning() -> None:
    def key(system: str, first: str, last: str, header: str | None = None) -> str:
        said = [("system", system), ("user", first), ("assistant", "a"), ("user", last)]
        data = json.dumps({"messages": [{"role": role, "content": text} for role, text in said]})
        return session_key(parse_request(data.encode(), "openai"), header)

    assert key("s", "q", "1") == key("s", "q", "2")
    assert len({key("s", "q", "1"), key("t", "q", "1"), key("s", "r", "1"), key("s", "q", "1", "x")}) == 4
    assert Session().store is not Session().store


def test_a_cache_marker_that_a_client_moves_on_does_not_change_the_session() -> None:
    def key(first: Any, system: Any) -> str:
        said = [{"role": "user", "content": first}, {"role": "assistant", "content": "a"}]
        request = {"max_tokens": 1, "system": system, "messages": said}
        return session_key(parse_request(json.dumps(request).encode(), "anthropic"))

    marker = {"cache_control": {"type": "ephemeral"}}
    text, image = {"type": "text", "text": "q"}, {"type": "image", "source": {"data": "A"}}
    plain = key([text], "S")
    assert key([{**text, **marker}], [{"type": "text", "text": "S", **marker}]) == plain
    assert key("q", "S") == plain
    assert len({plain, key([text, image], "S"), key([text], "T"), key("qS", "")}) == 4
