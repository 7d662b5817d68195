"""Composite tools: a call that runs code of the configuration in a guest of its own (spec 2.5).

The code gets the call's arguments as `args`. Its calls go through the same door and count towards the limits
of the chain that called it; its run has a trace of its own inside the caller's, so that a resumed chain goes
on in the middle of it. Above: run.py. Below: script.py, invoke.py, trace.py.
"""

from __future__ import annotations

import hashlib

import anyio

from gatemini.chain.invoke import Invoker
from gatemini.chain.jsvalue import loads_exact
from gatemini.chain.outcome import Fate, Outcome
from gatemini.chain.script import ScriptRun, run_script
from gatemini.chain.trace import Entry, Trace
from gatemini.errors import OUT_OF_TIME, CompositeCycle, ResumeRefused, ToolNotFound
from gatemini.model import Json, Tool
from gatemini_sandbox import Done, ErrorInfo
from gatemini_sandbox.syntax import SandboxSyntaxError

MOST_DEPTH = 4
"""Composite tools within composite tools."""

GUESTS_AT_EACH_DEPTH = 4
"""Composite tools of one chain that run at once, at each depth: those above wait for those below, never the
other way round."""

SHOWN_CONSOLE = 500
"""Characters of a composite tool's console that go into the notes."""


async def run_composite(tool: Tool, arguments: Json, entry: Entry, invoker: Invoker) -> Outcome:
    """One call of a composite tool, as any other call's outcome. Raises GateminiError before its code runs."""
    name = f"composite.{tool.name}"
    _check_nesting(name, invoker.path)
    definition = invoker.services.composites.get(tool.name)
    if definition is None:
        raise ToolNotFound(f"the composite tool {tool.name!r} is no longer configured")
    source = hashlib.blake2b(definition.code.encode("utf-8", "replace"), digest_size=16).digest()
    if entry.inner is None:
        entry.inner = Trace(invoker.trace.meter, source)
    elif entry.inner.source != source:
        raise ResumeRefused(
            f"the code of {name} has changed since it was interrupted",
            hint="send the code without `@resume`, once you know what is still to be done",
        )
    inner = invoker.nested(name, entry.inner)
    places = invoker.guests.setdefault(len(inner.path), anyio.Semaphore(GUESTS_AT_EACH_DEPTH))
    async with places:
        try:
            run = await run_script(
                definition.code,
                invoker.services,
                inner,
                invoker.results,
                args=arguments,
            )
        except SandboxSyntaxError as exc:
            where = ErrorInfo(exc.name, exc.message, exc.line, exc.column, hint=exc.hint)
            return _failed(where, tool, name, (), Fate.ANSWERED)
    return _outcome(run, tool, name, inner.trace)


def _check_nesting(name: str, path: tuple[str, ...]) -> None:
    if name in path:
        circle = " → ".join([*path[path.index(name) :], name])
        raise CompositeCycle(
            f"composite tools call each other in a circle: {circle}",
            hint="one of them must do its part without the others; this is for the configuration's owner to mend",
        )
    if len(path) >= MOST_DEPTH:
        raise CompositeCycle(
            f"composite tools are nested deeper than {MOST_DEPTH}: {' → '.join([*path, name])}",
            hint="call the inner tools directly",
        )


def _outcome(run: ScriptRun, tool: Tool, name: str, trace: Trace) -> Outcome:
    end = run.end
    notes = tuple(f"{name}: {note}" for note in (*run.notes, *end.notes))
    if end.console.lines:
        said = "\n".join(end.console.lines)
        shown = said if len(said) <= SHOWN_CONSOLE else said[: SHOWN_CONSOLE - 1] + "…"
        notes = (*notes, f"{name} [console]: {shown}")
    if isinstance(end, Done):
        if end.kind == "string":
            return Outcome(True, end.text, notes)
        return Outcome(True, loads_exact(end.text), notes, end.text)
    if end.error.limit in OUT_OF_TIME:
        return _failed(end.error, tool, name, notes, Fate.CUT)
    return _failed(end.error, tool, name, notes, Fate.FAILED if trace.broken else Fate.ANSWERED)


def _failed(error: ErrorInfo, tool: Tool, name: str, notes: tuple[str, ...], fate: Fate) -> Outcome:
    where = f" (line {error.line}, column {error.column or 1} of its code)" if error.line else ""
    fields: Json = {
        "name": "ToolError",
        "message": f"{name} failed: {error.name}: {error.message}{where}",
        "tool": tool.qualified,
        "backend": tool.backend,
    }
    code = error.code if error.code is not None else error.limit
    if code is not None:
        fields["code"] = code
    if error.structured is not None:
        fields["structured"] = error.structured
    if error.hint:
        fields["hint"] = error.hint
    return Outcome(False, fields, notes, fate=fate)
