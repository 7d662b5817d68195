"""Journals in a store that replicas share: which replica may go on with a chain, and what counts of what several wrote."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from gatemini.chain.replay import journals_in_memory
from gatemini.chain.replay.journals_in_memory import Journal, JournalBook, SessionJournals
from gatemini.chain.replay.shared_journals import SessionSharedJournals, SharedJournals
from gatemini.errors import ResumeRefused, StateUnavailable
from gatemini.state.memory import MemoryStore

pytestmark = pytest.mark.anyio


class Store(MemoryStore):
    """A store that can be away, with or without having done what it was asked."""

    away = ""

    async def append(self, key: str, values: object, ttl: float, most: int = 0) -> int:
        if self.away == "before":
            raise StateUnavailable("away")
        length = await super().append(key, values, ttl, most)  # type: ignore[arg-type]
        if self.away == "after":
            raise StateUnavailable("away")
        return length


class Cluster:
    """Replicas in one process; `dead` names those that are gone."""

    def __init__(self) -> None:
        self.store = Store()
        self.dead: set[str] = set()

    async def alive(self, replica: str) -> bool:
        return replica not in self.dead

    @asynccontextmanager
    async def session(self, replica: str) -> AsyncIterator[SessionJournals]:
        """The journals of one session, as a replica has them."""
        shared = SharedJournals(self.store, replica, self.alive)
        own = SessionSharedJournals(shared, "s")
        journals = JournalBook().session()
        journals.new_file, journals.load = own.file, own.load
        async with anyio.create_task_group() as tasks:
            await tasks.start(shared.run)
            yield journals
            tasks.cancel_scope.cancel()


async def taken_over(
    cluster: Cluster, first: SessionJournals, second: SessionJournals
) -> tuple[Journal, Journal]:
    """A chain of the replica `a`, which counts as gone then, and the same as a second replica resumes it."""
    journal = first.begin("code")
    await journal.trace.flush(sure=True)
    cluster.dead.add("a")
    await second.reach(journal.id)
    return journal, second.resume(journal.id, "code")


async def test_a_chain_that_still_runs_is_resumed_nowhere_else() -> None:
    cluster = Cluster()
    async with cluster.session("a") as first, cluster.session("b") as second:
        journal = first.begin("code")
        await journal.trace.flush(sure=True)
        with pytest.raises(ResumeRefused, match="still running"):
            await second.reach(journal.id)
        first.end(journal, interrupted="was cancelled")
        await journal.trace.flush(sure=True)
        await second.reach(journal.id)
        assert second.resume(journal.id, "code").why == "was cancelled"


async def test_a_replica_that_was_only_paused_makes_no_call_of_a_chain_that_another_has_taken_over() -> None:
    cluster = Cluster()
    async with cluster.session("a") as first, cluster.session("b") as second:
        journal, taken = await taken_over(cluster, first, second)
        await taken.trace.flush(sure=True)
        journal.trace.deliver([])
        with pytest.raises(ResumeRefused, match="another replica has resumed it"):
            await journal.trace.flush(sure=True)
        taken.trace.deliver([])
        await taken.trace.flush(sure=True)
        second.end(taken)
        await taken.trace.flush(sure=True)
        async with cluster.session("c") as third:
            await third.reach(journal.id)
            found = third.kept[journal.id]
            assert (found.trace.finished, len(found.trace.steps)) == (True, 1)


async def test_of_two_replicas_that_resume_a_chain_at_once_one_goes_on() -> None:
    cluster = Cluster()
    async with cluster.session("a") as first:
        journal = first.begin("code")
        await journal.trace.flush(sure=True)
    cluster.dead.add("a")
    async with cluster.session("b") as second, cluster.session("c") as third:
        await second.reach(journal.id)
        await third.reach(journal.id)
        winner, loser = second.resume(journal.id, "code"), third.resume(journal.id, "code")
        await winner.trace.flush(sure=True)
        with pytest.raises(ResumeRefused, match="another replica has resumed it"):
            await loser.trace.flush(sure=True)
        winner.trace.deliver([])
        await winner.trace.flush(sure=True)


@pytest.mark.parametrize("away", ["before", "after"])
async def test_a_call_waits_for_its_record_and_an_append_that_is_repeated_counts_once(away: str) -> None:
    cluster = Cluster()
    async with cluster.session("a") as first, cluster.session("b") as second:
        journal = first.begin("code")
        await journal.trace.flush(sure=True)
        cluster.store.away = away
        journal.trace.deliver([])
        with pytest.raises(StateUnavailable):
            await journal.trace.flush(sure=True)
        cluster.store.away = ""
        journal.trace.deliver([])
        await journal.trace.flush(sure=True)
        cluster.dead.add("a")
        await second.reach(journal.id)
        assert len(second.kept[journal.id].trace.steps) == 2


async def test_a_journal_that_makes_room_for_later_ones_is_deleted_unless_another_replica_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journals_in_memory, "MOST_JOURNALS", 2)
    cluster = Cluster()
    cluster.dead.add("a")
    async with cluster.session("a") as first, cluster.session("b") as second:
        ended = []
        for number in range(2):
            journal = first.begin(f"code {number}")
            first.end(journal, interrupted="was cancelled")
            await journal.trace.flush(sure=True)
            ended.append(journal.id)
        await second.reach(ended[1])
        again = second.resume(ended[1], "code 1")
        await again.trace.flush(sure=True)
        for number in range(2):
            first.end(first.begin(f"later {number}"), interrupted="")
        with anyio.fail_after(20):
            while await cluster.store.entries(f"journal:s:{ended[0]}"):  # noqa: ASYNC110 - there is no event
                await anyio.sleep(0.001)
        assert await cluster.store.entries(f"journal:s:{ended[1]}")


async def test_a_replica_that_another_has_overtaken_deletes_nothing_of_what_that_one_wrote() -> None:
    cluster = Cluster()
    async with cluster.session("a") as first, cluster.session("b") as second:
        journal, taken = await taken_over(cluster, first, second)
        second.end(taken, interrupted="was cancelled")
        await taken.trace.flush(sure=True)
        journal.trace.deliver([])
        with pytest.raises(ResumeRefused, match="another replica has resumed it"):
            await journal.trace.flush(sure=True)
        assert journal.trace.file is not None
        await journal.trace.file.remove()  # type: ignore[attr-defined]
        async with cluster.session("c") as third:
            await third.reach(journal.id)
            assert journal.id in third.kept


async def test_a_journal_without_its_beginning_is_a_refusal_that_says_so() -> None:
    cluster = Cluster()
    async with cluster.session("a") as first, cluster.session("b") as second:
        journal = first.begin("code")
        await journal.trace.flush(sure=True)
        await cluster.store.delete(f"journal:s:{journal.id}")  # as where the server of the store starts empty
        journal.trace.deliver([])
        await journal.trace.flush(sure=True)
        cluster.dead.add("a")
        with pytest.raises(ResumeRefused, match="has lost its beginning"):
            await second.reach(journal.id)
