"""What the code gets of a tool's answer, and whether that keeps the output schema which the tool declares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from jsonschema.exceptions import ValidationError

from gatemini.backends.calls.large_messages import Written, in_full
from gatemini.chain.arguments.schema_faults import sentence
from gatemini.chain.arguments.schemas import faults
from gatemini.chain.replay.outcome import Outcome
from gatemini.chain.values.tool_values import to_value, tool_error
from gatemini.discovery.types.identifiers import short_name
from gatemini.model import Json, Tool
from gatemini.output.store.results import ResultStore
from gatemini.text.escape import visible

OUTPUT_STEPS: Final = 1_000
"""Keyword evaluations spent on one result (about 5 ms): what lies beyond in a large one is not looked at."""

SAFE_DIGITS: Final = 16
"""Integers of at least so many digits may have come as strings, which is no fault of the tool."""


def answered(
    tool: Tool,
    result: Json,
    notes: tuple[str, ...],
    results: ResultStore,
    learn: Callable[[Tool, Any], None],
    lists: set[str],
    *,
    raw: bool,
) -> Outcome:
    """Return the value for the code of a backend's answer; a mismatch with its schema is a note, never a lost result."""
    if (mismatched := mismatch(tool, result)) is not None:
        notes = (*notes, mismatched)
    if raw or result.get("isError"):
        result = in_full(result)
    if raw:
        return Outcome(True, result, notes)
    if result.get("isError"):
        return Outcome(False, tool_error(result, tool), notes)
    value = to_value(
        result,
        tool,
        save_blob=results.save_blob,
        save_text=lambda text: results.save(text, label=tool.qualified),
        lists=lists,
    )
    if not value.written:
        learn(tool, value.value)
    said = (*notes, *value.notes)
    return Outcome(True, value.value, said, value.text, written=value.written, beside=tuple(value.beside))


def mismatch(tool: Tool, result: Json) -> str | None:
    """What of a successful result is not as declared, in a sentence; the same for the same fault."""
    structured = result.get("structuredContent")
    # What is too large to be held as a value is not looked at.
    if (
        tool.output_schema is None
        or not structured
        or isinstance(structured, Written)
        or result.get("isError")
    ):
        return None
    found = [f for f in faults(tool.output_schema, structured, steps=OUTPUT_STEPS) if not _long_integer(f)]
    if not found:
        return None
    _, said = sentence(found[0], "the result")
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"{short_name(tool.qualified)} does not keep its output schema: {visible(said)}{more}"


def _long_integer(fault: ValidationError) -> bool:
    value: Any = fault.instance
    if fault.validator != "type" or not isinstance(value, str):
        return False
    return len(value) >= SAFE_DIGITS and value.lstrip("-").isdecimal()
