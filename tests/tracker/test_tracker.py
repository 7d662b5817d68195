"""Every answer and call is counted; latency to three digits; stats add up."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from gatemini.tracker import Histogram, Tracker

NOON = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def tracker(clock: Clock | None = None) -> Tracker:
    return Tracker(clock=clock or Clock(), now=lambda: NOON)


def test_stats_add_up_per_tool_and_in_total() -> None:
    clock = Clock()
    counts = tracker(clock)
    counts.record_answer("search_tools", 500, 500, "a")
    counts.record_answer("call_tool_chain", 100_000, 2_000, "a")
    counts.record_answer("call_tool_chain", 50_000, 1_000, "b")
    clock.now += 60
    stats = counts.stats()
    assert stats["uptime_seconds"] == 60
    assert stats["total_calls"] == 3
    assert stats["total_bytes_processed"] == 150_500
    assert stats["total_bytes_returned"] == 3_500
    assert stats["savings_ratio"] == 43.0
    assert stats["reduction_pct"] == 97.7
    assert stats["estimated_tokens_saved"] == (150_500 - 3_500) // 4
    assert stats["per_tool"] == [
        {"tool": "call_tool_chain", "calls": 2, "processed": 150_000, "returned": 3_000},
        {"tool": "search_tools", "calls": 1, "processed": 500, "returned": 500},
    ]


def test_per_call_shows_the_staircase_of_each_sessions_context() -> None:
    counts = tracker()
    for session, returned in (("a", 10), ("b", 5), ("a", 20), ("a", 30)):
        counts.record_answer("call_tool_chain", 100, returned, session)
    assert [(c["session"], c["context"]) for c in counts.stats()["per_call"]] == [
        ("a", 10), ("b", 5), ("a", 30), ("a", 60),
    ]  # fmt: skip
    assert [c["context"] for c in counts.stats("a")["per_call"]] == [10, 30, 60]
    assert counts.stats("a")["total_calls"] == 3


def test_answers_to_other_requests_than_tool_calls_do_not_count_as_calls() -> None:
    counts = tracker()
    counts.record_answer("tools/list", 40, 40, "a", called=False)
    counts.record_answer("search_tools", 2, 2, "a")
    for stats in (counts.stats(), counts.stats("a")):
        assert (stats["total_calls"], stats["total_answers"], stats["total_bytes_returned"]) == (1, 2, 42)
        assert [call["tool"] for call in stats["per_call"]] == ["tools/list", "search_tools"]


def test_only_the_last_two_hundred_answers_and_five_hundred_calls_are_listed() -> None:
    counts = tracker()
    for n in range(600):
        counts.record_answer("search_tools", n, n)
        counts.record_call(f"x.t{n}", "x", 1, True)
    listed = counts.stats()["per_call"]
    assert len(listed) == 200
    assert listed[-1]["n"] == 600
    assert counts.stats()["total_calls"] == 600
    assert len(counts.recent(9999)) == 500
    assert [call["tool"] for call in counts.recent(2)] == ["x.t599", "x.t598"]


def test_a_call_is_listed_with_tool_backend_when_how_long_and_how_it_ended() -> None:
    counts = tracker()
    counts.record_call("demo.echo", "demo", 12.34567, False, 99)
    assert counts.recent() == [
        {"tool": "demo.echo", "backend": "demo", "when": "2026-01-02T12:00:00.000Z", "ms": 12.346, "ok": False, "bytes": 99}
    ]  # fmt: skip


def test_nothing_counted_yet_is_zero_and_no_division_fails() -> None:
    stats = tracker().stats()
    assert stats["savings_ratio"] == stats["reduction_pct"] == 0
    assert tracker().latency("none") == {"calls": 0, "p50_ms": 0, "p95_ms": 0, "p99_ms": 0}


def test_a_reduction_of_100_percent_means_that_nothing_was_returned() -> None:
    counts = tracker()
    counts.set_catalog_bytes(400_000)
    counts.record_answer("call_tool_chain", 1_000_000, 6)
    assert counts.stats()["reduction_pct"] == 99.9
    assert counts.stats()["full_tool_list"] == {"bytes": 400_000, "estimated_tokens": 100_000}


def test_an_ended_session_leaves_its_share_in_the_whole() -> None:
    counts = tracker()
    counts.record_answer("search_tools", 10, 10, "a")
    counts.end_session("a")
    assert counts.stats()["sessions"] == 0
    assert counts.stats()["total_calls"] == 1
    assert counts.stats("a")["total_calls"] == 0


@given(
    st.lists(st.floats(0.001, 600_000), min_size=1, max_size=200), st.sampled_from([50.0, 95.0, 99.0, 100.0])
)
def test_a_percentile_is_the_true_one_to_three_digits(values: list[float], percent: float) -> None:
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    rank = max(1, -(-len(values) * percent // 100))
    true = sorted(values)[int(rank) - 1]
    assert abs(histogram.percentile(percent) - true) <= max(true / 1000, 0.001)


def test_values_outside_the_range_count_as_its_ends() -> None:
    histogram = Histogram()
    histogram.record(0)
    assert histogram.percentile(50) == 0.001
    histogram.record(10_000_000)
    assert 599_000 <= histogram.percentile(100) <= 601_000


def test_usage_counts_successes_and_survives_a_restart() -> None:
    first = tracker()
    first.record_call("a.b", "a", 1, True)
    first.record_call("a.b", "a", 1, True)
    first.record_call("a.c", "a", 1, False)
    second = tracker()
    second.load_usage({**first.dump_usage(), "bad": -1, "worse": "3", "worst": True})
    assert second.own_usage() == {}
    second.record_call("a.b", "a", 1, True)
    assert second.usage == {"a.b": 3}
    assert second.own_usage() == {"a.b": 1}
