"""Tier 3: the host's side of a running script.

The guest runs until it has nothing left to do; all calls it put into its outbox are started at once, and
whatever has finished by the time one of them is done goes back in one batch. A chain that waits on the
network holds no thread. Above: run.py. Below: the sandbox package and invoke.py.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio

from gatemini.chain.handles import answer_results_call
from gatemini.chain.interfaces import all_interfaces, interface_of
from gatemini.chain.invoke import Invoker, Outcome, error_fields
from gatemini.chain.services import ChainServices
from gatemini.errors import ChainTimeout, GateminiError
from gatemini.model import Json
from gatemini.output.results import ResultStore
from gatemini_sandbox import Call, Calls, Done, ErrorInfo, Failed, Reply, Session, Start
from gatemini_sandbox.wrap import Program, prepare

SMALL_SOURCE = 16 * 1024
"""Code up to this many characters is prepared on the event loop (well under a millisecond per KB)."""


GRACE_SECONDS = 1.0
"""What the guest gets beyond the chain's time to end by itself and hand over its console."""


MINIMUM_SECONDS = 0.001
"""A chain whose time is over when its turn comes still ends by the guest's own limit."""


UNAWAITED_SHOWN = 10
"""Calls named in the note on calls that were not awaited."""


@dataclass(slots=True)
class ScriptRun:
    """How a script ended: `end` is the guest's last step, `program` what was run, `notes` from its calls."""

    program: Program
    end: Done | Failed
    notes: list[str] = field(default_factory=list)
    outcomes: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Guest's call id → (what was called, `ok` or what went wrong); only of calls that were answered."""


@dataclass(slots=True)
class _Exchange:
    """Replies waiting for the guest, and how many calls are still open."""

    ready: list[Reply] = field(default_factory=list)
    arrived: anyio.Event = field(default_factory=anyio.Event)
    open: int = 0

    def put(self, reply: Reply) -> None:
        self.open -= 1
        self.ready.append(reply)
        self.arrived.set()

    def take(self) -> list[Reply]:
        batch, self.ready, self.arrived = self.ready, [], anyio.Event()
        return batch


async def run_script(
    code: str,
    services: ChainServices,
    invoker: Invoker,
    results: ResultStore,
    *,
    timeout: float,
    args: Any = None,
) -> ScriptRun:
    """Run `code` in a fresh guest until it is done, has failed, or the invoker's deadline (`timeout`) is over.

    Raises SandboxSyntaxError before anything has run. Cancelling it stops the guest and its calls.
    """
    deadline = invoker.deadline
    identifiers, ambiguous = services.identifiers()
    program = await _prepare(code, tuple(identifiers))
    start = _start(program, services, identifiers, ambiguous, args)
    run = ScriptRun(program, Failed.placeholder(), [])
    guest = services.sandbox.session(
        program, start, wall_seconds=max(MINIMUM_SECONDS, deadline - time.monotonic())
    )
    try:
        with anyio.move_on_after(deadline + GRACE_SECONDS - time.monotonic()):
            await _converse(guest, run, services, invoker, results, deadline)
            if isinstance(run.end, Failed) and run.end.error.limit == "limit.time":
                run.end.error = _out_of_time(timeout)  # the guest knows only what was left of it
            return run
        run.end = Failed(_out_of_time(timeout))
    finally:
        guest.close()
    return run


async def _converse(
    guest: Session,
    run: ScriptRun,
    services: ChainServices,
    invoker: Invoker,
    results: ResultStore,
    deadline: float,
) -> None:
    """Steps of the guest and answers to its calls, until it has ended; calls still open then are cancelled."""
    async with anyio.create_task_group() as calls:
        step = await guest.start()
        exchange = _Exchange()
        while isinstance(step, Calls):
            for call in step.calls:
                exchange.open += 1
                calls.start_soon(_answer, call, exchange, run, services, invoker, results)
            in_time = await _next_batch(exchange, step.wake_ms, deadline)
            if in_time or not step.settled:
                # Out of time, the guest itself ends the chain: its console and notes are told with it.
                step = await guest.resume(exchange.take())
            else:
                step = await guest.outcome()
        run.end = step
        calls.cancel_scope.cancel()
    run.notes += _unawaited(run.end.unawaited, run.outcomes)


