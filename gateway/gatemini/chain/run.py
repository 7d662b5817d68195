"""Run one `call_tool_chain`: parse the code, take the cheapest tier that does what it says, reduce the result."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import anyio

from gatemini.chain.answer import UNKNOWN_ROOM, ChainValue, compose
from gatemini.chain.client import NO_CLIENT, CallRecord, ChainClient
from gatemini.chain.code.bounds import check_nesting, check_size
from gatemini.chain.code.fences import Cleaned, clean
from gatemini.chain.code.parse import Describe, JsonBatch, JsonCall, Script, SingleCall, parse
from gatemini.chain.composite import run_composite
from gatemini.chain.conversation import ScriptRun
from gatemini.chain.deadline import ChainTime
from gatemini.chain.direct import batch, describe, single
from gatemini.chain.failure import (
    Failure,
    explain,
    hint_context,
    of_error,
    of_script,
    of_syntax,
    program_facts,
    safely,
)
from gatemini.chain.invoke import Invoker
from gatemini.chain.replay.dry_run import DryRun
from gatemini.chain.replay.interruption import interruption, interruption_by
from gatemini.chain.replay.journals_in_memory import Journal, SessionJournals
from gatemini.chain.script import run_script
from gatemini.chain.services import ChainServices
from gatemini.errors import ApprovalPending, ChainTimeout, GateminiError, ResumeRefused, SandboxFault
from gatemini.explain.error_facts import HintContext
from gatemini.explain.promise_hints import promise_notes
from gatemini.explain.report import BUDGET
from gatemini.explain.results.left_out import left_out
from gatemini.explain.results.missing_members import missing_members
from gatemini.explain.results.unfit_values import unfit_values
from gatemini.explain.slips import slips, swallowed
from gatemini.explain.value_hints import nothing_returned
from gatemini.logs.context import CHAIN, logged_as
from gatemini.model import Json
from gatemini.output.options import OutputOptions
from gatemini.output.store.results import ResultStore
from gatemini.text.size_limit import SizeLimit, weight
from gatemini_sandbox.errors import GuestMissing, GuestTampered, HostExhausted, SandboxError
from gatemini_sandbox.messages import Done, Failed
from gatemini_sandbox.typescript.syntax_error import SandboxSyntaxError

logger = logging.getLogger(__name__)

SMALL_TEXT = 32 * 1024
"""Characters of submitted text that are looked through for fences and pragmas where it arrives: a millisecond."""


@dataclass(frozen=True, slots=True)
class ChainRequest:
    """One `call_tool_chain`: `timeout` in seconds."""

    code: str
    timeout: float
    output: OutputOptions
    results: ResultStore
    journals: SessionJournals
    error_room: SizeLimit = BUDGET
    """What the client shows of an error."""
    room: SizeLimit = UNKNOWN_ROOM
    """What the client takes of all text of an answer."""
    client: ChainClient = NO_CLIENT
    notes: Sequence[str] = ()
    """What the answer has to say of how the request was read."""


@dataclass(slots=True)
class ChainAnswer:
    """An MCP tool result as a dict, and the bytes of the value before it was reduced."""

    result: Json
    bytes_in: int = 0


@dataclass(slots=True)
class _Chain:
    """The state of one execution that its answer tells."""

    invoker: Invoker
    journal: Journal
    started: float = field(default_factory=time.monotonic)
    tier: int = 0

    def meta(self) -> Json:
        calls = [_call_meta(record) for record in self.invoker.records]
        ms = round((time.monotonic() - self.started) * 1000, 2)
        meta: Json = {"id": self.journal.id, "tier": self.tier, "ms": ms, "calls": calls}
        if self.invoker.said:
            meta["logged"] = self.invoker.said
        return {"gatemini/chain": meta}


def _call_meta(record: CallRecord) -> Json:
    meta: Json = {"tool": record.tool, "ms": round(record.ms, 2), "outcome": record.outcome}
    if record.answered_by is not None:
        meta["answered_by"] = record.answered_by
    return meta


NO_META: Json = {"gatemini/chain": {"id": None, "tier": 0, "ms": 0, "calls": []}}
"""For code that was refused before there was a chain."""


async def run_chain(request: ChainRequest, services: ChainServices) -> ChainAnswer:
    """Run the code and answer; every failure is an answer with `isError`, only cancellation is raised."""
    answer = await _answer(request, services)
    if request.journals.load is not None:  # another replica may be told to resume what the answer names
        await request.journals.written()
    return answer


async def _answer(request: ChainRequest, services: ChainServices) -> ChainAnswer:
    chain: _Chain | None = None
    try:
        if not request.code.lstrip().startswith(("{", "[")):  # JSON calls have their own limit
            check_size(request.code, services.config.max_code_bytes)
        cleaned = await _cleaned(request.code)
        if "resume" in cleaned.pragmas:
            await request.journals.reach(cleaned.pragmas["resume"])
        chain = _opened(cleaned, request, services)
        with logged_as(CHAIN, chain.journal.id):
            value = await _execute(cleaned, request, services, chain)
    except Failure as failure:
        return _failed(failure, request, services, chain)
    except GateminiError as exc:
        return _failed(of_error(exc), request, services, chain, refused=isinstance(exc, ResumeRefused))
    except BaseException as exc:
        if chain is not None:
            request.journals.end(chain.journal, interrupted=interruption_by(exc), answered=False)
        raise
    value.notes += [*_rerun_notes(request, chain, ""), *request.notes]
    meta = chain.meta()  # reducing the value is not part of the chain's time
    content, reduced = await compose(value, request.output, request.results, services.redactor, request.room)
    return ChainAnswer({"content": content, "isError": False, "_meta": meta}, reduced.bytes_in)


async def _cleaned(code: str) -> Cleaned:
    """The code in what was sent; a long text is looked through on a thread, while others are served."""
    if len(code) <= SMALL_TEXT:
        return clean(code)
    return await anyio.to_thread.run_sync(clean, code, abandon_on_cancel=True)


def _opened(cleaned: Cleaned, request: ChainRequest, services: ChainServices) -> _Chain:
    """The chain with its journal: a fresh one, or that of the chain `// @resume` names."""
    dry = "dry-run" in cleaned.pragmas
    earlier, journals = cleaned.pragmas.get("resume"), request.journals
    if earlier:
        journal = journals.resume(earlier, cleaned.identity)
    else:
        journal = journals.begin(cleaned.identity, dry=dry, ident=request.client.chain)
    if request.client.on_begin is not None:
        request.client.on_begin(journal.id)
    invoker = Invoker(
        services,
        request.results,
        ChainTime(request.timeout),
        journal.trace,
        run_composite,
        request.client,
        DryRun() if dry else None,
        chain=journal.id,
    )
    return _Chain(invoker, journal)


async def _execute(
    cleaned: Cleaned, request: ChainRequest, services: ChainServices, chain: _Chain
) -> ChainValue:
    plan = parse(cleaned.code, partial(services.is_backend, who=request.client.who))
    if isinstance(plan, SingleCall) and chain.invoker.config.max_argument_bytes < len(cleaned.code):
        plan = Script(cleaned.code)  # may be over the limit of arguments, which the guest checks
    chain.tier = plan.tier
    if isinstance(plan, Describe):
        return await describe(plan, chain.invoker, services)
    if not isinstance(plan, JsonCall | SingleCall | JsonBatch):
        check_size(cleaned.code, chain.invoker.config.max_code_bytes)
        check_nesting(cleaned.code)
        return await _in_its_turn(cleaned.code, request, services, chain)
    with chain.invoker.time.bound():
        if isinstance(plan, JsonBatch):
            return await batch(plan, chain.invoker, services)
        return await single(plan, chain.invoker, services)
    raise ChainTimeout.after(request.timeout)


async def _in_its_turn(
    code: str, request: ChainRequest, services: ChainServices, chain: _Chain
) -> ChainValue:
    """Run a script once there is a place for its guest; waiting for that counts as the chain's own time."""
    try:
        services.guests.acquire_nowait()
    except anyio.WouldBlock:
        began = time.monotonic()
        with chain.invoker.time.bound() as waiting:
            await services.guests.acquire()
        chain.invoker.queued = time.monotonic() - began
        if waiting.cancelled_caught:
            raise ChainTimeout.after(request.timeout, chain.invoker.queued) from None
    chain.invoker.time.on_still = services.lend_place
    try:
        return await _script(code, request, services, chain)
    finally:
        services.guests.release()


