"""The exchange between the gateway and one running script, until the script has ended.

The guest runs until it has nothing left to do; all calls in its outbox are started at once, and whatever has finished
by the time one of them is done goes back in one batch. A chain that waits on the network holds no thread. Everything
that crosses goes through the chain's trace: a resumed chain first gets again what it got before.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import anyio
import anyio.lowlevel
import anyio.to_thread

from gatemini.chain.code.literals import rounded
from gatemini.chain.guest.exchange import Exchange, approvals_open
from gatemini.chain.invoke import Invoker
from gatemini.chain.replay.outcome import Fate, Outcome
from gatemini.chain.replay.recorded_calls import Entry
from gatemini.chain.replay.refusal_texts import result_gone
from gatemini.chain.services import ChainServices
from gatemini.chain.values.beside import notes_of
from gatemini.chain.values.handles import answer_results_call, spoken_method, too_large
from gatemini.chain.values.interfaces import several
from gatemini.discovery.types.identifiers import COMPOSITE_BACKEND, short_name, spoken
from gatemini.errors import ChainTimeout, GateminiError, ResumeRefused, ToolNotFound
from gatemini.explain.error_fields import error_fields
from gatemini.model import READ_RESOURCE, Json
from gatemini.output.store.results import ResultStore
from gatemini.text.utf8 import encode
from gatemini_sandbox.host import Session
from gatemini_sandbox.messages import Call, Calls, Done, ErrorInfo, Facts, Failed, Reply, Step

STARTED_AT_ONCE = 8
"""Calls that begin in one turn of the event loop: a chain may issue thousands together, and others want a turn too."""

COMPUTING_SHARE = 0.25
"""How much of the chain's time the last step took at least, for that to be what the time went on."""

UNAWAITED_SHOWN = 10
"""Different lines in a note on calls the code did not wait for."""


@dataclass(slots=True)
class ScriptRun:
    """How a script ended: `end` is the guest's last step, `facts` what was run, `notes` from its calls."""

    facts: Facts
    end: Done | Failed
    notes: list[str] = field(default_factory=list)
    outcomes: dict[int, str] = field(default_factory=dict)
    """Guest's call id → `ok` or what went wrong; only of calls that were answered."""
    beside: list[tuple[str, tuple[Json, ...]]] = field(default_factory=list)
    """For calls with content beside their value: the value as JSON, and that content."""
    left_open: int = 0
    """Calls that were open, or made, after the code had come to its end."""