def _unawaited(ids: Sequence[int], outcomes: Mapping[int, tuple[str, str]]) -> list[str]:
    """What became of calls nobody waited for: one note, the failed ones first."""
    told = [outcomes.get(i, ("a call", "no answer in time")) for i in ids]
    told.sort(key=lambda pair: pair[1] == "ok")
    shown = [f"{tool}: {outcome}" for tool, outcome in told[:UNAWAITED_SHOWN]]
    if not shown:
        return []
    more = f" and {len(told) - len(shown)} more" if len(told) > len(shown) else ""
    what = "1 call was" if len(told) == 1 else f"{len(told)} calls were"
    return [f"{what} not awaited: {'; '.join(shown)}{more}"]


def _out_of_time(timeout: float) -> ErrorInfo:
    error = ChainTimeout.after(timeout)
    return ErrorInfo(error.kind, error.message, limit="limit.time")


async def _prepare(code: str, identifiers: tuple[str, ...]) -> Program:
    if len(code) <= SMALL_SOURCE:
        return prepare(code, identifiers)
    return await anyio.to_thread.run_sync(prepare, code, identifiers)


def _start(
    program: Program,
    services: ChainServices,
    identifiers: Mapping[str, str],
    ambiguous: Mapping[str, Sequence[str]],
    args: Any,
) -> Start:
    pairs = [*identifiers.items(), *((name, "") for name in ambiguous)]
    return Start(
        backends=pairs,
        ambiguous=ambiguous,
        seed=secrets.token_bytes(32),
        now_ms=time.time() * 1000,
        catalog=_catalog(services) if program.needs_catalog else None,
        interfaces=_interfaces(program, services),
        args=args,
    )


def _catalog(services: ChainServices) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {name: [] for name in services.backend_names()}
    for tool in services.registry.tools():
        for space in {tool.backend, tool.namespace or tool.backend}:
            names.setdefault(space, []).append(tool.name)
    return names


def _interfaces(program: Program, services: ChainServices) -> Json | None:
    """The interfaces the code names, or all of them when it asks in a way that names none."""
    if program.needs_interfaces:
        return all_interfaces(services)
    if not program.interface_literals:
        return None
    return {name: interface_of(name, services) for name in program.interface_literals}


async def _next_batch(exchange: _Exchange, wake_ms: float | None, deadline: float) -> bool:
    """Until a reply is there or the guest's next timer is due; False when the chain's time is over first."""
    left = deadline - time.monotonic()
    if not exchange.ready:
        wait = left if wake_ms is None else min(left, wake_ms / 1000)
        with anyio.move_on_after(max(0.0, wait)):
            await exchange.arrived.wait()
    if exchange.ready:
        await anyio.lowlevel.checkpoint()  # what finished in the same tick travels in the same batch
        return True
    return time.monotonic() < deadline


async def _answer(
    call: Call,
    exchange: _Exchange,
    run: ScriptRun,
    services: ChainServices,
    invoker: Invoker,
    results: ResultStore,
) -> None:
    try:
        outcome = await _dispatch(call, services, invoker, results)
    except GateminiError as exc:
        outcome = Outcome(False, error_fields(exc, f"{call.kind}.{call.tool}", call.kind))
    failed = outcome.value.get("message") if isinstance(outcome.value, dict) else outcome.value
    run.outcomes[call.id] = (f"{call.backend}.{call.tool}", "ok" if outcome.ok else f"it failed: {failed}")
    for note in outcome.notes:
        if note not in run.notes:
            run.notes.append(note)
    exchange.put(Reply(call.id, outcome.ok, outcome.json().encode("utf-8", "replace")))


async def _dispatch(call: Call, services: ChainServices, invoker: Invoker, results: ResultStore) -> Outcome:
    if call.kind == "tool":
        return await invoker.call(call.backend, call.tool, call.arguments, raw=call.raw)
    if call.kind == "resource":
        return await invoker.read_resource(call.backend, str(call.arguments))
    if call.kind == "gatemini":
        arguments = call.arguments if isinstance(call.arguments, dict) else {}
        return Outcome(True, services.discovery(call.tool, arguments))
    return Outcome(True, answer_results_call(call.tool, call.arguments, results))
