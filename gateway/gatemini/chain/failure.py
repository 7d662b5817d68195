"""A chain that ended with an error, and the report of it that an agent can act on: one kind for all tiers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from gatemini.chain.client import CallRecord
from gatemini.chain.replay.outcome import Outcome
from gatemini.chain.replay.recorded_calls import RecordedCalls
from gatemini.chain.services import ChainServices
from gatemini.chain.values.interfaces import owners
from gatemini.discovery.types.identifiers import spoken
from gatemini.discovery.types.schema_kinds import declared_members
from gatemini.discovery.types.typescript import argument_types, signature
from gatemini.errors import GateminiError
from gatemini.explain.error_facts import BackendState, ErrorFacts, HintContext, ProgramFacts
from gatemini.explain.hints import hint
from gatemini.explain.report import CallLine, ErrorReport, render_error
from gatemini.explain.results.missing_members import missing_members
from gatemini.explain.results.unfit_values import unfit_values
from gatemini.policy.principal import NOBODY, Principal
from gatemini.registry import Registry
from gatemini.text.size_limit import SizeLimit
from gatemini_sandbox.messages import Console, ErrorInfo, Facts, Failed, Read
from gatemini_sandbox.typescript.syntax_error import SandboxSyntaxError

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Failure(Exception):
    """A chain's error, complete but for its hint and the calls made; `batch` is the JSON of a failed batch."""

    def __init__(
        self,
        facts: ErrorFacts,
        *,
        program: Facts | None = None,
        console: Console | None = None,
        notes: Sequence[str] = (),
        cause: str | None = None,
        batch: str | None = None,
        reads: Sequence[Read] = (),
    ) -> None:
        super().__init__(facts.message)
        self.facts = facts
        self.program = program
        self.console = console or Console()
        self.notes = list(notes)
        self.cause = cause
        self.batch = batch
        self.reads = reads


def of_error(exc: GateminiError) -> Failure:
    """An error of our own, raised before or outside the guest."""
    line, column = exc.details.get("line"), exc.details.get("column")
    facts = ErrorFacts(exc.kind, exc.message, line, column, code=exc.code, given=exc.hint)
    return Failure(facts)


def of_call(outcome: Outcome, backend: str, line: int | None = None, column: int | None = None) -> Failure:
    """A direct call that failed: an error of ours, or the tool's own `isError`; with its place, if it is code."""
    fields: dict[str, Any] = outcome.value
    facts = ErrorFacts(
        str(fields.get("name") or "ToolError"),
        str(fields.get("message") or ""),
        line,
        column,
        tool=fields.get("tool"),
        backend=fields.get("backend") or backend,
        code=fields.get("code"),
        given=fields.get("hint"),
    )
    return Failure(facts, notes=outcome.notes)


def of_batch(text: str, notes: Sequence[str]) -> Failure:
    """A JSON array of calls of which none succeeded: the array is the answer."""
    return Failure(ErrorFacts("ToolError", "all calls failed"), notes=notes, batch=text)


def of_syntax(exc: SandboxSyntaxError) -> Failure:
    """Code that cannot be run, found before anything has run."""
    return Failure(ErrorFacts(exc.name, exc.message, line=exc.line, column=exc.column, given=exc.hint))


def of_script(end: Failed, program: Facts, notes: Sequence[str]) -> Failure:
    """A script that threw, or that a limit ended."""
    error: ErrorInfo = end.error
    facts = ErrorFacts(
        error.name,
        error.message,
        line=error.line,
        column=error.column,
        limit=error.limit,
        tool=error.tool,
        backend=error.backend,
        code=error.code,
        given=error.hint,
    )
    return Failure(
        facts,
        program=program,
        console=end.console,
        notes=[*notes, *end.notes],
        cause=error.cause,
        reads=end.reads,
    )


def safely(write: Callable[[], T], instead: T) -> T:
    """Return the hints that `write` gives, or `instead` where it raises: they never cost the value or error they are about."""
    try:
        return write()
    except Exception:
        logger.exception("hints could not be written")
        return instead


def explain(
    failure: Failure,
    source: str,
    records: Sequence[CallRecord],
    services: ChainServices,
    budget: SizeLimit,
    trace: RecordedCalls | None = None,
    who: Principal = NOBODY,
) -> str:
    """The whole error text within `budget`, cause first."""
    if failure.batch is not None:
        return failure.batch
    facts = replace(failure.facts, source=source)
    context = replace(hint_context(services, failure.program, trace, who), reads=failure.reads)
    said = safely(partial(hint, facts, context), None)
    notes = [*failure.notes, *safely(partial(_read_before, facts, context, said or ""), list[str]())]
    calls = [
        CallLine(
            spoken(r.tool),
            r.outcome or "no answer yet",
            r.ms if r.outcome else None,
            r.sent,
            services.redactor.redact(r.arguments),  # before it is cut: half a secret is one too
        )
        for r in records
    ]
    report = ErrorReport(
        facts.name,
        facts.message,
        line=facts.line,
        column=facts.column,
        source=source,
        hint=said or facts.given,
        cause=failure.cause,
        tool=None if facts.tool is None else spoken(facts.tool),
        calls=calls,
        console=failure.console.lines,
        console_dropped=failure.console.dropped,
        notes=notes,
    )
    return render_error(report, budget=budget)


def _read_before(facts: ErrorFacts, context: HintContext, said: str) -> list[str]:
    """Write notes on what the code read before the place of its error."""
    place = (facts.line or 0, facts.column or 0)
    before = [read for read in context.reads if (read.line, read.column) < place]
    return [*missing_members(context.reads, context, place, said), *unfit_values(before, context)]


def hint_context(
    services: ChainServices, program: Facts | None, trace: RecordedCalls | None, who: Principal
) -> HintContext:
    """What hints may look up: in the gateway, in the code, and in the results of its calls."""
    registry = services.listing(who).registry

    def tools(backend: str) -> list[str]:
        return [tool.name for tool in registry.backend_tools(backend)]

    def signed(backend: str, name: str) -> str | None:
        try:
            return signature(registry.find(backend, name))
        except GateminiError:
            return None

    def arguments(backend: str, name: str) -> str:
        try:
            return argument_types(registry.find(backend, name))
        except GateminiError:
            return ""

    def state(name: str) -> BackendState | None:
        if services.backends.state(name) is None:
            return None
        status = services.backends.status(name)
        return BackendState(str(status.state), status.error, status.stderr_tail)

    def last_result(backend: str, tool: str) -> str | None:
        # With `raw` a name holds the whole MCP result.
        if trace is None or program is None or ".raw" in program.source:
            return None
        return trace.last(f"{backend}.{tool}")

    def results(backend: str, tool: str) -> list[str] | None:
        return None if trace is None else trace.results(f"{backend}.{tool}")

    return HintContext(
        services.identifiers(who)[0],
        tools,
        partial(owners, registry=registry),
        signed,
        arguments,
        state,
        last_result,
        results,
        partial(_declared, registry),
        ProgramFacts() if program is None else program_facts(program),
        services.disabled(),
    )


def _declared(registry: Registry, backend: str, tool: str) -> Mapping[str, Collection[str] | None]:
    """Return the names that a tool's output schema declares, each with the texts that its value can be."""
    try:
        return declared_members(registry.find(backend, tool).output_schema)
    except GateminiError:
        return {}


def program_facts(program: Facts, given: Sequence[tuple[int, int, str]] = ()) -> ProgramFacts:
    """What hints look at of a program; `given` are the expressions that may have given its value."""
    return ProgramFacts(
        program.shadowed,
        program.declared_never_called,
        program.lost_value,
        given,
        program.source,
    )
