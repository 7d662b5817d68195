"""Check arguments against the tool's input schema before a call is sent.

An error names the field, lists what is required and shows the signature, so that the next try can be right. What cannot
be checked is sent: the backend decides. Pure functions.
"""

from __future__ import annotations

import copy
import difflib
import re
from collections.abc import Callable, Container, Sequence
from typing import Any, Final

import orjson
from jsonschema.exceptions import ValidationError

from gatemini.chain.jsvalue import NotJson, dumps, loads_exact
from gatemini.chain.schemas import faults, unknown_names
from gatemini.errors import ArgumentsInvalid
from gatemini.model import Json, Tool
from gatemini.types.identifiers import spoken
from gatemini.types.schema import required_parameters

SHOWN_FAULTS: Final = 4
"""Faults named in one error; the rest are counted."""

SHOWN_VALUE: Final = 60
"""Characters of an argument's value shown in an error."""

SHOWN_SIGNATURE: Final = 1_000
"""Characters of the signature shown in an error."""

Paths = Sequence[Sequence[str | int]]

_INTEGER = re.compile(r"0|-?[1-9]\d{0,18}", re.ASCII)
_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{1,15})?$")
_BOUNDS: Final = {
    "minimum": "at least",
    "exclusiveMinimum": "more than",
    "maximum": "at most",
    "exclusiveMaximum": "less than",
    "multipleOf": "a multiple of",
}
_WRAPPERS: Final = ("arguments", "args", "params", "parameters", "input", "kwargs")
_TYPES: Final = {
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


def check(
    tool: Tool, arguments: Any, signature: Callable[[Tool], str], digits: Paths = ()
) -> tuple[Json, tuple[str, ...]]:
    """Return the object of arguments to send, with notes on what was changed.

    `arguments` is one object, or what the code passed instead: None, a JSON string of an object, or the list of
    positional arguments; `digits` are the paths in it at which a BigInt is held as text. Raises ArgumentsInvalid.
    """
    named, notes = _as_object(tool, arguments, signature)
    named = _well_formed(named, notes)
    problems = _problems(tool, named)
    bigints = dict.fromkeys(tuple(path[1:] if isinstance(arguments, list) else path) for path in digits)
    if problems and (places := _of_exact_integers(tool, named, bigints)):
        named = _with_integers(named, places)
        problems = _problems(tool, named)
        shown = ", ".join(map(_path, places[:SHOWN_FAULTS]))
        notes.append(f"{spoken(tool.qualified)}: sent as the integer its digits are: {shown}")
        for place in places:
            bigints.pop(place, None)
    if bigints:
        first, more = _path(next(iter(bigints))), len(bigints) - 1
        where = f"{first} and {more} more" if more else first
        notes.append(f"arguments of {spoken(tool.qualified)}: BigInt became a decimal string ({where})")
    if problems:
        raise _invalid(tool, problems, named, signature)
    return named, tuple(notes)


def _as_object(tool: Tool, arguments: Any, signature: Callable[[Tool], str]) -> tuple[Json, list[str]]:
    if arguments is None or arguments == []:
        return {}, []
    single = arguments[0] if isinstance(arguments, list) and len(arguments) == 1 else arguments
    if isinstance(single, dict):
        return single, []
    if single is None:
        return {}, []
    if isinstance(single, str):
        parsed = _parsed_object(single)
        if parsed is not None:
            return parsed, [
                f"{spoken(tool.qualified)}: the arguments came as a JSON string and were taken as the object in it"
            ]
    raise _positional(tool, arguments if isinstance(arguments, list) else [arguments], signature)


def _parsed_object(text: str) -> Json | None:
    if not text.lstrip().startswith("{"):
        return None
    try:
        value = loads_exact(text)
    except NotJson:
        return None
    return value if isinstance(value, dict) else None


def _positional(tool: Tool, given: Sequence[Any], signature: Callable[[Tool], str]) -> ArgumentsInvalid:
    """Return the error for arguments that are not one object, with the call as it should be written."""
    kinds = ", ".join(_kind(item) for item in given[:6])
    names = _parameter_order(tool)
    written = (
        f"takes one object with named arguments, not {len(given)} positional"
        if len(given) > 1
        else (f"takes one object with named arguments, not {_kind(given[0])}")
    )
    message = (
        f"{spoken(tool.qualified)} {written} ({kinds})"
        if len(given) > 1
        else f"{spoken(tool.qualified)} {written}"
    )
    pairs = zip(names, given, strict=False)
    required = tool.input_schema.get("required") if isinstance(tool.input_schema, dict) else None
    lacking = [name for name in names[len(given) :] if isinstance(required, list) and name in required]
    example = ", ".join(
        [f"{_property(name)}: {_shown(item)}" for name, item in pairs]
        + [f"{_property(name)}: …" for name in lacking]
    )
    if len(given) > 1 and isinstance(given[0], dict) and given[0] and set(tool.required) <= given[0].keys():
        name = spoken(tool.qualified)
        hint = f"leave out what stands behind the object; as a callback write `(x) => {name}(x)`"
        return _error(tool, message, hint, signature, fields=[])
    hint = f"write ({{ {example} }})" if example and len(given) <= len(names) else "write ({ name: value })"
    return _error(tool, message, hint, signature, fields=[])


def _parameter_order(tool: Tool) -> list[str]:
    properties = tool.input_schema.get("properties")
    declared = [name for name in properties if isinstance(name, str)] if isinstance(properties, dict) else []
    required = [name for name in declared if name in tool.required]
    return required + [name for name in declared if name not in required]


def _well_formed(arguments: Json, notes: list[str]) -> Json:
    """Return the arguments without lone surrogates, which no backend could decode."""
    try:
        orjson.dumps(arguments)
    except (orjson.JSONEncodeError, RecursionError):
        text = dumps(arguments)
        mended = _without_lone_surrogates(text)
        if mended != text:
            notes.append("lone surrogates in the arguments were replaced by U+FFFD")
            try:
                value = loads_exact(mended)
            except NotJson:
                return arguments
            return value if isinstance(value, dict) else arguments
    return arguments


def _of_exact_integers(tool: Tool, arguments: Json, bigints: Container[Any]) -> list[tuple[str | int, ...]]:
    """Return the paths of digits held as text where only a number is accepted.

    Beyond 2^53 such an id came from a tool as text; a BigInt of any size is text here.
    """
    return [
        path
        for fault in faults(tool.input_schema, arguments)
        if _takes_number(place := _deepest(fault))
        and _is_integer(place.instance, -1 if (path := tuple(place.absolute_path)) in bigints else 2**53)
    ]


def _with_integers(arguments: Json, places: Sequence[tuple[str | int, ...]]) -> Json:
    exact = copy.deepcopy(arguments)
    for *above, last in places:
        inside: Any = exact
        for step in above:
            inside = inside[step]
        inside[last] = int(inside[last])
    return exact


def _takes_number(fault: ValidationError) -> bool:
    """Return whether a value is refused for its type, and a number would be accepted there."""
    branches = [one for one in fault.context or () if one.absolute_path == fault.absolute_path]
    return bool(fault.absolute_path) and any(
        one.validator == "type" and _numeric(one.validator_value) for one in [fault, *branches]
    )


def _numeric(wanted: Any) -> bool:
    kinds = wanted if isinstance(wanted, list) else [wanted]
    return "integer" in kinds or "number" in kinds


def _is_integer(text: Any, least: int) -> bool:
    """Return whether a text holds the digits of an integer of more than `least`, and of no more than 64 bits."""
    return isinstance(text, str) and _INTEGER.fullmatch(text) is not None and least < abs(int(text)) < 2**63


def _without_lone_surrogates(text: str) -> str:
    """Replace the escapes of lone surrogates in JSON text of `dumps` by U+FFFD."""
    pieces = text.split("\\ud")
    out = [pieces[0]]
    for piece in pieces[1:]:
        before = out[-1]
        is_escape = (len(before) - len(before.rstrip("\\"))) % 2 == 0
        surrogate = is_escape and piece[:1] != "" and piece[0] in "89abcdef"
        out.append("\ufffd" + piece[3:] if surrogate else "\\ud" + piece)
    return "".join(out)


def _problems(tool: Tool, arguments: Json) -> list[tuple[str, str]]:
    """Return what is wrong as (field, sentence), the most useful first."""
    missing = [name for name in tool.required if name not in arguments]
    unknown: list[str] = []
    other: list[tuple[str, str]] = []
    for fault in faults(tool.input_schema, arguments):
        if list(fault.absolute_schema_path) == ["required"]:
            continue  # `missing` has all of them
        if not fault.absolute_path and unknown_names(fault):
            unknown.extend(unknown_names(fault))
        else:
            other.append(sentence(fault))
    if not (missing or unknown or other):
        return []
    known = _parameter_order(tool)
    extra = [name for name in arguments if name not in known]
    sentences = [(name, _missing_sentence(name, extra)) for name in missing]
    free = [name for name in known if name not in arguments]
    sentences += [(name, _unknown_sentence(name, free)) for name in unknown]
    return list(dict.fromkeys(sentences + other))


def _missing_sentence(name: str, extra: Sequence[str]) -> str:
    close = _nearest(name, list(extra)[:50], 0.6)
    return f'required "{name}" is missing' + (f' (there is "{close}")' if close else "")


def _unknown_sentence(name: str, free: Sequence[str]) -> str:
    close = _nearest(name, list(free)[:200], 0.5)
    return f'unknown "{_cut(name)}"' + (f' (did you mean "{close}"?)' if close else "")


def _nearest(name: str, others: Sequence[str], least: float) -> str | None:
    """Return the most similar name; one that differs only in case and underscores counts as the same word."""
    word = _word(name)
    same = next((other for other in others if _word(other) == word), None)
    return same if same is not None else next(iter(difflib.get_close_matches(name, others, 1, least)), None)


def _word(name: str) -> str:
    return re.sub(r"[\W_]", "", name).casefold()


def sentence(fault: ValidationError, whole: str = "the object of arguments") -> tuple[str, str]:
    """Return the field of one fault, and the fault as a sentence for the author of the call."""
    deepest = _deepest(fault)
    field = _path(deepest.absolute_path)
    subject = f'"{field}"' if field else whole
    return field, f"{subject} {_must(deepest)}"


def _deepest(fault: ValidationError) -> ValidationError:
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
    return _deepest(next((inner for inner in faults if len(inner.absolute_path) > depth), faults[0]))


def _must(fault: ValidationError) -> str:
    value: Any = fault.instance
    rule: Any = fault.validator_value
    shown = (
        _kind(value) if value is None or isinstance(value, dict | list) else f"{_kind(value)} {_shown(value)}"
    )
    match fault.validator:
        case "type":
            expected = " or ".join(map(str, rule)) if isinstance(rule, list) else str(rule)
            return f"must be {expected}, got {shown}{_meant(value, rule)}"
        case "enum":
            allowed = ", ".join(dumps(item) for item in rule[:12])
            more = f", … ({len(rule)} in all)" if len(rule) > 12 else ""
            close = difflib.get_close_matches(str(value), [str(item) for item in rule[:500]], 1, 0.6)
            guess = f' (did you mean "{close[0]}"?)' if close else ""
            return f"must be one of {allowed}{more}, got {_shown(value)}{guess}"
        case "const":
            return f"must be {_shown(rule)}, got {_shown(value)}"
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
            return f"must match the pattern {_cut(str(rule))}, got {_shown(value)}"
        case "minimum" | "exclusiveMinimum" | "maximum" | "exclusiveMaximum" | "multipleOf":
            kind = str(fault.validator)
            exclusive = f"exclusive{kind[0].upper()}{kind[1:]}"
            if isinstance(fault.schema, dict) and fault.schema.get(exclusive) is True:  # as draft 4 writes it
                kind = exclusive
            return f"must be {_BOUNDS[kind]} {rule}, got {_shown(value)}"
        case "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties":
            what = {"str": "characters", "list": "items"}.get(type(value).__name__, "members")
            least = "at least" if fault.validator.startswith("min") else "at most"
            return f"must have {least} {rule} {what}, has {len(value)}"
    return f"does not fit ({_cut(fault.message, 160)})"


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
    return f" (write [{_shown(value)}])" if wanted == ["array"] else ""


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


def _invalid(
    tool: Tool, problems: list[tuple[str, str]], arguments: Json, signature: Callable[[Tool], str]
) -> ArgumentsInvalid:
    shown = [sentence for _, sentence in problems[:SHOWN_FAULTS]]
    if len(problems) > SHOWN_FAULTS:
        shown.append(f"and {len(problems) - SHOWN_FAULTS} more")
    message = f"{spoken(tool.qualified)} was not called: {'; '.join(shown)}"
    known = _parameter_order(tool)
    only = next(iter(arguments), None) if len(arguments) == 1 else None
    if only in _WRAPPERS and only not in known and isinstance(arguments[only], dict):
        hint = f'pass the arguments themselves, without "{only}" around them'
    else:
        required = required_parameters(tool.input_schema)
        hint = f"required: {', '.join(required)}" if required else "no argument is required"
    return _error(tool, message, hint, signature, fields=[field for field, _ in problems if field])


def _error(
    tool: Tool, message: str, hint: str, signature: Callable[[Tool], str], *, fields: list[str]
) -> ArgumentsInvalid:
    return ArgumentsInvalid(
        message,
        hint=f"{hint}. Signature: {_cut(signature(tool), SHOWN_SIGNATURE)}",
        details={"tool": tool.qualified, "fields": fields, "required": list(tool.required)},
    )


def _path(parts: Any) -> str:
    text = ""
    for part in parts:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else str(part)
    return _cut(text, 120)


def _property(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else dumps(name)


def _kind(value: Any) -> str:
    return "null" if value is None else _TYPES.get(type(value), type(value).__name__)


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return dumps(_cut(value))
    if isinstance(value, (dict, list)) and len(value) > 20:
        return f"{_kind(value)} of {len(value)}"
    return _cut(dumps(value))


def _cut(text: str, limit: int = SHOWN_VALUE) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
