"""Journals: which session may resume a chain, for how long, and within how much memory."""

import pytest

from gatemini.chain.replay import journals_in_memory as journals_module
from gatemini.chain.replay.journals_in_memory import KEPT_SECONDS, Journal, JournalBook, SessionJournals
from gatemini.chain.replay.outcome import Fate, Outcome
from gatemini.chain.replay.recorded_calls import MOST_BYTES, Entry, RecordedCalls
from gatemini.errors import ResumeRefused
from gatemini.model import Tool

WRITE = Tool("demo", "write")
READ = Tool("demo", "read", annotations={"readOnlyHint": True})
PUT = Tool("demo", "put", annotations={"idempotentHint": True})


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def session(clock: Clock) -> SessionJournals:
    return JournalBook(clock).session()


def interrupted(session: SessionJournals, code: str = "code", size: int = 0) -> Journal:
    journal = session.begin(code)
    answered(journal.trace, 1, WRITE, "x" * size)
    session.end(journal, interrupted="was over its time")
    return journal


def issued(trace: RecordedCalls, ident: int, tool: Tool, *, sent: bool = True) -> Entry:
    entry = trace.issue(ident, "tool", tool.backend, tool.name, b'{"n":%d}' % ident, raw=False)
    if sent:
        entry.sending(tool)
    return entry


def answered(trace: RecordedCalls, ident: int, tool: Tool, value: object = 1) -> Entry:
    entry = issued(trace, ident, tool)
    trace.answer(entry, Outcome(True, value))
    trace.deliver([ident])
    return entry


def why(session: SessionJournals, ident: str, code: str = "code") -> str:
    with pytest.raises(ResumeRefused) as refusal:
        session.resume(ident, code)
    return refusal.value.message


# -- the book ----------------------------------------------------------------------------------------------


def test_a_journal_is_there_for_an_hour_from_its_end(session: SessionJournals, clock: Clock) -> None:
    ident = interrupted(session).id
    clock.now = KEPT_SECONDS - 1
    journal = session.resume(ident, "code")
    session.end(journal, interrupted="was cancelled")
    clock.now += KEPT_SECONDS - 1  # the hour starts again with each use
    session.end(session.resume(ident, "code"), interrupted="was cancelled")
    clock.now += KEPT_SECONDS + 1
    assert "was kept for 60 minutes and is gone" in why(session, ident)
    assert not session.kept


def test_a_journal_is_used_only_by_its_own_session(session: SessionJournals, clock: Clock) -> None:
    book = JournalBook(clock)
    mine, other = book.session(), book.session()
    ident = interrupted(mine).id
    assert "belongs to another session" in why(other, ident)
    assert mine.resume(ident, "code").id == ident


def test_the_oldest_journals_are_dropped_when_a_session_keeps_too_much(
    session: SessionJournals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals_module, "SESSION_BYTES", 100_000)
    idents = [interrupted(session, size=20_000).id for _ in range(8)]
    assert session.bytes <= 100_000
    assert "make room for those of later chains" in why(session, idents[0])
    assert session.resume(idents[-1], "code").id == idents[-1]


def test_sessions_share_the_memory_of_all_journals(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journals_module, "TOTAL_BYTES", 100_000)
    book = JournalBook(clock)
    first, second = book.session(), book.session()
    ident = interrupted(first, size=60_000).id
    interrupted(second, size=60_000)
    assert "of other sessions" in why(first, ident)
    assert first.bytes == 0


def test_many_small_chains_stay_within_the_memory_of_journals(
    session: SessionJournals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals_module, "MOST_JOURNALS", 10)
    monkeypatch.setattr(journals_module, "REMEMBERED_IDS", 20)
    idents = [interrupted(session).id for _ in range(100)]
    assert len(session.kept) == 10
    assert "make room" in why(session, idents[85])
    assert "knows no such chain" in why(session, idents[0])


