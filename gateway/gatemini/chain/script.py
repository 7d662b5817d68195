"""Run a script in a guest: its start message, its conversation with the gateway, and how it ended."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from gatemini.chain.conversation import Conversation, ScriptRun, out_of_time
from gatemini.chain.invoke import Invoker
from gatemini.chain.services import ChainServices
from gatemini.chain.values.interfaces import all_interfaces, interface_of, owners
from gatemini.errors import ChainTimeout, CodeError, ResumeRefused
from gatemini.explain.error_facts import HintContext
from gatemini.explain.name_hints import not_available
from gatemini.model import Json
from gatemini.output.store.results import ResultStore
from gatemini.registry import Registry
from gatemini_sandbox.errors import ReadingTooLong
from gatemini_sandbox.messages import ErrorInfo, Facts, Failed, Needs, Start, Step

GRACE_SECONDS = 1.0
"""What the guest gets beyond the chain's time to end by itself and hand over its console."""

ASKING_SECONDS = 3600.0
"""What the guest's own clock gets beyond the chain's time if the user may be asked, since that time does not count:
then only the host ends the chain in time. CPU time is limited all the same."""

MINIMUM_SECONDS = 0.001
"""A chain whose time is over when its turn comes still ends by the guest's own limit."""

COMPUTING = (
    "the code was computing, not waiting: look for an endless loop, do less in one chain, "
    "or raise `timeout` (ms, at most 600000)"
)
"""The hint where the time was over in the midst of a step that took a share of it."""

UNREADABLE = (
    "send code as a person would write it: close every quote and bracket, nest less, keep data out of it"
)


async def run_script(
    code: str, services: ChainServices, invoker: Invoker, results: ResultStore, *, args: Any = None
) -> ScriptRun:
    """Run `code` in a fresh guest until it is done, has failed, or the chain's time is over.

    Raises SandboxSyntaxError before anything has run, ResumeRefused when the code does not do again what the
    invoker's trace holds. Cancelling it stops the guest and its calls.
    """
    trace = invoker.trace
    identifiers, ambiguous = services.identifiers(invoker.client.who)
    if trace.start is not None:
        identifiers = {identifier: name for identifier, name in trace.start.backends if identifier and name}
    run = ScriptRun(Facts(source=code), Failed(ErrorInfo("InternalError", "the chain has not ended")))
    guest = services.sandbox.session(code, identifiers, wall_seconds=_guest_seconds(services, invoker))
    shown = services.listing(invoker.client.who).registry
    context = HintContext(identifiers, owners=partial(owners, registry=shown), disabled=services.disabled())

    async def first_step() -> Step:
        if trace.start is not None:
            return await guest.start(replace(trace.start, clock=trace.readings))
        start = _start(services.backend_names(invoker.client.who), identifiers, ambiguous, args, context)

        async def supply(needs: Needs) -> Start:
            nonlocal start
            start = await _complete(needs, start, services, context, invoker)
            return start

        step = await guest.start(start, supply)
        trace.started(start)
        return step

    try:
        with refusals(), invoker.time.bound(GRACE_SECONDS):
            conversation = Conversation(guest, run, services, invoker, results)
            await conversation.hold(first_step)
            if isinstance(run.end, Failed) and run.end.error.limit == "limit.time":
                run.end.error = out_of_time(invoker, guest)  # the guest knows only what was left of it
                if run.end.error.limit == "limit.time" and conversation.computed:
                    run.end.error.hint = COMPUTING
            return run
        run.end = Failed(out_of_time(invoker, guest))
    except ReadingTooLong as exc:
        if invoker.time.left() <= 0:
            raise ChainTimeout.after(invoker.time.seconds) from None
        raise CodeError(str(exc), hint=UNREADABLE) from None
    finally:
        guest.close()
        trace.ended(guest.readings)
    return run


@contextmanager
def refusals() -> Iterator[None]:
    """A ResumeRefused from inside task groups, raised as itself."""
    try:
        yield
    except BaseExceptionGroup as group:
        refused: BaseException | None = group.subgroup(ResumeRefused)
        while isinstance(refused, BaseExceptionGroup):
            refused = refused.exceptions[0]
        if refused is None:
            raise
        raise refused from None


def _guest_seconds(services: ChainServices, invoker: Invoker) -> float:
    """What the guest's own clock gives it."""
    asking = ASKING_SECONDS if invoker.caller.ask or services.door else 0
    return max(MINIMUM_SECONDS, invoker.time.left()) + asking


def _start(
    names: Sequence[str],
    identifiers: Mapping[str, str],
    ambiguous: Mapping[str, Sequence[str]],
    args: Any,
    context: HintContext,
) -> Start:
    """The start message of code that asks for nothing more."""
    # A name whose identifier another one has is reached by brackets only.
    unspoken = sorted(set(names) - set(identifiers.values()))
    pairs = [*identifiers.items(), *((name, "") for name in ambiguous), *(("", name) for name in unspoken)]
    return Start(
        backends=pairs,
        ambiguous=ambiguous,
        seed=secrets.token_bytes(32),
        now_ms=time.time() * 1000,
        args=args,
        absent=not_available((), context),
    )


async def _complete(
    needs: Needs, start: Start, services: ChainServices, context: HintContext, invoker: Invoker
) -> Start:
    """The start message with what the code asks for."""
    if needs.catalog or needs.interfaces or needs.facts.interface_literals:
        await services.listed(invoker.time)
    shown = services.listing(invoker.client.who).registry
    return replace(
        start,
        catalog=_catalog(services.backend_names(invoker.client.who), shown) if needs.catalog else None,
        interfaces=_interfaces(needs, shown),
        absent=not_available(needs.read, context),
    )


def _catalog(backends: Sequence[str], registry: Registry) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {name: [] for name in backends}
    for tool in registry.tools():
        for space in {tool.backend, tool.namespace or tool.backend}:
            names.setdefault(space, []).append(tool.name)
    return names


def _interfaces(needs: Needs, registry: Registry) -> Json | None:
    """The interfaces the code names, or all of them when it asks in a way that names none."""
    if needs.interfaces:
        return all_interfaces(registry)
    names = needs.facts.interface_literals
    return {name: interface_of(name, registry) for name in names} if names else None
