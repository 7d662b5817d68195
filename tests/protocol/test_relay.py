"""Notifications during a call: growing progress, log messages from the client's level up, no secrets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemini.backends.calls.callers import LEVELS
from gatemini.chain.client import CallRecord
from gatemini.config.variables.redaction import Redactor
from gatemini.protocol.relay import PROGRESS_SECONDS, Relay, Steps, progress_token

RECORD = CallRecord(1, "b", "b.t", 0.0, "error: key s3cretvalue refused", 5.0)

reports = st.tuples(st.floats(), st.none() | st.floats())


@given(st.lists(reports | st.none(), max_size=400))
def test_progress_grows_with_each_report_and_whole_numbers_are_finished_calls(
    told: list[tuple[float, float | None] | None],
) -> None:
    steps, shown, done = Steps(), [0.0], 0
    for report in told:
        if report is None:
            done += 1
            shown.append(steps.finished())
            assert shown[-1] == done
        elif (step := steps.within(*report)) is not None:
            shown.append(step)
            assert done < step < done + 1
    assert shown == sorted(set(shown))


def relayed(**keys: Any) -> tuple[Relay, list[tuple[str, Any]]]:
    sent: list[tuple[str, Any]] = []
    redactor = Redactor()
    redactor.add([("KEY", "s3cretvalue")])
    settings = {"token": 0, "log_level": "info", "modern": False, **keys}
    return Relay(lambda method, params: sent.append((method, params)), redactor, **settings), sent


@pytest.mark.anyio
async def test_no_secret_leaves_in_progress_or_logs() -> None:
    relay, sent = relayed()
    relay.call_progress(RECORD, 1, 2, "s3cretvalue")
    await progress_is_due()
    relay.call_done(RECORD)
    relay.tell("b", "notifications/message", {"level": "error", "data": {"deep": ["s3cretvalue"]}})
    await progress_is_due()
    assert len(sent) == 3
    assert "s3cretvalue" not in repr(sent)


async def progress_is_due() -> None:
    """Return when a progress message that waits now has been sent."""
    due = anyio.Event()
    asyncio.get_running_loop().call_later(PROGRESS_SECONDS, due.set)
    await due.wait()


@pytest.mark.anyio
async def test_of_progress_that_comes_at_once_only_the_last_is_sent() -> None:
    relay, sent = relayed()
    for _ in range(500):
        relay.call_done(RECORD)
    assert sent == []
    await progress_is_due()
    assert [params["progress"] for _, params in sent] == [500.0]


@pytest.mark.anyio
@pytest.mark.parametrize("end", [Relay.drop_progress, lambda relay: relay.follow(None)])
async def test_progress_is_dropped_once_the_answer_is_ready(end: Callable[[Relay], None]) -> None:
    relay, sent = relayed()
    relay.call_done(RECORD)
    end(relay)
    await progress_is_due()
    assert sent == []


@pytest.mark.parametrize("level", [*LEVELS, None])
def test_logs_below_the_wanted_level_are_kept_back(level: str | None) -> None:
    relay, sent = relayed(log_level=level)
    for said in LEVELS:
        relay.tell("b", "notifications/message", {"level": said, "data": said, "logger": "db"})
    wanted = () if level is None else LEVELS[LEVELS.index(level) :]
    assert tuple(params["level"] for _, params in sent) == wanted
    assert {params["logger"] for _, params in sent} <= {"b/db"}


def test_the_stateless_revision_gets_no_notification_it_does_not_know() -> None:
    relay, sent = relayed(modern=True)
    relay.tell("b", "notifications/elicitation/complete", {"elicitationId": "e"})
    assert sent == []


def test_zero_is_a_progress_token_and_true_is_not() -> None:
    assert [progress_token(m) for m in (None, {}, {"progressToken": 0}, {"progressToken": True})] == [
        None,
        None,
        0,
        None,
    ]