def test_a_chain_with_more_than_a_journal_holds_says_so_when_it_is_interrupted(
    session: SessionJournals,
) -> None:
    journal = session.begin("code")
    for ident in range(1, 4):
        answered(journal.trace, ident, WRITE, "x" * (MOST_BYTES // 2))
    assert sum(len(e.text or "") for e in journal.trace.entries.values()) <= MOST_BYTES
    assert "more than a journal holds (32 MiB)" in journal.how_to_resume()
    session.end(journal, interrupted="was over its time")
    assert "more than a journal holds" in why(session, journal.id)
    assert session.bytes == 0


def test_ending_a_journal_twice_counts_it_once(session: SessionJournals) -> None:
    journal = session.begin("code")
    session.end(journal)
    session.end(journal, interrupted="was cancelled")
    assert journal.why == ""
    assert session.bytes == journal.size


def test_a_closed_session_keeps_nothing_of_a_chain_that_still_ran(session: SessionJournals) -> None:
    journal = session.begin("code")
    session.close()
    session.end(journal, interrupted="was cancelled", answered=False)
    assert "its session has ended" in why(session, journal.id)


def test_only_interrupted_chains_that_sent_something_are_named_later(session: SessionJournals) -> None:
    quiet, loud = session.begin("a"), session.begin("b")
    answered(loud.trace, 1, WRITE)
    for journal in (quiet, loud):
        session.end(journal, interrupted="was cancelled", answered=False)
    assert session.unnamed() == [loud]
    assert session.unnamed() == []


# -- what may be repeated ------------------------------------------------------------------------------------

Calls = list[tuple[Tool, bool, Fate | None]]
"""Tool, whether it was sent, and how far it came; None while it is open."""


def recorded(calls: Calls, *, finished: bool = False) -> RecordedCalls:
    """Record calls; a finished trace has not delivered the calls that a timeout cut off."""
    trace = RecordedCalls(finished=finished)
    for ident, (tool, sent, fate) in enumerate(calls, 1):
        entry = issued(trace, ident, tool, sent=sent)
        if fate is not None:
            trace.answer(entry, Outcome(fate is Fate.ANSWERED, {}, fate=fate))
            if not (finished and fate is Fate.CUT):
                trace.deliver([ident])
    return trace


def composite(inner: Calls) -> RecordedCalls:
    trace = recorded([(Tool("__composite", "t"), False, None)])
    trace.entries[1].inner = recorded(inner)
    return trace


@pytest.mark.parametrize(
    ("trace", "resumable"),
    [
        (recorded([(WRITE, True, None)]), False),
        (recorded([(READ, True, None)]), True),
        (recorded([(PUT, True, None)]), True),
        (recorded([(WRITE, False, None)]), True),
        (recorded([(WRITE, True, Fate.FAILED)]), False),
        (recorded([(WRITE, True, Fate.CUT)]), False),
        (recorded([(WRITE, True, Fate.CUT)], finished=True), False),
        (recorded([(READ, True, Fate.CUT)], finished=True), True),
        (recorded([(WRITE, True, Fate.FAILED)], finished=True), True),
        (recorded([(WRITE, True, Fate.FAILED), (READ, True, Fate.ANSWERED)]), True),
        (recorded([(WRITE, True, Fate.FAILED), (WRITE, False, Fate.CUT)]), True),
        (composite([(WRITE, True, None)]), False),
        (composite([(WRITE, True, Fate.ANSWERED)]), True),
    ],
)
def test_a_chain_is_resumed_only_where_nothing_can_happen_twice(
    trace: RecordedCalls, resumable: bool
) -> None:
    assert (trace.lost() is None) is resumable
    if resumable:
        trace.rewind()
    else:
        with pytest.raises(ResumeRefused, match="sent and never answered"):
            trace.rewind()


def test_a_caught_failure_is_answered_from_the_journal() -> None:
    trace = recorded([(WRITE, True, Fate.FAILED), (READ, True, Fate.ANSWERED)])
    trace.rewind()
    assert trace.steps == [(1,), (2,)]
    issued(trace, 1, WRITE, sent=False)
    (entry,) = trace.next_step()
    assert entry.fate is Fate.FAILED


def test_calls_cut_off_by_a_timeout_are_sent_again_and_the_clock_continues() -> None:
    trace = RecordedCalls()
    answered(trace, 1, WRITE)
    trace.answer(issued(trace, 2, READ), Outcome(False, {}, fate=Fate.CUT))
    trace.deliver([2], clock=3)
    issued(trace, 3, WRITE, sent=False)  # the code tried something else after the deadline
    trace.ended([10, 20, 30, 40, 50])
    trace.rewind()
    assert list(trace.entries) == [1, 2]
    assert trace.steps == [(1,), ()]
    assert list(trace.readings) == [10, 20, 30]
