"""Record the calls of one run and the answers it got, and replay them when an interrupted chain is resumed.

The record only grows. `rewind` prepares it for another run: the batches of answers that the code got are given again in the
same order, each call that the code issues must be the one it issued before, and only a call that was never answered is
made.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from gatemini.chain.replay.call_text import shown
from gatemini.chain.replay.journal_file import LARGE_BYTES, JournalWriter
from gatemini.chain.replay.outcome import Fate, Outcome
from gatemini.chain.replay.records import Called, Clock, Opened, Started, Stepped, TooLarge
from gatemini.chain.replay.refusal_texts import differs, unanswered
from gatemini.model import READ_RESOURCE, Tool
from gatemini.output.json.javascript_json import loads_exact
from gatemini_sandbox.messages import Start

ENTRY_BYTES = 500
"""What one call costs beside its result: the objects around it."""

READ_ANEW_CHARS = 64 * 1024
"""What the code only read out of the session's own results is not kept a second time from this size on."""

MOST_BYTES = 32 << 20
"""Results one chain's journal may hold; beyond, nothing is kept of it and it cannot be resumed."""


@dataclass(slots=True)
class Meter:
    """Bytes of one journal, composite tools inside it included."""

    bytes: int = 0

    @property
    def full(self) -> bool:
        return self.bytes > MOST_BYTES


class Entry(msgspec.Struct, gc=False):
    """One message of the code: its call, and what became of it. `id` is its place in order of issue.

    Journals hold thousands of them for an hour. They form no cycles, and the collector need not walk through them:
    with 15,000 it took 88 ms, as long as ten chains of 50 calls.
    """

    id: int
    name: str
    digest: bytes
    shown: str
    step: int
    """How many batches of answers the code had got when it issued this."""
    fate: Fate = Fate.OPEN
    sent: bool = False
    """Whether a backend may have seen it."""
    repeatable: bool = False
    """Whether its tool is read-only or idempotent by its annotations."""
    read_only: bool = False
    ok: bool = True
    text: str | None = None
    notes: tuple[str, ...] = ()
    read_anew: bool = False
    """Its answer is not kept: it is read once more where it came from."""
    place: int = 0
    """Its place in order of completion."""
    inner: RecordedCalls | None = None
    """The run of a composite tool."""

    @property
    def answered(self) -> bool:
        return self.fate is Fate.ANSWERED

    def sending(self, tool: Tool) -> None:
        """From here on a backend may have seen it."""
        self.sent, self.repeatable, self.read_only = True, tool.repeatable, tool.read_only

    def outcome(self) -> Outcome:
        """The recorded outcome, as it was."""
        text = self.text if self.text is not None else "null"
        if self.ok and len(text) > LARGE_BYTES and not text.startswith('"'):
            return Outcome(True, None, self.notes, text, self.fate, written=True)
        return Outcome(self.ok, loads_exact(text), self.notes, text, self.fate)

    def call(self) -> str:
        return f"{self.name}({self.shown})"

    def record(self, path: tuple[int, ...]) -> Called:
        """Return the record of its present state, in the run that `path` leads to."""
        return Called(
            path,
            self.id,
            self.name,
            self.digest,
            self.shown,
            self.step,
            self.fate,
            self.sent,
            self.repeatable,
            self.read_only,
            self.ok,
            self.text,
            self.notes,
            self.read_anew,
            self.place,
        )

    @classmethod
    def of(cls, record: Called, inner: RecordedCalls | None) -> Entry:
        """Return the call of a record; `inner` is its composite tool's run so far."""
        return cls(
            record.id,
            record.name,
            record.digest,
            record.shown,
            record.step,
            record.fate,
            record.sent,
            record.repeatable,
            record.read_only,
            record.ok,
            record.text,
            record.notes,
            record.read_anew,
            record.place,
            None if record.fate is Fate.ANSWERED else inner,
        )


