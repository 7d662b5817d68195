"""Sentences for the faults that JSON Schema validation finds, written for the author of the call."""

from __future__ import annotations

import difflib
import re
from typing import Any, Final

from jsonschema.exceptions import ValidationError

from gatemini.output.json.javascript_json import dumps
from gatemini.text.shorten import shorten

SHOWN_VALUE: Final = 60
"""Characters of an argument's value shown in an error."""

_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{1,15})?$")
_BOUNDS: Final = {
    "minimum": "at least",
    "exclusiveMinimum": "more than",
    "maximum": "at most",
    "exclusiveMaximum": "less than",
    "multipleOf": "a multiple of",
}
_TYPES: Final = {
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


def sentence(fault: ValidationError, whole: str = "the object of arguments") -> tuple[str, str]:
    """Return the field of one fault, and the fault as a sentence for the author of the call."""
    meant = deepest(fault)
    field = path_text(meant.absolute_path)
    subject = f'"{field}"' if field else whole
    return field, f"{subject} {_must(meant)}"


def deepest(fault: ValidationError) -> ValidationError:
    """Return the intended branch of a failed anyOf/oneOf if one clearly is, else the fault itself.

    Intended is the only branch of the value's type (so for `string | null` the string's own condition is reported), or
    of several the only one that fails further inside.
    """
    depth = len(fault.absolute_path)
    branches: dict[Any, list[ValidationError]] = {}
    for inner in fault.context or ():
        if inner.schema_path:
            branches.setdefault(inner.schema_path[0], []).append(inner)
    of_its_type = [
        faults
        for faults in branches.values()
        if not any(inner.validator == "type" and len(inner.absolute_path) == depth for inner in faults)
    ]
    if len(of_its_type) > 1:
        of_its_type = [
            faults for faults in of_its_type if all(len(inner.absolute_path) > depth for inner in faults)
        ]
    if len(of_its_type) != 1:
        return fault
    [faults] = of_its_type
    return deepest(next((inner for inner in faults if len(inner.absolute_path) > depth), faults[0]))


def _must(fault: ValidationError) -> str:
    value: Any = fault.instance
    rule: Any = fault.validator_value
    shown = (
        kind(value)
        if value is None or isinstance(value, dict | list)
        else f"{kind(value)} {shown_value(value)}"
    )
    match fault.validator:
        case "type":
            expected = " or ".join(map(str, rule)) if isinstance(rule, list) else str(rule)
            return f"must be {expected}, got {shown}{_meant(value, rule)}"
        case "enum":
            allowed = ", ".join(dumps(item) for item in rule[:12])
            more = f", … ({len(rule)} in all)" if len(rule) > 12 else ""
            lowered = {str(item).lower(): item for item in reversed(rule[:500])}
            close = difflib.get_close_matches(str(value).lower(), list(lowered), 1, 0.6)
            guess = f' (did you mean "{lowered[close[0]]}"?)' if close else ""
            return f"must be one of {allowed}{more}, got {shown_value(value)}{guess}"
        case "const":
            return f"must be {shown_value(rule)}, got {shown_value(value)}"
        case "required":
            lacking = [name for name in rule if isinstance(value, dict) and name not in value]
            return f"lacks the required {', '.join(map(dumps, lacking[:8]))}"
        case "additionalProperties":
            return fault.message.replace("unknown", "has unknown", 1)
        case "anyOf" | "oneOf" if (types := _only_types(fault)) is not None:
            return f"must be {' or '.join(types)}, got {shown}{_meant(value, types)}"
        case "anyOf" | "oneOf":
            several = fault.validator == "oneOf" and not fault.context
            fits = "fits more than one of the allowed forms" if several else "fits none of the allowed forms"
            return f"{fits}, got {shown}{_alternatives(rule)}"
        case None:  # a schema that is just `false`
            return f"holds what is not allowed there: {shown}"
        case "pattern":
            return f"must match the pattern {shorten(str(rule), SHOWN_VALUE)}, got {shown_value(value)}"
        case "minimum" | "exclusiveMinimum" | "maximum" | "exclusiveMaximum" | "multipleOf":
            bound = str(fault.validator)
            exclusive = f"exclusive{bound[0].upper()}{bound[1:]}"
            if isinstance(fault.schema, dict) and fault.schema.get(exclusive) is True:  # as draft 4 writes it
                bound = exclusive
            return f"must be {_BOUNDS[bound]} {rule}, got {shown_value(value)}"
        case "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties":
            what = {"str": "characters", "list": "items"}.get(type(value).__name__, "members")
            least = "at least" if fault.validator.startswith("min") else "at most"
            return f"must have {least} {rule} {what}, has {len(value)}"
    return f"does not fit ({shorten(fault.message, 160)})"


def _only_types(fault: ValidationError) -> list[str] | None:
    """Return the types of an anyOf whose branches all failed for the value's type alone."""
    branches = fault.validator_value if isinstance(fault.validator_value, list) else []
    types = [branch.get("type") if isinstance(branch, dict) else None for branch in branches]
    depth = len(fault.absolute_path)
    failed = {
        inner.schema_path[0]
        for inner in fault.context or ()
        if inner.schema_path and inner.validator == "type" and len(inner.absolute_path) == depth
    }
    if not branches or len(failed) != len(branches) or len(set(map(str, types))) != len(types):
        return None
    return (
        [name for name in types if isinstance(name, str)] if all(isinstance(t, str) for t in types) else None
    )


def _meant(value: Any, rule: Any) -> str:
    """Return advice for text that holds a value of the wanted type."""
    wanted = rule if isinstance(rule, list) else [rule]
    if not isinstance(value, str):
        return ""
    if {"number", "integer"}.intersection(wanted) and _NUMBER.match(value):
        return f" (pass the number {value})"
    if {"object", "array"}.intersection(wanted) and value.lstrip()[:1] in ("{", "["):
        return " (pass the value itself, not its JSON text)"
    return f" (write [{shown_value(value)}])" if wanted == ["array"] else ""


def _alternatives(branches: Any) -> str:
    """Return the allowed forms: objects by their required members, others by their type."""
    kinds = []
    for branch in branches:
        required = branch.get("required") if isinstance(branch, dict) else None
        if isinstance(required, list) and required and all(isinstance(name, str) for name in required):
            kinds.append(f"{{{', '.join(required[:6])}}}")
        elif isinstance(branch, dict) and isinstance(branch.get("type"), str):
            kinds.append(str(branch["type"]))
    return f" (allowed: {' | '.join(dict.fromkeys(kinds))})" if kinds else ""


def path_text(parts: Any) -> str:
    text = ""
    for part in parts:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else str(part)
    return shorten(text, 120)


def kind(value: Any) -> str:
    return "null" if value is None else _TYPES.get(type(value), type(value).__name__)


def shown_value(value: Any) -> str:
    if isinstance(value, str):
        return dumps(shorten(value, SHOWN_VALUE))
    if isinstance(value, (dict, list)) and len(value) > 20:
        return f"{kind(value)} of {len(value)}"
    return shorten(dumps(value), SHOWN_VALUE)