async def _script(code: str, request: ChainRequest, services: ChainServices, chain: _Chain) -> ChainValue:
    try:
        run = await run_script(code, services, chain.invoker, request.results)
    except SandboxSyntaxError as exc:
        raise of_syntax(exc) from exc
    except SandboxError as exc:
        lasting = isinstance(exc, (GuestMissing, GuestTampered, HostExhausted))
        remedy = (
            "only the operator can change it; see `gatemini doctor`" if lasting else "send the chain again"
        )
        raise SandboxFault(
            f"{type(exc).__name__}: {exc}", hint=f"{remedy}; it is no fault of the code"
        ) from exc
    if isinstance(run.end, Failed):
        raise of_script(run.end, run.facts, run.notes)
    return _value(
        run, run.end, hint_context(services, run.facts, chain.invoker.trace, request.client.who), chain
    )


def _value(run: ScriptRun, end: Done, context: HintContext, chain: _Chain) -> ChainValue:
    hints = safely(partial(_hints, run, end, context, chain.invoker.records), list[str]())
    beside = next((kept for text, kept in run.beside if text == end.text), ())
    notes = [*run.notes, *end.notes, *hints]
    return ChainValue(end.text, end.kind, notes, end.console.lines, end.console.dropped, beside)


def _hints(run: ScriptRun, end: Done, context: HintContext, records: Sequence[CallRecord]) -> list[str]:
    """Write what the value and the code show of mistakes."""
    hints: list[str] = []
    if end.kind == "undefined":
        facts = program_facts(run.facts, end.given)
        hints.append(nothing_returned(facts, context, logged=bool(end.console.lines)))
    hints += missing_members(end.reads, context, said=hints[0] if hints else "")
    hints += [*unfit_values(end.reads, context), *left_out(end.reads, context, end.text)]
    hints += promise_notes(context.program, end.text, left_open=run.left_open > 0)
    said = [*run.notes, *end.notes, *hints]
    hints += [
        slip for slip in slips(context.program, end.text, context) if not any(slip in note for note in said)
    ]
    failed = [made for made in records if made.outcome not in ("ok", None)]
    return [*hints, *swallowed(context.program.source, failed, [end.text, *end.console.lines])]