class Conversation:
    """One guest's steps and the answers to its calls, until it has ended."""

    def __init__(
        self, guest: Session, run: ScriptRun, services: ChainServices, invoker: Invoker, results: ResultStore
    ) -> None:
        self._guest = guest
        self._run = run
        self._services = services
        self._invoker = invoker
        self._results = results
        self._trace = invoker.trace
        self._exchange = Exchange()
        self._cut = False  # whether the time was over while the guest was idle
        self._left = invoker.time.left()  # when the last step began
        self._in_time: set[int] | None = None  # calls that had their answer when the code came to its end

    @property
    def computed(self) -> bool:
        """Of a chain whose time is over: whether the code's last step took it, not what the code waited for."""
        return not self._cut and self._left >= COMPUTING_SHARE * self._invoker.time.seconds

    async def hold(self, first_step: Callable[[], Awaitable[Step]]) -> None:
        first = await first_step()
        facts = self._run.facts = self._guest.facts
        registry = self._services.listing(self._invoker.client.who).registry
        self._run.notes += [*rounded(facts), *several(facts.interface_literals, registry)]
        step, held = await self._repeat(first)
        self._watch(step)
        while isinstance(step, Calls):
            calls, held = [*held, *self._issued(step)], []
            if self._one_by_one(step, calls):
                await self._answer(*calls[0])
                step = await self._go_on(step)
            else:
                step = await self._at_once(step, calls)
        self._run.end = step
        self._run.notes += notes_of(one for _, kept in self._run.beside for one in kept)
        entries = self._trace.entries
        sent = [ident for ident in step.unawaited if ident in entries]
        # Calls that it never sent are in the notes of the guest itself.
        self._run.notes += _became("not awaited", [entries[i] for i in sent], self._run.outcomes, step.lines)
        if self._in_time is not None and isinstance(step, Done):
            late = [e for i, e in entries.items() if i not in self._in_time and i not in step.unawaited]
            self._run.left_open = len(late)
            what = "still open when the code ended"
            self._run.notes += _became(what, late, self._run.outcomes, step.lines)

    def _watch(self, step: Step) -> None:
        """Notice the moment at which the code has come to its end while calls of it are still open."""
        if self._in_time is None and isinstance(step, Calls) and step.settled:
            self._in_time = {i for i, entry in self._trace.entries.items() if entry.answered}

    def _one_by_one(self, step: Calls, calls: Sequence[tuple[Call, Entry]]) -> bool:
        """Whether nothing but the answer to one call can happen next: then it needs no task of its own.

        Only for calls that keep to the chain's time by themselves; that is not so of composite tools."""
        if len(calls) != 1 or step.wake_ms is not None or self._exchange.ready:
            return False
        call = calls[0][0]
        return call.kind in ("tool", "resource") and call.backend != COMPOSITE_BACKEND

    async def _at_once(self, step: Calls, calls: list[tuple[Call, Entry]]) -> Step:
        """Make calls beside each other and beside timers, until none is open any more; those still open when the
        guest has ended are cancelled.

        The task group is asyncio's: a task of anyio's costs a sixth of a call more.
        """
        last: Step = step
        async with asyncio.TaskGroup() as tasks:
            while isinstance(last, Calls):
                for number, (call, entry) in enumerate(calls, 1):
                    self._exchange.running.add(tasks.create_task(self._beside(call, entry)))
                    if number % STARTED_AT_ONCE == 0:
                        await anyio.lowlevel.checkpoint()
                last = await self._go_on(last)
                if isinstance(last, Calls) and last.raced and self._only_losers(last):
                    last = await self._guest.outcome()
                if not self._exchange.running:
                    break
                calls = self._issued(last) if isinstance(last, Calls) else []
            for task in self._exchange.running:
                task.cancel()
        return last

    def _only_losers(self, step: Calls) -> bool:
        """Whether all calls still open only read and lost a race, so that the chain need not wait for them."""
        open_calls = [entry for entry in self._trace.entries.values() if not entry.answered]
        if step.calls or not all(entry.read_only and entry.id in step.raced for entry in open_calls):
            return False
        for entry in open_calls:
            self._run.outcomes[entry.id] = "cancelled, because it lost a race"
        return True

    async def _beside(self, call: Call, entry: Entry) -> None:
        try:
            await self._answer(call, entry)
        finally:
            self._exchange.closed()

    async def _go_on(self, step: Calls) -> Step:
        """The guest's next step, with what has been answered by then."""
        in_time = await self._exchange.next_batch(step.wake_ms, self._invoker.time)
        batch = self._exchange.take()
        self._left = self._invoker.time.left()
        if in_time and not batch and self._exchange.stuck(step.wake_ms):
            return await self._ended(approvals_open(self._exchange.held), settled=step.settled)
        if batch or in_time:
            self._trace.deliver([reply.id for reply in batch], len(self._guest.readings))
            after = await self._guest.resume(batch)
            self._watch(after)
            return after
        return await self._cut_off(settled=step.settled)

    async def _repeat(self, step: Step) -> tuple[Step, list[tuple[Call, Entry]]]:
        """Give the guest again what it got before; the step it is at then, and the calls still to be made.

        No call is made before the whole record has been found to hold.
        """
        trace, held = self._trace, dict[int, tuple[Call, Entry]]()
        while isinstance(step, Calls):
            held |= {entry.id: (call, entry) for call, entry in self._issued(step)}
            step.calls = []
            if step.wake_ms is not None and (trace.at_timer or trace.lacking):
                step = await self._timer(step.wake_ms)
            elif trace.replaying:
                again = [await self._again(*held.pop(entry.id)) for entry in trace.next_step()]
                step = await self._guest.resume(again)
            else:
                break
        if not isinstance(step, Calls):
            return step, []
        trace.go_on()
        trace.read_clock(self._guest.readings)
        finished = sorted((pair for pair in held.values() if pair[1].answered), key=lambda p: p[1].place)
        for call, entry in finished:  # answered before the interruption, but the code never got the answer
            self._exchange.put(await self._again(call, entry))
        return step, [pair for pair in held.values() if not pair[1].answered]

    async def _timer(self, wake_ms: float) -> Step:
        """Wait for a timer of the code's as it did before; out of time, the guest ends itself."""
        if self._trace.at_timer:
            self._trace.next_step()
        left = self._invoker.time.left()
        if left <= 0:
            return await self._cut_off(settled=False)
        await anyio.sleep(min(left, wake_ms / 1000))
        self._left = self._invoker.time.left()
        return await self._guest.resume([])

    async def _cut_off(self, *, settled: bool) -> Step:
        """The end of a chain that is out of time: its value if the code had come to it, else the error, with console
        and notes."""
        self._cut = True
        return await self._ended(out_of_time(self._invoker, self._guest), settled=settled)

    async def _ended(self, error: ErrorInfo, *, settled: bool) -> Step:
        """The end of a chain that cannot go on: its value if the code had come to it, else `error`."""
        end = await self._guest.outcome()
        if settled or not isinstance(end, Done):
            return end
        return Failed(error, end.notes, end.console, end.unawaited, end.lines)

    def _issued(self, step: Calls) -> list[tuple[Call, Entry]]:
        self._trace.read_clock(self._guest.readings)
        issued = [
            (c, self._trace.issue(c.id, c.kind, c.backend, c.tool, c.text, raw=c.raw)) for c in step.calls
        ]
        for _, entry in issued:
            if "[object Promise]" in entry.shown:
                note = f'the arguments of {short_name(spoken(entry.name))} hold "[object Promise]": a promise was written as text'
                self._note(f"{note}; wait for it first")
        return issued

    def _note(self, note: str) -> None:
        if note not in self._run.notes:
            self._run.notes.append(note)

    async def _again(self, call: Call, entry: Entry) -> Reply:
        """The reply to a call as an earlier run got it."""
        if entry.read_anew:
            outcome = await self._outcome(call, entry)
            if not outcome.ok:
                raise result_gone(entry.call(), outcome.value.get("message"))
            return self._reply(call, outcome)
        of_backend = call.kind in ("tool", "resource")
        outcome = self._invoker.replayed(entry, call.backend) if of_backend else entry.outcome()
        return self._reply(call, outcome)

    async def _answer(self, call: Call, entry: Entry) -> None:
        outcome = await self._outcome(call, entry)
        text = self._trace.answer(entry, outcome, kept=call.kind == "results" and outcome.ok)
        if self._results.replicas is not None:
            await self._results.replicas.flush()  # the record may name a handle
        await self._trace.flush()
        if outcome.fate is Fate.HELD:
            self._run.outcomes[call.id] = str(outcome.value["message"])
            self._exchange.hold(outcome)
        elif outcome.fate is not Fate.CUT:  # else the chain ends out of time, not by a failure of this call
            self._exchange.put(self._reply(call, outcome, text))

    async def _outcome(self, call: Call, entry: Entry) -> Outcome:
        try:
            return await self._fitting(call, await self._dispatch(call, entry))
        except ResumeRefused:
            raise
        except GateminiError as exc:
            name = spoken_method(call.tool) if call.kind == "results" else f"{call.kind}.{call.tool}"
            return Outcome(False, error_fields(exc, name, call.kind))

    async def _fitting(self, call: Call, outcome: Outcome) -> Outcome:
        """A result too large for the guest stays outside: the code gets an error that names its handle."""
        most = self._invoker.config.max_result_bytes
        if not outcome.ok or call.kind not in ("tool", "resource"):
            return outcome
        text = outcome.json()
        if len(text) <= most // 4 or (text.isascii() and len(text) <= most):
            return replace(outcome, text=text)
        name = f"{call.backend}.{call.tool or READ_RESOURCE}"
        string = outcome.value if isinstance(outcome.value, str) else None
        kept = await anyio.to_thread.run_sync(self._kept, name, text, string, most)
        if kept is None:
            return replace(outcome, text=text)
        return Outcome(False, too_large(name, call.backend, kept[1], most, kept[0]), outcome.notes)

    def _kept(self, name: str, text: str, string: str | None, most: int) -> tuple[str, str] | None:
        """The handle under which a result is kept that has more than `most` bytes as JSON, and how many, in words."""
        data = encode(text)
        size = len(data)
        if size <= most:
            return None
        if string is not None:
            data = encode(string)
        size_words = f"{len(data)} bytes" if len(data) > most else f"{len(data)} bytes ({size} as JSON)"
        kind: Literal["text"] | None = None if string is None else "text"
        return self._results.save_bytes(data, kind, label=name), size_words

    def _reply(self, call: Call, outcome: Outcome, text: str | None = None) -> Reply:
        """An outcome on its way to the guest, with what the answer will tell of it."""
        failed = outcome.value.get("message") if isinstance(outcome.value, dict) else outcome.value
        self._run.outcomes[call.id] = "ok" if outcome.ok else f"it failed: {failed}"
        for note in outcome.notes:
            self._note(note)
        if outcome.beside:
            self._run.beside.append((outcome.as_javascript(), outcome.beside))
        value = outcome.json() if text is None else text
        return Reply(call.id, outcome.ok, value.encode("utf-8", "replace"))

    async def _dispatch(self, call: Call, entry: Entry) -> Outcome:
        if call.kind == "tool":
            return await self._invoker.call(
                entry, call.backend, call.tool, call.arguments, raw=call.raw, digits=call.digits
            )
        if call.kind == "resource":
            return await self._invoker.read_resource(entry, call.backend, str(call.arguments))
        if call.kind == "gatemini":
            arguments = call.arguments if isinstance(call.arguments, dict) else {}
            missing = await self._services.listed(self._invoker.time)
            try:
                who = self._invoker.client.who
                return Outcome(True, await self._services.discover(call.tool, arguments, who))
            except ToolNotFound as exc:
                missing.explain(exc, str(arguments.get("tool_name", "")))
                raise
        most = self._invoker.config.max_result_bytes
        return await answer_results_call(call.tool, call.arguments, self._results, most)


