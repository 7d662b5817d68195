"""Tiers 1 and 2: one call, or an array of calls, without a sandbox; and the introspection forms."""

from __future__ import annotations

import anyio

from gatemini.chain.answer import ChainValue
from gatemini.chain.code.parse import Describe, JsonBatch, JsonCall, SingleCall
from gatemini.chain.failure import of_batch, of_call
from gatemini.chain.invoke import Invoker
from gatemini.chain.replay.call_text import arguments_text
from gatemini.chain.replay.outcome import Fate, Outcome
from gatemini.chain.replay.recorded_calls import Entry
from gatemini.chain.script import refusals
from gatemini.chain.services import ChainServices
from gatemini.chain.values.beside import notes_of
from gatemini.chain.values.interfaces import all_interfaces, interface_of, several
from gatemini.errors import ChainTimeout, GateminiError, ResumeRefused, ToolNotFound
from gatemini.model import Json
from gatemini.output.json.javascript_json import dumps


async def single(plan: JsonCall | SingleCall, invoker: Invoker, services: ChainServices) -> ChainValue:
    """Return the value of one call; its failure is the chain's."""
    with refusals():
        outcome, backend = await _made(_issued(1, plan, invoker), plan, invoker, services)
    if outcome.fate is Fate.HELD:
        raise of_call(outcome, backend)
    invoker.trace.deliver([1])
    if outcome.fate is Fate.CUT:
        raise ChainTimeout.after(invoker.time.seconds)
    if not outcome.ok:
        where = (plan.line, plan.column) if isinstance(plan, SingleCall) else (None, None)
        raise of_call(outcome, backend, *where)
    notes = [*outcome.notes, *notes_of(outcome.beside)]
    if isinstance(outcome.value, str):
        return ChainValue(outcome.value, "string", notes, beside=outcome.beside)
    return ChainValue(outcome.as_javascript(), "json", notes, beside=outcome.beside)


async def batch(plan: JsonBatch, invoker: Invoker, services: ChainServices) -> ChainValue:
    """Run a JSON array of calls at once and return the answers in order; a failure only if all failed."""
    answers = [""] * len(plan.calls)
    notes: list[str] = []
    good: list[int] = []
    beside: list[Json] = []
    entries = [_issued(number, call, invoker) for number, call in enumerate(plan.calls, 1)]

    async def one(index: int, call: JsonCall) -> None:
        try:
            outcome, _ = await _made(entries[index], call, invoker, services)
        except ResumeRefused:
            raise
        except GateminiError as exc:
            answers[index] = dumps({"ok": False, "error": exc.text()})
            return
        notes.extend(outcome.notes)
        beside.extend(outcome.beside)
        if outcome.ok:
            good.append(index)
            answers[index] = f'{{"ok":true,"value":{outcome.as_javascript()}}}'
        else:
            answers[index] = dumps({"ok": False, "error": _said(outcome)})

    with refusals():
        async with anyio.create_task_group() as group:
            for index, call in enumerate(plan.calls):
                group.start_soon(one, index, call)
    invoker.trace.deliver([entry.id for entry in entries])
    text = f"[{','.join(answers)}]"
    notes += notes_of(beside)
    if answers and not good:
        raise of_batch(text, notes)
    return ChainValue(text, "json", list(dict.fromkeys(notes)))


def _said(outcome: Outcome) -> str:
    """What an entry of a batch says of its failure."""
    message = str(outcome.value.get("message"))
    held = outcome.fate is Fate.HELD  # the batch must not be sent again: its other calls were made
    return f"{message}; once it is granted, send this call alone again" if held else message


async def describe(plan: Describe, invoker: Invoker, services: ChainServices) -> ChainValue:
    """Answer `__getToolInterface("name")` and `__interfaces` as the sandbox does."""
    await services.listed(invoker.time)
    shown = services.listing(invoker.client.who).registry
    value = interface_of(plan.name or "", shown) if plan.kind == "interface" else all_interfaces(shown)
    notes = several([plan.name or ""], shown) if value is None else []
    return ChainValue(dumps(value), "json", notes)


def _issued(number: int, plan: JsonCall | SingleCall, invoker: Invoker) -> Entry:
    backend = plan.backend if isinstance(plan, SingleCall) else ""
    return invoker.trace.issue(number, "tool", backend, plan.tool, arguments_text(plan.arguments), raw=False)


async def _made(
    entry: Entry, plan: JsonCall | SingleCall, invoker: Invoker, services: ChainServices
) -> tuple[Outcome, str]:
    """Return the outcome of a call, from the journal where it has it, and its backend."""
    backend, tool = await _target(plan, invoker, services)
    if entry.answered:
        return invoker.replayed(entry, backend), backend
    outcome = await invoker.call(entry, backend, tool, plan.arguments)
    invoker.trace.answer(entry, outcome)
    if (replicas := invoker.results.replicas) is not None:
        await replicas.flush()  # labels of what was read, before another replica may replay it
    await invoker.trace.flush()
    return outcome, backend


async def _target(plan: JsonCall | SingleCall, invoker: Invoker, services: ChainServices) -> tuple[str, str]:
    """Return backend and tool of a plan. Raises ToolNotFound."""
    if isinstance(plan, SingleCall):
        return services.identifiers(invoker.client.who)[0][plan.backend], plan.tool
    head, dot, rest = plan.tool.partition(".")
    if dot and rest and head in services.backend_names(invoker.client.who):
        return head, rest
    try:
        tool = services.resolve(plan.tool, invoker.client.who)
    except ToolNotFound:  # a backend may not have listed its tools yet
        missing = await services.listed(invoker.time, live=True)
        try:
            tool = services.resolve(plan.tool, invoker.client.who)
        except ToolNotFound as exc:
            missing.explain(exc, plan.tool)
            raise
    return tool.backend, tool.name