def _failed(
    failure: Failure,
    request: ChainRequest,
    services: ChainServices,
    chain: _Chain | None,
    *,
    refused: bool = False,
) -> ChainAnswer:
    failure.notes += request.notes
    records = chain.invoker.records if chain is not None else []
    trace = chain.invoker.trace if chain is not None else None
    if chain is not None:
        with logged_as(CHAIN, chain.journal.id):
            logger.debug(
                "a chain failed after %d calls",
                len(records),
                extra={"code": failure.facts.code or failure.facts.limit or failure.facts.name},
            )
        why = chain.journal.why if refused else interruption(failure.facts, chain.invoker.trace)
        # A JSON call is sent again as it was: its grant waits for it. A composite tool may have made calls already.
        held = failure.facts.code == ApprovalPending.code
        as_it_was = held and chain.tier == JsonCall.tier and not chain.invoker.trace.done
        failure.notes += _rerun_notes(request, chain, why, named=not (refused or as_it_was))
    text = explain(failure, request.code, records, services, request.error_room, trace, request.client.who)
    meta = chain.meta() if chain is not None else NO_META
    return ChainAnswer(
        {"content": [{"type": "text", "text": text}], "isError": True, "_meta": meta}, weight(text)
    )


def _rerun_notes(request: ChainRequest, chain: _Chain, interrupted: str, *, named: bool = True) -> list[str]:
    """Close the journal; what the answer must say of re-runs, if anything."""
    notes = []
    if chain.invoker.dry_run is not None:
        notes.append(chain.invoker.dry_run.listing())
    earlier = request.journals.unnamed()
    request.journals.end(chain.journal, interrupted=interrupted)
    if interrupted and named and not chain.journal.dry:
        notes.append(chain.journal.how_to_resume())
    notes += [f"an earlier chain {journal.why}: {journal.how_to_resume()}" for journal in earlier]
    return notes
