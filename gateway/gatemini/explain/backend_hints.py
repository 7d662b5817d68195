"""Hints about limits, backends that cannot answer, and tools that refuse or do not exist."""

from __future__ import annotations

import re
from typing import Final

from gatemini.discovery.types.identifiers import is_plain_name, spoken
from gatemini.explain.error_facts import SEARCHED, ErrorFacts, HintContext
from gatemini.explain.name_hints import spelled_tool
from gatemini.text.escape import visible
from gatemini.text.shorten import CLOSEST, closest, listed, shorten

SHOWN_STDERR: Final = 300
"""Characters of a backend's last stderr line in a hint."""

SHOWN_MEANT: Final = 600
"""Characters of the tools that may have been meant, with their arguments."""

_LIMITS: Final = {
    "limit.time": "raise `timeout` (ms, at most 600000) or do less in one chain",
    "limit.guests": "send it again when fewer chains run, or raise `timeout` (ms, at most 600000)",
    "limit.cpu": "the code itself computed too long: look for an endless loop, a loop that awaits nothing, or a regular expression with nested repetition such as (a+)+",
    "limit.memory": "keep less at once: filter or page at the tool, or work on a stored result with results.chunks(handle)",
    "limit.total_memory": "send it again when fewer chains run, or keep less at once",
    "limit.stack": "recursion went too deep, or a literal or value is nested too deep: check the end condition, use a loop with a list of what is left to do, or flatten the value",
    "limit.code": "move data out of the code: let a tool produce it, or keep it with results.save(value) in an earlier chain",
    "limit.calls": "use a tool that takes many items at once, or split the work over several chains; a loop over pages passes on the cursor of each answer and ends where that is null or missing",
    "limit.timers": "wait with one timer for many things, or clear timers that are not needed any more",
    "limit.arguments": "pass less data in one call, or pass the `ref` of a stored result instead",
    "limit.result": "ask the tool for less (a filter, a page), or read the stored result with results.chunks(handle)",
    "limit.value": "return less (the fields and rows that are needed), or keep it with results.save(value) and return the handle",
    "sandbox.worker_lost": "this is no fault of the code: send it again, with `@resume` where a line below names its id",
    "limit.depth": "flatten the value before returning or passing it",
}

_ADVICE: Final = {
    "backend.starting": "call it again in a moment",
    "backend.timeout": "raise `timeout`, or ask for less; whether the call took effect is not known",
    "backend.busy": "nothing was sent: make fewer calls at once",
    "backend.crashed": "the next call starts it again; look whether this one took effect before you repeat it",
    "backend.too_large": "ask the tool for less (a filter, a page)",
}
"""For errors that came without a remedy of their own."""

_KEYS = re.compile(
    r"\b(?:401|403|unauthori[sz]ed|forbidden|api[ _-]?key|token|credentials?|authentication)\b", re.I
)
_CHECKED = re.compile(r"\.isError\b")
_CALLERS: Final = frozenset(
    ("calltool", "invoke", "invoketool", "execute", "executetool", "runtool", "request", "usetool")
)
"""What other clients call their way to call a tool, in lower case and without underscores."""


def limit(error: ErrorFacts, context: HintContext) -> str | None:
    if error.limit == "limit.time" and error.given:
        return error.given
    return _LIMITS.get(error.limit or "")


def backend_trouble(error: ErrorFacts, context: HintContext) -> str | None:
    """A backend that could not answer: the remedy, then what the message does not yet say of its state."""
    code = error.code if isinstance(error.code, str) else ""
    unrelated = error.backend is None or code in ("backend.not_found", "backend.protocol")
    if unrelated or not code.startswith("backend.") or error.backend is None:
        return None
    parts = [error.given or _ADVICE.get(code, "")]
    state = context.state(error.backend)
    if reason := context.not_running(error.backend):  # its configuration has changed during the call
        parts.append(reason)
    elif state is not None and state.state not in ("healthy", "ready") and code != "backend.crashed":
        known = state.error is None or state.error in error.message
        why = "" if known else f" ({shorten(state.error or '', SHOWN_STDERR)})"
        parts.append(f"{error.backend} is {state.state}{why}")
    if state is not None and state.stderr and state.stderr[-1].strip() not in error.message:
        parts.append(f"its last stderr line: {shorten(state.stderr[-1], SHOWN_STDERR)}")
    return "; ".join([*filter(None, parts), "more in gatemini://health"])


def tool_failed(error: ErrorFacts, context: HintContext) -> str | None:
    """An error of the tool itself: its signature where it refused the parameters, its keys where it lacks some."""
    if error.tool is None or error.given:
        return error.given if error.tool else None
    if error.code == -32602 and error.backend:
        signature = context.signature(error.backend, error.tool.rpartition(".")[2])
        return (
            f"signature: {signature}"
            if signature
            else f"look at tool_info {spoken(error.tool)} before calling again"
        )
    if error.name == "ToolError" and _KEYS.search(error.message):
        return f"get_required_keys_for_tool {spoken(error.tool)} names the keys this backend needs and which are missing"
    code = error.source[:SEARCHED]
    if error.name == "ToolError" and _CHECKED.search(code) and ".raw" not in code:  # a raw result has it
        return "a call that fails throws, its result has no isError: write `try { … } catch (e) { … e.message … }`"
    return None


def _spelled(backend: str, tool: str, context: HintContext) -> str:
    """The tool as code writes it, with its backend where brackets are needed."""
    return tool if is_plain_name(tool) else spelled_tool(backend, tool, context)


def unknown_tool(error: ErrorFacts, context: HintContext) -> str | None:
    backend = error.backend
    if error.code != "tool.not_found" or backend is None:
        return None
    name = (error.tool or "").removeprefix(f"{backend}.")
    known = context.tools(backend)
    elsewhere = [owner for owner in context.owners(name) if not owner.startswith(f"{backend}.")]
    if elsewhere:
        return f"{visible(name)} is a tool of {listed(owner.rpartition('.')[0] for owner in elsewhere[:CLOSEST])}"
    if close := closest(name, known):
        arguments = ((_spelled(backend, tool, context), context.arguments(backend, tool)) for tool in close)
        meant = (f"{tool}({given})" if given else tool for tool, given in arguments)
        return shorten(f"did you mean {listed(meant)}?", SHOWN_MEANT)
    if name.replace("_", "").lower() in _CALLERS:
        given = re.search(r"""\(\s*["'`]([A-Za-z_$][\w$]*)["'`]""", error.source_line)
        called = given[1] if given and given[1] in known else "tool"
        spelled = context.identifier(backend) or spoken(backend)
        return f"tools are members of the backend: write `await {spelled}.{called}({{…}})`"
    return f"tools of {spoken(backend)}: {listed(known)}" if known else error.given