def _became(
    what: str, entries: Sequence[Entry], outcomes: Mapping[int, str], lines: Mapping[int, int]
) -> list[str]:
    """What became of calls the code did not wait for: one note, the failed ones first."""
    placed = {e.id: f" (line {lines[e.id]})" if e.id in lines else "" for e in entries}
    counts = Counter(
        f"{short_name(spoken(e.name))}{placed[e.id]}: {outcomes.get(e.id) or _silent(e)}" for e in entries
    )
    if not counts:
        return []
    failed_first = sorted(counts, key=lambda line: line.endswith(": ok"))
    shown = [
        line if counts[line] == 1 else f"{counts[line]} times {line}"
        for line in failed_first[:UNAWAITED_SHOWN]
    ]
    left = len(entries) - sum(counts[line] for line in failed_first[:UNAWAITED_SHOWN])
    calls = "1 call was" if len(entries) == 1 else f"{len(entries)} calls were"
    return [f"{calls} {what}: {'; '.join(shown)}" + (f" and {left} more" if left else "")]


def _silent(entry: Entry) -> str:
    """Of a call that was given up when the chain's time was over."""
    unknown = "" if entry.repeatable or not entry.sent else "; whether it took effect is not known"
    return f"no answer in time{unknown}"


def out_of_time(invoker: Invoker, guest: Session) -> ErrorInfo:
    error = ChainTimeout.after(invoker.time.seconds, invoker.queued + guest.queued_seconds)
    return ErrorInfo(error.kind, error.message, limit=error.code)
