"""Journals of chains: the calls of each run, kept with its session for an hour, so that it can be resumed.

`JournalBook` holds the journals of all sessions, so that a refusal can give its reason: another session's, expired, dropped. A journal is used
only when `// @resume <id>` names it. Pure but for the clock.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from gatemini.chain.replay.journal_file import JournalWriter
from gatemini.chain.replay.recorded_calls import MOST_BYTES, RecordedCalls
from gatemini.chain.replay.records import Begun, Ended, Rewound, code_hash
from gatemini.chain.replay.refusal_texts import KNOWN_FIRST
from gatemini.errors import ResumeRefused

KEPT_SECONDS = 3600.0
"""How long a journal is kept after its chain has ended."""

SESSION_BYTES = 64 << 20
"""Size of the journals of one session; the oldest are dropped first."""

TOTAL_BYTES = 256 << 20
"""Size of the journals of all sessions together."""

MOST_JOURNALS = 1_000
"""Journals kept of one session."""

REMEMBERED_IDS = 10_000
"""Ids of chains whose journal is gone that are remembered, with the reason."""

JOURNAL_BYTES = 1_000
"""Size of a journal before its first call."""

TOO_LARGE = f"the results of its calls were more than a journal holds ({MOST_BYTES >> 20} MiB)"


@dataclass(slots=True)
class Journal:
    """One chain: its id, the hash of its code, the trace of its run."""

    id: str
    code: bytes
    dry: bool = False
    trace: RecordedCalls = field(default_factory=RecordedCalls)
    why: str = ""
    """What interrupted the chain."""
    used: float = 0.0

    @property
    def size(self) -> int:
        return JOURNAL_BYTES + self.trace.meter.bytes

    def leave(self) -> None:
        """Write nothing any more: the file is for a later process."""
        if self.trace.file is not None:
            self.trace.file.write()
            self.trace.keep_in(None)

    def how_to_resume(self) -> str:
        """Return the sentence for an interrupted chain's answer: how to resume it by its id, or why that is impossible."""
        if self.trace.meter.full:
            return f"chain {self.id} cannot be resumed: {TOO_LARGE}"
        if (lost := self.trace.lost()) is not None:
            return (
                f"chain {self.id} cannot be resumed: {lost.call()} was sent and never answered; "
                "find out whether it happened before you call it again"
            )
        done = self.trace.done
        calls = "1 call that finished is" if done == 1 else f"the {done} calls that finished are"
        kept = f"{calls} answered from its journal, not made again" if done else "nothing of it is done yet"
        return f"to go on where it stopped, send the same code with `// @resume {self.id}` as its first line ({kept})"


def new_chain() -> str:
    """Return an id for a chain that is about to begin."""
    return "chain_" + secrets.token_hex(4)


class JournalBook:
    """All journals of one gateway. `clock` counts seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.owners: dict[str, SessionJournals] = {}
        self.gone: OrderedDict[str, str] = OrderedDict()
        self._kept: OrderedDict[str, SessionJournals] = OrderedDict()  # the longest unused first
        self._bytes = 0

    def session(self) -> SessionJournals:
        """Return the journals of a new session, kept in memory only."""
        return SessionJournals(self)

    def keep(self, journal: Journal, owner: SessionJournals, idle_seconds: float = 0.0) -> None:
        """Add an ended chain's journal and drop what is over a limit."""
        journal.used = self.clock() - idle_seconds
        owner.kept[journal.id] = journal
        owner.bytes += journal.size
        self._kept[journal.id] = owner
        self._bytes += journal.size
        if journal.trace.meter.full:
            self.drop(journal.id, TOO_LARGE)
        while owner.bytes > SESSION_BYTES or len(owner.kept) > MOST_JOURNALS:
            self.drop(next(iter(owner.kept)), "its journal had to make room for those of later chains")
        while self._bytes > TOTAL_BYTES:
            self.drop(next(iter(self._kept)), "its journal had to make room for those of other sessions")
        self.sweep()

    def take(self, ident: str) -> None:
        """Take out the journal of a chain that runs again: it grows, and must not be dropped."""
        owner = self._kept.pop(ident)
        journal = owner.kept.pop(ident)
        owner.bytes -= journal.size
        self._bytes -= journal.size

    def drop(self, ident: str, why: str) -> None:
        journal = self._kept[ident].kept[ident]
        self.take(ident)
        self.forget(ident, why)
        if journal.trace.file is not None:
            journal.trace.file.drop()

    def forget(self, ident: str, why: str) -> None:
        """Forget a journal and remember why its chain cannot be resumed."""
        self.owners.pop(ident, None)
        self.gone[ident] = why
        while len(self.gone) > REMEMBERED_IDS:
            self.gone.popitem(last=False)

    def sweep(self) -> None:
        """Drop journals that have expired."""
        limit = self.clock() - KEPT_SECONDS
        while self._kept:
            ident, owner = next(iter(self._kept.items()))
            if owner.kept[ident].used > limit:
                return
            self.drop(ident, f"its journal was kept for {KEPT_SECONDS / 60:.0f} minutes and is gone")


