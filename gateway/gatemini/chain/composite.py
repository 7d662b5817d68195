"""Run composite tools: a call of one runs code of the configuration in a guest of its own.

The code gets the arguments of the call as `args`. Its calls count towards the limits of the chain that called it. Its run has a
trace of its own inside that of the caller, so that a resumed chain continues in the middle of it.
"""

from __future__ import annotations

import copy
from typing import Any

import anyio

from gatemini.chain.conversation import ScriptRun
from gatemini.chain.invoke import Invoker
from gatemini.chain.replay.outcome import Fate, Outcome
from gatemini.chain.replay.recorded_calls import Entry, RecordedCalls
from gatemini.chain.replay.records import code_hash
from gatemini.chain.script import run_script
from gatemini.discovery.types.identifiers import spoken
from gatemini.errors import (
    OUT_OF_TIME,
    ApprovalPending,
    ArgumentsInvalid,
    CompositeCycle,
    ResumeRefused,
    ToolNotFound,
)
from gatemini.explain.source_lines import line_at
from gatemini.model import Json, Tool
from gatemini.output.json.javascript_json import loads_exact
from gatemini.text.shorten import shorten
from gatemini_sandbox.messages import Done, ErrorInfo
from gatemini_sandbox.typescript.syntax_error import SandboxSyntaxError

MOST_DEPTH = 4
"""Composite tools within composite tools."""

GUESTS_AT_EACH_DEPTH = 4
"""Composite tools of one chain that run at once, at each depth: those above wait for those below, never the
other way round."""

SHOWN_LINE = 80
"""Characters shown of the source line of an error."""

SHOWN_CONSOLE = 500
"""Characters of a composite tool's console that go into the notes."""


async def run_composite(tool: Tool, arguments: Json, entry: Entry, invoker: Invoker) -> Outcome:
    """One call of a composite tool, as any other call's outcome. Raises GateminiError before its code runs."""
    name = f"composite.{tool.name}"
    _check_nesting(name, invoker.path)
    definition = invoker.services.composites.get(tool.name)
    if definition is None:
        raise ToolNotFound(f"the composite tool {tool.name!r} is no longer configured")
    source = code_hash(definition.code)
    trace = entry.inner or invoker.trace.inner(entry, source)
    if trace.source != source:
        raise ResumeRefused(
            f"the code of {name} has changed since it was interrupted",
            hint="send the code without `@resume`, once you know what is still to be done",
        )
    inner = invoker.nested(name, trace)
    places = invoker.guests.setdefault(len(inner.path), anyio.Semaphore(GUESTS_AT_EACH_DEPTH))
    async with places:
        try:
            run = await run_script(
                definition.code,
                invoker.services,
                inner,
                invoker.results,
                args=_with_defaults(tool.input_schema, arguments),
            )
        except SandboxSyntaxError as exc:
            where = ErrorInfo(exc.name, exc.message, exc.line, exc.column, hint=exc.hint)
            return _failed(where, tool, name, definition.code, (), Fate.ANSWERED)
    return _outcome(run, tool, name, definition.code, inner.trace)


def _check_nesting(name: str, path: tuple[str, ...]) -> None:
    if name in path:
        circle = " → ".join([*path[path.index(name) :], name])
        raise CompositeCycle(
            f"composite tools call each other in a circle: {circle}",
            hint="one of them must do its part without the others; only the configuration's owner can correct it",
        )
    if len(path) >= MOST_DEPTH:
        raise CompositeCycle(
            f"composite tools are nested deeper than {MOST_DEPTH}: {' → '.join([*path, name])}",
            hint="call the inner tools directly",
        )


def _outcome(run: ScriptRun, tool: Tool, name: str, code: str, trace: RecordedCalls) -> Outcome:
    end = run.end
    notes = tuple(f"{name}: {note}" for note in (*run.notes, *end.notes))
    if end.console.lines:
        said = "\n".join(end.console.lines)
        notes = (*notes, f"{name} [console]: {shorten(said, SHOWN_CONSOLE)}")
    if isinstance(end, Done):
        if end.kind == "string":
            return Outcome(True, end.text, notes)
        return Outcome(True, loads_exact(end.text), notes, end.text)
    if end.error.limit in OUT_OF_TIME:
        return _failed(end.error, tool, name, code, notes, Fate.CUT)
    if end.error.code == ApprovalPending.code:
        return _held(end.error, tool, name, notes)
    return _failed(end.error, tool, name, code, notes, Fate.FAILED if trace.broken else Fate.ANSWERED)


def _held(error: ErrorInfo, tool: Tool, name: str, notes: tuple[str, ...]) -> Outcome:
    """A composite tool that waits for approvals of its calls waits itself."""
    fields: Json = {
        "name": error.name,
        "message": f"{name}: {error.message}",
        "tool": tool.qualified,
        "backend": tool.backend,
        "code": error.code,
        "structured": error.structured,
        "hint": error.hint,
    }
    return Outcome(False, fields, notes, fate=Fate.HELD)


def _failed(
    error: ErrorInfo, tool: Tool, name: str, code: str, notes: tuple[str, ...], fate: Fate
) -> Outcome:
    """The error of the code, with the name of the composite tool and the place in it."""
    inner = "" if error.tool is None else spoken(error.tool)
    said = f"{inner}: {error.message}" if inner not in error.message else error.message
    fields: Json = {
        "name": "ToolError",
        "message": f"{name} failed: {error.name}: {said}{_where(error, name, code)}",
        "tool": tool.qualified,
        "backend": tool.backend,
    }
    if error.code == CompositeCycle.code:  # says whole what is wrong
        fields["message"] = error.message
    kind = error.code if error.code is not None else error.limit
    if kind is not None:
        fields["code"] = kind
    if error.structured is not None:
        fields["structured"] = error.structured
    # A tool that answers with an error may have been given wrong arguments; all else is the composite tool's own fault.
    if error.code == CompositeCycle.code or (error.hint and fate is not Fate.ANSWERED):
        fields["hint"] = error.hint
    elif error.tool is None or error.code == ArgumentsInvalid.code:
        fields["hint"] = (
            f"this is in the code of {name} (composite_tools.{tool.name} in the configuration), not in yours"
        )
    elif error.hint:
        fields["hint"] = error.hint
    return Outcome(False, fields, notes, fate=fate)


def _where(error: ErrorInfo, name: str, code: str) -> str:
    """The place in the composite tool's code, with its line: its caller cannot look it up."""
    if not error.line or error.code == CompositeCycle.code:
        return ""
    line = shorten((line_at(code, error.line) or "").strip(), SHOWN_LINE)
    return f" (line {error.line}, column {error.column or 1} of {name}" + (f": `{line}`)" if line else ")")


def _with_defaults(schema: Any, arguments: Json) -> Json:
    """The arguments with what the schema gives for those that were left out, also inside of objects."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return arguments
    filled = dict(arguments)
    for name, described in properties.items():
        if not isinstance(described, dict):
            continue
        if name not in filled and "default" in described:
            filled[name] = copy.deepcopy(described["default"])
        elif isinstance(filled.get(name), dict):
            filled[name] = _with_defaults(described, filled[name])
    return filled
