"""Journals on disk: what a killed process leaves of its chains, and what is refused of it."""

import errno
import os
import time
from pathlib import Path

import pytest

from gatemini.chain.replay import segment, stored_journals
from gatemini.chain.replay.journals_in_memory import KEPT_SECONDS, Journal, JournalBook, SessionJournals
from gatemini.chain.replay.outcome import Fate, Outcome
from gatemini.chain.replay.recorded_calls import MOST_BYTES, Entry
from gatemini.chain.replay.stored_journals import CUT_OFF, StoredJournals
from gatemini.daemon.sessions.seal import Seal
from gatemini.errors import ResumeRefused
from gatemini.model import Tool

pytestmark = pytest.mark.anyio

WRITE = Tool("demo", "write")
NOTES = ("a note",)


def session(stored: StoredJournals) -> SessionJournals:
    """A session of a process that has just started, with what an earlier one left."""
    made = JournalBook().session()
    made.new_file = stored.file
    for journal, idle in stored.load():
        made.take_back(journal, idle)
    return made


def files(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def sent(journal: Journal, ident: int, *, size: int = 0) -> Entry:
    trace = journal.trace
    entry = trace.issue(ident, "tool", "demo", "write", b'{"n":%d}' % ident, raw=False)
    entry.sending(WRITE)
    await trace.sending(entry)
    if size:
        trace.answer(entry, Outcome(True, "x" * size, NOTES))
        trace.deliver([ident])
        await trace.flush()
    return entry


async def test_a_later_process_has_what_was_sent_and_what_was_answered(tmp_path: Path) -> None:
    journal = session(StoredJournals(tmp_path, None)).begin("code")
    await sent(journal, 1, size=5)
    [(left, _)] = StoredJournals(tmp_path, None).load()
    answer = Outcome(True, "xxxxx", NOTES, '"xxxxx"', Fate.ANSWERED)
    assert left.trace.entries[1].outcome() == answer
    await sent(journal, 2)
    with pytest.raises(ResumeRefused, match=r"write\(\{\"n\":2\}\) was sent and never answered"):
        session(StoredJournals(tmp_path, None)).resume(journal.id, "code")


async def test_a_large_answer_and_the_small_ones_behind_it_are_kept_in_order(tmp_path: Path) -> None:
    journal = session(StoredJournals(tmp_path, None)).begin("code")
    await sent(journal, 1, size=1 << 20)
    await sent(journal, 2, size=5)
    [(left, _)] = StoredJournals(tmp_path, None).load()
    assert [len(e.text or "") for e in left.trace.entries.values()] == [(1 << 20) + 2, 7]
    assert left.trace.steps == [(1,), (2,)]
    assert left.size == journal.size


async def test_a_batch_that_was_not_written_to_its_end_is_cut_off(tmp_path: Path) -> None:
    journal = session(StoredJournals(tmp_path, None)).begin("code")
    await sent(journal, 1, size=5)
    [path] = files(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole + b"\0\0\1\0half")
    later = session(StoredJournals(tmp_path, None))
    assert path.read_bytes() == whole
    later.end(later.resume(journal.id, "code"), interrupted="was cancelled")
    assert session(StoredJournals(tmp_path, None)).kept[journal.id].why == "was cancelled"


async def test_chains_share_files_which_go_with_the_last_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_journals, "SEGMENT_BYTES", 1000)
    owner = session(StoredJournals(tmp_path, None))
    made = [owner.begin("code") for _ in range(4)]
    for journal in made:
        await sent(journal, 1, size=900)
        owner.end(journal)
    assert len(files(tmp_path)) == 1
    owner.end(owner.begin("code"))
    assert len(files(tmp_path)) == 2
    owner.close()
    assert files(tmp_path) == []


async def test_what_is_sealed_is_read_with_its_key_only(tmp_path: Path) -> None:
    folder, other = tmp_path / "journals", Seal(tmp_path / "other")
    folder.mkdir()
    journal = session(StoredJournals(folder, Seal(tmp_path / "key"))).begin("code")
    await sent(journal, 1, size=50)
    [path] = files(folder)
    data = path.read_bytes()
    assert b"xxxxx" not in data
    assert journal.id.encode() not in data
    assert [left.id for left, _ in StoredJournals(folder, Seal(tmp_path / "key")).load()] == [journal.id]
    assert StoredJournals(folder, other).load() == []
    assert files(folder) == []


async def test_a_batch_that_is_missing_makes_the_file_unusable(tmp_path: Path) -> None:
    journal = session(StoredJournals(tmp_path, None)).begin("code")
    await sent(journal, 1, size=5)
    [path] = files(tmp_path)
    data = path.read_bytes()
    size = int.from_bytes(data[:4], "big") + 4
    second = int.from_bytes(data[size : size + 4], "big") + 4
    path.write_bytes(data[:size] + data[size + second :])
    assert StoredJournals(tmp_path, None).load() == []
    assert not path.exists()


async def test_a_full_disk_costs_the_journal_and_not_the_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str | None] = []
    owner = session(StoredJournals(tmp_path, None, told.append))
    journal = owner.begin("code")

    def full(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(segment.os, "write", full)
        await sent(journal, 1, size=5)
    assert files(tmp_path) == []
    assert "No space left" in str(told[-1])
    owner.end(journal, interrupted="was over its time")
    assert owner.resume(journal.id, "code").trace.done == 1
    await sent(owner.begin("code"), 1)
    assert told[-1] is None


async def test_a_chain_with_more_than_a_journal_holds_is_not_resumed_by_a_later_process(
    tmp_path: Path,
) -> None:
    journal = session(StoredJournals(tmp_path, None)).begin("code")
    await sent(journal, 1, size=MOST_BYTES)
    later = session(StoredJournals(tmp_path, None))
    with pytest.raises(ResumeRefused, match="more than a journal holds"):
        later.resume(journal.id, "code")
    assert files(tmp_path) == []


async def test_a_chain_that_ended_an_hour_ago_is_not_taken_back(tmp_path: Path) -> None:
    owner = session(StoredJournals(tmp_path, None))
    ended, cut = owner.begin("code"), owner.begin("code")
    owner.end(ended)
    left = {journal.id: (journal.why, idle) for journal, idle in StoredJournals(tmp_path, None).load()}
    assert left[ended.id][0] == ""
    assert left[cut.id][0] == CUT_OFF
    [path] = files(tmp_path)
    long_ago = time.time() - KEPT_SECONDS - 1
    os.utime(path, (long_ago, long_ago))
    assert [journal.id for journal, _ in StoredJournals(tmp_path, None).load()] == [ended.id]


@pytest.mark.parametrize("left", [b"", b"\0\0\0\3abc", os.urandom(64), b"\xff\xff\xff\xff"])
def test_files_of_something_else_are_removed(tmp_path: Path, left: bytes) -> None:
    (tmp_path / f"1{stored_journals.SUFFIX}").write_bytes(left)
    assert StoredJournals(tmp_path, None).load() == []
    assert files(tmp_path) == []