class SessionJournals:
    """The journals that one session may resume."""

    def __init__(self, book: JournalBook) -> None:
        self._book = book
        self.running: dict[str, Journal] = {}
        self._unnamed: list[Journal] = []
        self._named: list[Journal] = []
        self._closed = False
        self.new_file: Callable[[str], JournalWriter] | None = None
        """Makes the file of a chain, where the session may be continued by a later process."""
        self.load: Callable[[str], Awaitable[Journal | None]] | None = None
        """Reads the journal of a chain that another replica may have gone on with. Raises ResumeRefused."""
        self.kept: OrderedDict[str, Journal] = OrderedDict()
        self.bytes = 0

    def begin(self, code: str, *, dry: bool = False, ident: str | None = None) -> Journal:
        """Return a journal for a new run of `code` (its identity); `ident`: the id that it is to have."""
        journal = Journal(ident or new_chain(), code_hash(code), dry)
        if self.new_file is not None and not dry:
            journal.trace.file = self.new_file(journal.id)
            journal.trace.file.put(Begun(journal.code))
            journal.trace.file.write()  # from here on its client knows the id
        self.running[journal.id] = journal
        self._book.owners[journal.id] = self
        return journal

    async def reach(self, ident: str) -> None:
        """Have the journal of a chain as it is now, where other replicas write it too. Raises ResumeRefused."""
        if self.load is None or ident in self.running:
            return
        journal = await self.load(ident)
        if journal is not None and ident not in self.running:
            if ident in self.kept:
                self._book.take(ident)
            self.take_back(journal, 0.0)

    def resume(self, ident: str, code: str) -> Journal:
        """Return the journal of that chain, rewound and running again. Raises ResumeRefused with the reason."""
        self._book.sweep()
        owner = self._book.owners.get(ident)
        if owner is None:
            unknown = (
                "this gateway knows no such chain: the id is misspelled, or the gateway was restarted since"
            )
            raise _refused(ident, self._book.gone.get(ident, unknown))
        if owner is not self:
            raise _refused(ident, "it belongs to another session")
        if ident in self.running:
            raise _refused(ident, "it is still running")
        journal = self.kept[ident]
        if journal.code != code_hash(code):
            raise _refused(
                ident,
                "this is not the code it ran",
                hint=f"send exactly the same code under `// @resume {ident}`, or without it to start anew",
            )
        try:
            journal.trace.rewind()
        except ResumeRefused as exc:
            raise _refused(ident, exc.message, hint=exc.hint) from exc
        self._book.take(ident)
        self.running[ident] = journal
        if journal.trace.file is not None:
            journal.trace.file.put(Rewound())
            journal.trace.file.write()
        return journal

    def end(self, journal: Journal, *, interrupted: str = "", answered: bool = True) -> None:
        """End a run. `interrupted` names the cause; `answered`: an answer with its id is sent."""
        if self.running.pop(journal.id, None) is None:
            return
        journal.why = interrupted
        if interrupted and not answered and not journal.dry:
            self._unnamed.append(journal)
        if interrupted and self.load is not None:
            self._named.append(journal)
        journal.trace.finished = not interrupted
        if journal.trace.file is not None:
            journal.trace.file.put(Ended(interrupted, time.time()))
            journal.trace.file.write()
        if journal.dry:
            self._book.forget(
                journal.id, "it was a dry run, which made none of the calls that change something"
            )
        elif self._closed:
            self._book.forget(journal.id, "its session has ended")
            if journal.trace.file is not None:
                journal.trace.file.drop()
        else:
            self._book.keep(journal, self)

    async def written(self) -> None:
        """Wait until other replicas can resume the chains that were interrupted here."""
        while self._named:
            file = self._named.pop().trace.file
            if file is not None:
                await file.written()

    def unnamed(self) -> list[Journal]:
        """Return interrupted chains that no answer has named yet; they count as named from now on."""
        found, self._unnamed = self._unnamed, []
        return [j for j in found if j.id in self.kept and any(e.sent for e in j.trace.entries.values())]

    def take_back(self, journal: Journal, idle_seconds: float) -> None:
        """Keep a journal of this session that an earlier process left so long ago. The longest unused come first."""
        self._book.owners[journal.id] = self
        self._book.keep(journal, self, idle_seconds)

    def leave(self) -> None:
        """Leave the files of all journals to a later process."""
        self.new_file = None
        for journal in (*self.kept.values(), *self.running.values()):
            journal.leave()

    def close(self) -> None:
        """Drop the session's journals."""
        self._closed = True
        for ident in list(self.kept):
            self._book.drop(ident, "its session has ended")


def _refused(ident: str, why: str, *, hint: str | None = None) -> ResumeRefused:
    return ResumeRefused(
        f"chain {ident} cannot be resumed: {why}",
        hint=hint or KNOWN_FIRST,
    )
