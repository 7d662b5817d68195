"""The only place that calls backends: every call of every tier passes through here.

Name → argument check → dry run → deadline → backend → value, with a record of each call for error texts and `_meta`,
and its fate for the journal.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from gatemini.backends.calls.callers import AskFn, Caller
from gatemini.backends.mcp_session import McpSession
from gatemini.chain.arguments.validate import Paths, check
from gatemini.chain.client import NO_CLIENT, CallRecord, ChainClient, of_person, pass_on
from gatemini.chain.deadline import ChainTime
from gatemini.chain.replay.dry_run import DryRun
from gatemini.chain.replay.outcome import Fate, Outcome, fate_of
from gatemini.chain.replay.recorded_calls import Entry, RecordedCalls
from gatemini.chain.services import ChainServices
from gatemini.chain.values.outputs import answered
from gatemini.chain.values.resources import (
    BESIDE_TOOLS,
    address_of,
    contents_value,
    listed_value,
    no_address,
    prompt_of,
)
from gatemini.config.model.schema import SandboxConfig
from gatemini.discovery.types.identifiers import COMPOSITE_BACKEND
from gatemini.discovery.types.typescript import signature
from gatemini.errors import (
    ArgumentsInvalid,
    BackendError,
    ChainTimeout,
    GateminiError,
    LimitError,
    PolicyError,
    ResumeRefused,
    StateUnavailable,
    ToolNotFound,
)
from gatemini.explain.error_fields import brief, error_fields
from gatemini.model import GET_PROMPT, LIST_RESOURCES, READ_RESOURCE, CallOutcome, Json, Tool, member
from gatemini.output.store.results import ResultStore
from gatemini.policy.door import Door
from gatemini.policy.facts import CallFacts
from gatemini.policy.reach import Reach
from gatemini.text.size_limit import weight

_T = TypeVar("_T")

CANCELLED = "cancelled"
"""Outcome of a call that was in flight when the chain ended."""

FROM_JOURNAL = "ok (from the journal)"
"""Outcome of a call that was answered from the journal of an earlier run."""

LAST_MOMENT_SECONDS = 0.005
"""With less time left no call is sent, so that calls cut off by the deadline differ from calls after it."""


@dataclass(slots=True)
class Invoker:
    """The calls of one chain. `time` is the chain's deadline; `client` receives requests and notifications.

    Composite tools get an invoker of their own that shares all but the trace and the `path` of composite names.
    """

    services: ChainServices
    results: ResultStore
    time: ChainTime
    trace: RecordedCalls
    run_composite: Callable[[Tool, Json, Entry, Invoker], Awaitable[Outcome]]
    client: ChainClient = NO_CLIENT
    dry_run: DryRun | None = None
    path: tuple[str, ...] = ()
    chain: str = ""
    """The id of the chain."""
    records: list[CallRecord] = field(default_factory=list)
    guests: dict[int, anyio.Semaphore] = field(default_factory=dict)
    """By depth: bounds the composite tools of this chain that run at once."""
    queued: float = 0.0
    """Seconds the chain waited for a free place among the chains that hold a guest."""
    said: list[Json] = field(default_factory=list)
    """Log messages of backends during the chain."""
    caller: Caller = field(init=False)
    """One object for all calls of a chain, by which backends know the client."""
    config: SandboxConfig = field(init=False)
    """The limits from the start of the chain: a changed configuration applies to later chains."""
    _in_flight: anyio.Semaphore = field(init=False)
    _origin: tuple[str, str, str] = field(init=False)
    """Session, chain and trace of the calls."""
    _reach: Reach = field(init=False)

    def __post_init__(self) -> None:
        self.config = self.services.config
        caller = self.client.caller
        self.caller = replace(
            caller,
            # Not methods of the invoker: it would be freed by the garbage collector only.
            ask=caller.ask and partial(_ask_user, self.time, caller.ask),
            tell=partial(pass_on, self.said, caller.tell),
            time_left=self.time.left,
        )
        self._origin = caller.session or "", self.chain, self.client.trace
        self._reach = Reach(self.caller.can, of_person(self.caller.ask), self.time.standing_still)
        self._in_flight = anyio.Semaphore(self.config.max_calls_in_flight, fast_acquire=True)

    def nested(self, name: str, trace: RecordedCalls) -> Invoker:
        """Return the invoker for the code of a composite tool: same limits and records, its own trace."""
        inner = copy.copy(self)
        inner.trace, inner.path = trace, (*self.path, name)
        return inner

    async def call(
        self,
        entry: Entry,
        backend: str,
        spelled: str,
        arguments: Any,
        *,
        raw: bool = False,
        digits: Paths = (),
    ) -> Outcome:
        """Make one tool call. A failure is an `Outcome` too; only cancellation and ResumeRefused are raised.

        `digits` are the paths in the arguments at which a BigInt is held as text.
        """
        record = self._begin(entry, backend, spelled)
        return await self._recorded(record, entry, self._call(record, entry, spelled, arguments, raw, digits))

    async def read_resource(self, entry: Entry, backend: str, uri: str) -> Outcome:
        """Read a resource: return the first content as a value, or all of them when there are several."""
        record = self._begin(entry, backend, READ_RESOURCE)
        return await self._recorded(record, entry, self._read_resource(record, entry, backend, uri))

    def _begin(self, entry: Entry, backend: str, spelled: str) -> CallRecord:
        """Return the record of a call that begins."""
        number, name = len(self.records) + 1, f"{backend}.{spelled}"
        record = CallRecord(number, backend, name, time.monotonic(), arguments=entry.shown)
        self.records.append(record)
        return record

    def replayed(self, entry: Entry, backend: str) -> Outcome:
        """Return the outcome of a call from the journal, and record the call; nothing is sent."""
        outcome = entry.outcome()
        words = FROM_JOURNAL if outcome.ok else f"error: {brief(outcome.value)} (from the journal)"
        self.records.append(
            CallRecord(
                len(self.records) + 1,
                backend,
                entry.name,
                time.monotonic(),
                words,
                sent=entry.sent or outcome.ok or entry.inner is not None,
                arguments=entry.shown,
            )
        )
        return outcome

    async def _recorded(
        self, record: CallRecord, entry: Entry, making: Coroutine[Any, Any, Outcome]
    ) -> Outcome:
        """Return the outcome of a call, whatever became of it, and note it in the record."""
        try:
            outcome = await making
            if record.sent and not record.bytes and record.backend != COMPOSITE_BACKEND:
                # Nothing came over a wire: the size is that of the text which the code gets.
                written = outcome.written or outcome.text is None
                outcome = replace(outcome, text=outcome.json(), written=written)
                record.bytes = weight(outcome.json())
        except ResumeRefused:
            self._finish(record, "refused")
            raise
        except GateminiError as exc:
            if isinstance(exc, PolicyError | StateUnavailable) or (
                isinstance(exc, BackendError) and not exc.sent
            ):
                record.sent = entry.sent = False
            outcome = Outcome(
                False,
                error_fields(exc, record.tool, record.backend),
                fate=fate_of(exc, in_time=self.time.left() > LAST_MOMENT_SECONDS),
            )
        except BaseException:
            self._finish(record, CANCELLED)
            raise
        if outcome.fate is Fate.CUT and record.sent:
            # The chain's limit, which cancels the call, and the call's own of the same length end at one moment.
            self._finish(record, CANCELLED)
        else:
            self._finish(record, "ok" if outcome.ok else f"error: {brief(outcome.value)}")
        return outcome

    async def _call(
        self,
        record: CallRecord,
        entry: Entry,
        spelled: str,
        arguments: Any,
        raw: bool,
        digits: Paths,
    ) -> Outcome:
        self._within_limit(record)
        if spelled == READ_RESOURCE and (uri := address_of(arguments)) is not None:
            return await self._read_resource(record, entry, record.backend, uri)
        try:
            find = partial(self.services.find_tool, record.backend, spelled, self._time_left, self.client.who)
            tool = await self._with_login(record.backend, find)
        except ToolNotFound:
            if spelled not in BESIDE_TOOLS:
                raise
            return await self._beside_tools(record, entry, record.backend, spelled, arguments)
        record.tool = tool.qualified
        try:
            checked, notes = check(tool, arguments, signature, digits)
        except ArgumentsInvalid:
            if self.services.door is not None:
                self.services.door.refuse_hidden(tool, {}, self.client.who, *self._origin)
            raise
        held = self.dry_run is not None and not tool.read_only and tool.backend != COMPOSITE_BACKEND
        await self._admit(record, tool, checked, held=held)
        if tool.backend == COMPOSITE_BACKEND:
            record.sent = True
            made = await self.run_composite(tool, checked, entry, self)
            if raw and made.fate is Fate.ANSWERED:
                return made.as_result(notes)
            return replace(made, notes=(*notes, *made.notes)) if notes else made
        if self.dry_run is not None and held:
            return self.dry_run.hold(tool, checked, notes)
        outcome = await self._send(record, entry, tool, checked)
        record.bytes, record.answered_by = outcome.bytes, outcome.answered_by
        notes = (*notes, *outcome.notes)
        keep, learn = self.results, self.services.learn
        return answered(tool, outcome.result, notes, keep, learn, self.services.lists, raw=raw)

    async def _send(self, record: CallRecord, entry: Entry, tool: Tool, arguments: Json) -> CallOutcome:
        """Send an admitted call once fewer than the most are in flight."""
        async with self._in_flight:
            await self._admit_again(record, tool, arguments)
            record.started = time.monotonic()
            timeout = self._time_left(tool.backend)
            entry.sending(tool)
            await self.trace.sending(entry)
            record.sent = True
            call = partial(
                self.services.backends.call_tool,
                tool.backend,
                tool.name,
                arguments,
                timeout=timeout,
                on_progress=self.client.progress_of(record),
                caller=self.caller,
                admit=partial(self._admit, record, arguments=arguments),
                check=partial(self._check, record, tool, arguments),
            )
            return await self._with_login(tool.backend, call)

    async def _with_login(self, backend: str, act: Callable[[], Awaitable[_T]]) -> _T:
        return await self.services.with_login(backend, self.caller, self.time, act)

    async def _admit(self, record: CallRecord, tool: Tool, arguments: Json, *, held: bool = False) -> None:
        """Pass the door. Raises PolicyDenied, ApprovalDenied or ApprovalPending for a call that may not leave.

        A call passes it again for each backend of a fallback chain, which is another backend's tool.
        """
        if (door := self.services.door) is None:
            return
        record.settle("fell back", ms=(time.monotonic() - record.started) * 1000)
        if self.results.replicas is not None:
            await self.results.replicas.learn()
        facts = self._facts(door, tool, arguments)
        if held:  # a dry run will not send it
            return door.foresee(facts)
        record.admission = await door.admit(facts, self._reach)

    def _facts(self, door: Door, tool: Tool, arguments: Json) -> CallFacts:
        return door.facts(tool, arguments, self.client.who, *self._origin, self.client.behalf)

    async def _admit_again(self, record: CallRecord, tool: Tool, arguments: Json) -> None:
        """Pass the door again if the rules have changed while the call waited its turn."""
        if (door := self.services.door) is not None and not door.holds(record.admission):
            await self._admit(record, tool, arguments)

    def _check(
        self, record: CallRecord, tool: Tool, arguments: Json, _: str = "", listed: Tool | None = None
    ) -> None:
        """Raise PolicyDenied for an admitted call that may not leave any more, right before it is sent."""
        if (door := self.services.door) is not None:
            admitted = record.admission
            now = listed or tool  # a fallback's tool is another one
            facts = self._facts(door, now, arguments) if admitted is None else admitted.facts
            door.check(facts, admitted, listed)

    async def _beside_tools(
        self, record: CallRecord, entry: Entry, backend: str, spelled: str, arguments: Any
    ) -> Outcome:
        """Read a resource, list resources or get a prompt, where no tool has that name."""
        if spelled == LIST_RESOURCES:
            offers = await self._read(
                record, entry, backend, spelled, {}, lambda s, left: s.list_offers(timeout=left)
            )
            return Outcome(True, listed_value(self.services.shown_offers(backend, offers, self.client.who)))
        if spelled == GET_PROMPT:
            name, given = prompt_of(backend, arguments)
            prompt = await self._read(
                record,
                entry,
                backend,
                spelled,
                {"name": name, "arguments": given},
                lambda s, left: s.get_prompt(name, given, timeout=left, caller=self.caller),
            )
            return Outcome(True, prompt)
        uri = address_of(arguments.get("uri")) if isinstance(arguments, dict) else None
        if uri is None:
            raise no_address(backend)
        return await self._read_resource(record, entry, backend, uri)

    async def _read_resource(self, record: CallRecord, entry: Entry, backend: str, uri: str) -> Outcome:
        self._within_limit(record)
        result = await self._read(
            record,
            entry,
            backend,
            READ_RESOURCE,
            {"uri": uri},
            lambda s, left: s.read_resource(uri, timeout=left, caller=self.caller),
        )
        value = contents_value(result, Tool(backend, READ_RESOURCE), self.results.save_blob)
        return Outcome(True, value.value, tuple(value.notes))

    async def _read(
        self,
        record: CallRecord,
        entry: Entry,
        backend: str,
        name: str,
        arguments: Json,
        send: Callable[[McpSession, float], Awaitable[_T]],
    ) -> _T:
        backend = self.services.backend_of(backend, self.client.who)
        config = self.services.backends.config(backend)
        reading = member(backend, name, config.namespace, config.tags)

        async def checked(session: McpSession, left: float) -> _T:
            self._check(record, reading, arguments)
            return await send(session, left)

        await self._admit(record, reading, arguments)
        async with self._in_flight:
            await self._admit_again(record, reading, arguments)
            timeout = self._time_left(backend)
            entry.sent = entry.repeatable = record.sent = True  # reading changes nothing
            await self.trace.sending(entry)
            return await self.services.backends.read(backend, checked, timeout=timeout, caller=self.caller)

    def _time_left(self, backend: str) -> float:
        """Return the seconds this call may take. Raises ChainTimeout when the chain's own time is over."""
        left = self.time.left()
        if left <= LAST_MOMENT_SECONDS:
            raise ChainTimeout.after(self.time.seconds)
        config = self.services.backends.config(backend)
        if "timeout" not in config.model_fields_set:
            return left  # a chain with a time of its own wants more, or less, than the default
        return min(left, config.timeout)

    def _within_limit(self, record: CallRecord) -> None:
        most = self.config.max_calls
        if record.id > most:
            raise LimitError(
                f"a chain may make {most} calls; {record.tool} was one more ({LimitError.code}: sandbox.max_calls)",
                hint="let one call bring more, or do the work in several chains",
            )

    def _finish(self, record: CallRecord, outcome: str) -> None:
        record.outcome = outcome
        record.ms = (time.monotonic() - record.started) * 1000
        record.settle(outcome, ms=record.ms)
        self.services.tracker.record_call(
            record.tool, record.backend, record.ms, outcome == "ok", record.bytes, self.caller.session
        )
        if self.client.on_call_done is not None:
            self.client.on_call_done(record)


async def _ask_user(clock: ChainTime, ask: AskFn, method: str, params: Json) -> Json:
    """Pass a backend's request on to the user; the chain's clock is paused meanwhile."""
    with clock.standing_still():
        return await ask(method, params)
