"""Whether a result keeps the output schema its tool declares: a mismatch is a note, never a lost result."""

from __future__ import annotations

from typing import Any, Final

from jsonschema.exceptions import ValidationError

from gatemini.backends.calls.large_messages import Written
from gatemini.chain.arguments.schema_faults import sentence
from gatemini.chain.arguments.schemas import faults
from gatemini.discovery.types.identifiers import short_name
from gatemini.model import Json, Tool

OUTPUT_STEPS: Final = 1_000
"""Keyword evaluations spent on one result (about 5 ms): what lies beyond in a large one is not looked at."""

SAFE_DIGITS: Final = 16
"""Integers of at least so many digits may have come as strings, which is no fault of the tool."""


def mismatch(tool: Tool, result: Json) -> str | None:
    """What of a successful result is not as declared, in a sentence; the same for the same fault."""
    structured = result.get("structuredContent")
    if tool.output_schema is None or not structured or result.get("isError"):
        return None
    whole = structured.sample if isinstance(structured, Written) else structured
    found = [f for f in faults(tool.output_schema, whole, steps=OUTPUT_STEPS) if not _long_integer(f)]
    if isinstance(structured, Written):
        found = [fault for fault in found if not _of_what_is_cut(fault, structured)]
    if not found:
        return None
    _, said = sentence(found[0], "the result")
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"{short_name(tool.qualified)} does not keep its output schema: {said}{more}"


def _of_what_is_cut(fault: ValidationError, structured: Written) -> bool:
    """Whether a fault may be none: of a large result only the beginning is looked at, which tells its type."""
    if fault.validator != "type" and structured.goes_on(fault.instance):
        return True
    return any(_of_what_is_cut(inner, structured) for inner in fault.context or ())


def _long_integer(fault: ValidationError) -> bool:
    value: Any = fault.instance
    if fault.validator != "type" or not isinstance(value, str):
        return False
    return len(value) >= SAFE_DIGITS and value.lstrip("-").isdecimal()