@dataclass(slots=True)
class RecordedCalls:
    """One run of code: its start, its calls by id, the batches of answers it got."""

    meter: Meter = field(default_factory=Meter)
    source: bytes = b""
    """Hash of the code, for composite tools."""
    path: tuple[int, ...] = ()
    """The calls of composite tools around it."""
    file: JournalWriter | None = None
    """Where all that is recorded is kept for a later process."""
    start: Start | None = None
    entries: dict[int, Entry] = field(default_factory=dict)
    steps: list[tuple[int, ...]] = field(default_factory=list)
    """The ids answered together, in order; an empty one is a timer of the code's that was due."""
    marks: list[int] = field(default_factory=list)
    """How often the code had read the clock when each of these steps began."""
    readings: Sequence[int] = ()
    """What it read there, in nanoseconds."""
    finished: bool = False
    """It ended by itself: then every answer is given again, also that of a call that failed."""
    _given: int = 0
    """Steps to be given again in this run, and how many of them have been."""
    _again: int = 0
    _before: set[int] = field(default_factory=set)
    """Recorded calls the code has not issued again yet."""
    _tentative: set[int] = field(default_factory=set)
    """Calls issued for the first time before the record was known to hold."""
    _completed: int = 0
    _written_readings: int = 0
    """Readings of the clock that the file has."""

    # -- recording -----------------------------------------------------------------------------------

    def issue(self, ident: int, kind: str, backend: str, tool: str, text: bytes, *, raw: bool) -> Entry:
        """Note a call, or find the recorded one it repeats; `text` is the JSON of its arguments. Raises ResumeRefused
        where the two differ."""
        head = f"{kind}\0{backend}\0{tool}\0{raw}\0".encode("utf-8", "replace")
        digest = hashlib.blake2b(head + text, digest_size=16).digest()
        name = tool if kind == "tool" and not backend else f"{backend or kind}.{tool or READ_RESOURCE}"
        if ident in self._before:
            self._before.discard(ident)
            known = self.entries[ident]
            if known.digest != digest:
                raise differs(f"call {ident} was {known.call()} and is now {name}({shown(text)})")
            return known
        if self.replaying:
            raise differs(f"{name}({shown(text)}) was not called at this point")
        entry = Entry(ident, name, digest, shown(text), len(self.steps))
        self.entries[ident] = entry
        self.meter.bytes += ENTRY_BYTES
        if self._before:
            self._tentative.add(ident)
        else:
            self._write(entry)
        return entry

    def inner(self, entry: Entry, source: bytes) -> RecordedCalls:
        """Begin the record of a composite tool's run."""
        entry.inner = RecordedCalls(self.meter, source, (*self.path, entry.id), self.file)
        if self.file is not None:
            self.file.put(Opened(entry.inner.path, source))
        return entry.inner

    def keep_in(self, file: JournalWriter | None) -> None:
        """Have what is recorded from now on kept there, that of composite tools' runs included."""
        self.file = file
        for entry in self.entries.values():
            if entry.inner is not None:
                entry.inner.keep_in(file)

    def started(self, start: Start) -> None:
        """Note the start message of the guest."""
        self.start = start
        if self.file is not None:
            large = start.catalog is not None or start.interfaces is not None
            self.file.put(Started(self.path, start), LARGE_BYTES + 1 if large else 0)

    def read_clock(self, readings: Sequence[int]) -> None:
        """Note what the code has read of the clock so far, unless it is still being given what it got before."""
        if self.replaying or self._before or self.file is None:
            return
        if len(readings) > self._written_readings:
            more = array("Q", readings[self._written_readings :])
            self.file.put(Clock(self.path, more.tobytes()), 8 * len(more))
            self._written_readings = len(readings)

    async def sending(self, entry: Entry) -> None:
        """Have the call on record before a backend may see it."""
        self._write(entry)
        await self.flush(sure=not entry.repeatable)

    async def flush(self, *, sure: bool = False) -> None:
        """Have on record what was noted: answers before the code gets them. `sure`: others must know it by then."""
        if self.file is not None:
            await self.file.flush(sure=sure)

    def _write(self, entry: Entry) -> None:
        if self.file is not None:
            self.file.put(entry.record(self.path), len(entry.text or ""))

    def answer(self, entry: Entry, outcome: Outcome, *, kept: bool = False) -> str:
        """Note the outcome of a call; return its JSON text, but a text of over MOST_BYTES as it is.

        `kept`: it is kept elsewhere and can be read anew.
        """
        # Of a text that the journal cannot keep, no JSON is written: 40 MB of it take 20 ms.
        long = outcome.text is None and isinstance(outcome.value, str) and len(outcome.value) > MOST_BYTES
        text = outcome.value if long else outcome.json()
        entry.read_anew = kept and len(text) >= READ_ANEW_CHARS
        self._completed += 1
        entry.fate, entry.ok, entry.notes, entry.place = (
            outcome.fate,
            outcome.ok,
            outcome.notes,
            self._completed,
        )
        if not entry.read_anew:
            self.meter.bytes += len(text)
            entry.text = None if self.meter.full else text
        if entry.answered and entry.inner is not None:
            entry.sent, entry.inner = entry.inner.done > 0, None
        self._write(entry)
        if self.meter.full and self.file is not None:
            self.file.put(TooLarge())
        return text

    def deliver(self, idents: Sequence[int], clock: int = 0) -> None:
        """Note which answers the code gets together, next; it has read the clock that often until now."""
        self.steps.append(tuple(idents))
        self.marks.append(clock)
        self.meter.bytes += 24 + 8 * len(idents)
        if self.file is not None:
            self.file.put(Stepped(self.path, tuple(idents), clock))

    def ended(self, readings: Sequence[int]) -> None:
        """Note that the run is over, and what it has read of the clock."""
        if self.replaying or self._before:
            return  # it was cut off before it came to anything new
        self.meter.bytes += 8 * (len(readings) - len(self.readings))
        self.readings = array("Q", readings)
        self.read_clock(readings)

    def last(self, name: str) -> str | None:
        """The JSON text of what the last call of that name returned, if it is kept."""
        return next((e.text for e in reversed(self.entries.values()) if e.name == name and e.ok), None)

    def results(self, name: str) -> list[str] | None:
        """The JSON texts of all that calls of that name returned; None if one is not kept."""
        texts = [e.text for e in self.entries.values() if e.name == name and e.ok and e.answered]
        kept = [text for text in texts if text is not None]
        return kept if len(kept) == len(texts) else None

    # -- giving it again -----------------------------------------------------------------------------

    @property
    def replaying(self) -> bool:
        return self._again < self._given

    @property
    def lacking(self) -> bool:
        """Whether the code has still to issue a recorded call before the record can go on."""
        awaited = self.steps[self._again] if self.replaying else self._before
        return any(ident in self._before for ident in awaited)

    @property
    def at_timer(self) -> bool:
        """Whether a timer of the code's was due next."""
        return self.replaying and not self.steps[self._again]

    def next_step(self) -> list[Entry]:
        """The entries of the next recorded batch. Raises ResumeRefused if the code did not issue one of them."""
        idents = self.steps[self._again]
        self._again += 1
        for ident in idents:
            if ident in self._before:
                raise differs(f"{self.entries[ident].call()} was called and now is not")
        return [self.entries[ident] for ident in idents]

    def go_on(self) -> None:
        """The record is used up: from here on calls are made. Raises ResumeRefused if one was not issued again."""
        if self._before:
            raise differs(f"{self.entries[min(self._before)].call()} was called and now is not")
        for ident in sorted(self._tentative):
            self._write(self.entries[ident])
        self._tentative.clear()

    def lost(self) -> Entry | None:
        """A call that was sent, never answered, and must not be repeated; None if it can be resumed."""
        last, cut = self._reach()
        after = [e for e in self.entries.values() if cut and e.step >= last]
        return next(
            (e for e in self._deep([*self._to_repeat(), *after]) if e.sent and not e.repeatable), None
        )

    def rewind(self) -> None:
        """Make it ready to be run again. Raises ResumeRefused for a call that must not be repeated."""
        for ident in self._tentative:  # of a run that was refused: it was never made
            del self.entries[ident]
        self._tentative.clear()
        if (entry := self.lost()) is not None:
            raise unanswered(entry.call())
        again = {entry.id for entry in self._to_repeat()}
        last, cut = self._reach()
        if last and again & set(self.steps[last - 1]):  # from here on the code goes another way
            self.readings = self.readings[: self.marks[last - 1]]
        self.steps = [tuple(i for i in step if i not in again) for step in self.steps[:last]]
        self.marks = self.marks[:last]
        if cut:  # what was issued when the time was over never left: the code will issue it anew
            self.entries = {i: e for i, e in self.entries.items() if e.step < last}
        for entry in self.entries.values():
            if entry.id in again:
                entry.fate, entry.text, entry.sent = Fate.OPEN, None, False
                if entry.inner is not None:
                    entry.inner.rewind()
        self.finished = False
        self._written_readings = len(self.readings)
        self._completed = max((entry.place for entry in self.entries.values()), default=0)
        self._given, self._again = len(self.steps), 0
        self._before = set(self.entries)

    def _reach(self) -> tuple[int, bool]:
        """How many steps count, and whether the last of them has an answer only because time was over."""
        for number, step in enumerate(self.steps, 1):
            if any(self.entries[i].fate is Fate.CUT for i in step):
                return number, True
        return len(self.steps), False

    def _to_repeat(self) -> list[Entry]:
        """Calls without an answer, but for those of which the code got the failure and went on."""
        unanswered = [e for e in self.entries.values() if not e.answered]
        if self.finished:  # the code gets a failure again; what it did not wait for may have happened
            return [e for e in unanswered if e.fate is not Fate.FAILED]
        last, cut = self._reach()
        went_on = not cut and any(e.step == last for e in self.entries.values())
        delivered = {i for step in (self.steps if went_on else self.steps[: max(0, last - 1)]) for i in step}
        return [
            e
            for e in unanswered
            if not (e.fate is Fate.FAILED and e.id in delivered) and not (cut and e.step >= last)
        ]

    def _deep(self, entries: Sequence[Entry]) -> Iterator[Entry]:
        """The calls that would really be repeated: of a composite tool, those it made."""
        for entry in entries:
            if entry.inner is None:
                yield entry
            else:
                yield from entry.inner._deep(entry.inner._to_repeat())

    @property
    def done(self) -> int:
        """Calls at backends that were answered, those of composite tools included."""
        entries = self.entries.values()
        return sum((e.answered and e.sent) + (0 if e.inner is None else e.inner.done) for e in entries)

    @property
    def broken(self) -> bool:
        """Whether a call got no answer, and the run came to its end by that."""
        return any(e.fate is not Fate.OPEN for e in self._to_repeat())
