"""`call_tool_chain` on one screen: parse, take the cheapest tier that does what the code says, reduce.

Above: server/tools.py. Below: fences.py, parse.py, direct.py (tiers 1 and 2), script.py (tier 3),
failure.py (error texts), answer.py.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio

from gatemini.chain.answer import ChainValue, compose
from gatemini.chain.direct import batch, describe, single
from gatemini.chain.failure import Failure, explain, of_error, of_script, of_syntax
from gatemini.chain.fences import clean
from gatemini.chain.hints import ProgramFacts, nothing_returned
from gatemini.chain.invoke import CallRecord, Invoker
from gatemini.chain.parse import Describe, JsonBatch, JsonCall, SingleCall, parse
from gatemini.chain.script import GRACE_SECONDS, ScriptRun, run_script
from gatemini.chain.services import ChainServices
from gatemini.errors import ChainTimeout, CodeError, GateminiError, SandboxFault
from gatemini.model import Json
from gatemini.output.pipeline import OutputOptions
from gatemini.output.results import ResultStore
from gatemini_sandbox import Done, Failed, SandboxError
from gatemini_sandbox.syntax import SandboxSyntaxError


@dataclass(frozen=True, slots=True)
class ChainRequest:
    """One `call_tool_chain`: `timeout` in seconds, `error_chars` what the client shows of an error."""

    code: str
    timeout: float
    output: OutputOptions
    results: ResultStore
    error_chars: int = 10_000
    on_call_done: Callable[[CallRecord], None] | None = None


@dataclass(slots=True)
class ChainAnswer:
    """An MCP tool result as a dict, and the bytes that went into its reduction."""

    result: Json
    bytes_in: int = 0


@dataclass(slots=True)
class _Chain:
    """The state of one execution that the answer's `_meta` tells."""

    invoker: Invoker
    id: str = field(default_factory=lambda: "chain_" + secrets.token_hex(4))
    started: float = field(default_factory=time.monotonic)
    tier: int = 0

    def meta(self) -> Json:
        calls = [{"tool": r.tool, "ms": round(r.ms, 2), "outcome": r.outcome} for r in self.invoker.records]
        ms = round((time.monotonic() - self.started) * 1000, 2)
        return {"gatemini/chain": {"id": self.id, "tier": self.tier, "ms": ms, "calls": calls}}


async def run_chain(request: ChainRequest, services: ChainServices) -> ChainAnswer:
    """Run the code and answer; every failure is an answer with `isError`, only cancellation is raised."""
    deadline = time.monotonic() + request.timeout
    chain = _Chain(Invoker(services, request.results, deadline, request.on_call_done))
    try:
        value = await _execute(request, services, chain)
    except Failure as failure:
        return _failed(failure, request, services, chain)
    except GateminiError as exc:
        return _failed(of_error(exc), request, services, chain)
    content, reduced = compose(value, request.output, request.results)
    return ChainAnswer({"content": content, "isError": False, "_meta": chain.meta()}, reduced.bytes_in)


async def _execute(request: ChainRequest, services: ChainServices, chain: _Chain) -> ChainValue:
    cleaned = clean(request.code)
    plan = parse(cleaned.code, services.is_backend)
    chain.tier = plan.tier
    with anyio.move_on_after(request.timeout + (GRACE_SECONDS if plan.tier == 3 else 0)):
        match plan:
            case JsonCall() | SingleCall():
                return await single(plan, chain.invoker, services)
            case JsonBatch():
                return await batch(plan, chain.invoker, services)
            case Describe():
                return describe(plan, services)
        _check_size(cleaned.code, services.config.max_code_bytes)
        async with services.guests:  # waiting for a place counts as the chain's own time
            return await _script(cleaned.code, request, services, chain)
    raise ChainTimeout.after(request.timeout)


async def _script(code: str, request: ChainRequest, services: ChainServices, chain: _Chain) -> ChainValue:
    try:
        run = await run_script(code, services, chain.invoker, request.results, timeout=request.timeout)
    except SandboxSyntaxError as exc:
        raise of_syntax(exc) from exc
    except SandboxError as exc:
        raise SandboxFault(
            f"{type(exc).__name__}: {exc}", hint="send the chain again; it is no fault of the code"
        ) from exc
    if isinstance(run.end, Failed):
        raise of_script(run.end, run.program, run.notes)
    return _value(run, run.end)


def _value(run: ScriptRun, end: Done) -> ChainValue:
    notes = [*run.notes, *end.notes]
    if end.kind == "undefined":
        program = run.program
        facts = ProgramFacts(program.shadowed, program.unawaited, program.declared_never_called)
        notes.append(nothing_returned(facts, logged=bool(end.console.lines)))
    return ChainValue(end.text, end.kind, notes, end.console.lines, end.console.dropped)


def _check_size(code: str, limit: int) -> None:
    size = len(code.encode("utf-8", "replace"))
    if size > limit:
        raise CodeError(
            f"the code has {size:,} bytes, more than the limit of {limit:,} (sandbox.max_code_bytes)",
            hint="move data out of the code: let a tool produce it, or results.save(value) it in an earlier chain",
        )


def _failed(failure: Failure, request: ChainRequest, services: ChainServices, chain: _Chain) -> ChainAnswer:
    text = explain(failure, request.code, chain.invoker.records, services, request.error_chars)
    result: Json = {"content": [{"type": "text", "text": text}], "isError": True, "_meta": chain.meta()}
    return ChainAnswer(result, len(text))
