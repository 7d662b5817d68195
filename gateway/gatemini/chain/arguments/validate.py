"""Check arguments against the tool's input schema before a call is sent.

An error names the field, lists what is required and shows the signature, so that the next try can be right. What cannot
be checked is sent: the backend decides. Pure functions.
"""

from __future__ import annotations

import copy
import difflib
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson
from jsonschema.exceptions import ValidationError

from gatemini.chain.arguments.schema_faults import (
    SHOWN_VALUE,
    deepest,
    kind,
    path_text,
    sentence,
    shown_value,
)
from gatemini.chain.arguments.schemas import faults, unknown_names
from gatemini.chain.arguments.undeclared import undeclared_note
from gatemini.discovery.types.identifiers import property_name, spoken
from gatemini.discovery.types.schema_reader import required_parameters
from gatemini.errors import ArgumentsInvalid
from gatemini.model import Json, Tool
from gatemini.output.json.javascript_json import NotJson, dumps, loads_exact
from gatemini.text.escape import visible
from gatemini.text.shorten import shorten

SHOWN_FAULTS: Final = 4
"""Faults named in one error; the rest are counted."""

SHOWN_SIGNATURE: Final = 1_000
"""Characters of the signature shown in an error."""

Paths = Sequence[Sequence[str | int]]

_INTEGER = re.compile(r"0|-?[1-9]\d{0,3999}", re.ASCII)
"""Python reads and writes integers of no more than 4,300 digits."""
_LONE_SURROGATE = re.compile(r"(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}")
"""As `dumps` escapes it; it writes whole pairs as they are."""
_WRITTEN = re.compile(r"\[object (?:Object|Promise)\]")
_WRAPPERS: Final = ("arguments", "args", "params", "parameters", "input", "kwargs")


def check(
    tool: Tool, arguments: Any, signature: Callable[[Tool], str], digits: Paths = ()
) -> tuple[Json, tuple[str, ...]]:
    """Return the object of arguments to send, with notes on what was changed.

    `arguments` is one object, or what the code passed instead: None, a JSON string of an object, or the list of
    positional arguments; `digits` are the paths in it at which a BigInt is held as text. Raises ArgumentsInvalid.
    """
    named, notes = _as_object(tool, arguments, signature)
    named = _well_formed(named, notes)
    bigints = dict.fromkeys(tuple(path[1:] if isinstance(arguments, list) else path) for path in digits)
    if bigints:
        named = _with_bigints(tool, named, list(bigints), notes)
    problems = _problems(tool, named)
    if problems and (nulls := _optional_nulls(tool, named)):
        named = _without(named, nulls)
        problems = _problems(tool, named)
        shown = ", ".join(map(path_text, nulls[:SHOWN_FAULTS])) + (", …" if len(nulls) > SHOWN_FAULTS else "")
        notes.append(f"{spoken(tool.qualified)}: left out, because null is not allowed there: {shown}")
    if problems and (places := _of_exact_integers(tool, named)):
        named = _with_integers(named, places)
        problems = _problems(tool, named)
        shown = ", ".join(map(path_text, places[:SHOWN_FAULTS]))
        notes.append(f"{spoken(tool.qualified)}: sent as the integer its digits are: {shown}")
    if problems:
        raise _invalid(tool, problems, named, signature)
    if (undeclared := undeclared_note(spoken(tool.qualified), tool.input_schema, named)) is not None:
        notes.append(undeclared)
    if written := [
        name for name, value in named.items() if isinstance(value, str) and _WRITTEN.search(value)
    ]:
        what = ", ".join(f'"{shorten(name, 40)}"' for name in written[:SHOWN_FAULTS])
        notes.append(
            f'{spoken(tool.qualified)} got {what} with an object written as text, such as "[object Object]": write JSON.stringify(…)'
        )
    return named, tuple(map(visible, notes))


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
    names = _parameter_order(tool)
    kinds = ", ".join(kind(item) for item in given[:6])
    said = f"{len(given)} positional ({kinds})" if len(given) > 1 else kinds
    message = f"{spoken(tool.qualified)} takes one object with named arguments, not {said}"
    pairs = zip(names, given, strict=False)
    required = tool.input_schema.get("required") if isinstance(tool.input_schema, dict) else None
    lacking = [name for name in names[len(given) :] if isinstance(required, list) and name in required]
    example = ", ".join(
        [f"{property_name(name)}: {shown_value(item)}" for name, item in pairs]
        + [f"{property_name(name)}: …" for name in lacking]
    )
    if len(given) > 1 and isinstance(given[0], dict) and given[0] and set(tool.required) <= given[0].keys():
        name = spoken(tool.qualified)
        hint = f"leave out the arguments after the object; as a callback write `(x) => {name}(x)`"
        return _error(tool, message, hint, signature, fields=[])
    hint = f"write ({{ {example} }})" if example and len(given) <= len(names) else "write ({ name: value })"
    return _error(tool, message, hint, signature, fields=[])


def _parameter_order(tool: Tool) -> list[str]:
    properties = tool.input_schema.get("properties")
    declared = [name for name in properties if isinstance(name, str)] if isinstance(properties, dict) else []
    required = [name for name in declared if name in tool.required]
    return required + [name for name in declared if name not in required]


def _well_formed(arguments: Json, notes: list[str]) -> Json:
    """Return the arguments as they can be sent: without lone surrogates, and with null for numbers beyond a double.

    JSON writes null for 1e400, so that rules and persons would decide about another value than the backend gets.
    """
    try:
        count, has_null = 0, b"null" in orjson.dumps(arguments)
    except (orjson.JSONEncodeError, RecursionError):
        text, count = _LONE_SURROGATE.subn("\\1\ufffd", dumps(arguments))
        has_null = "null" in text
    if has_null and _nulls_for_infinity(arguments):
        notes.append("numbers beyond 1.8e308 in the arguments became null")
    if not count:
        return arguments
    notes.append("lone surrogates in the arguments were replaced by U+FFFD")
    return _parsed_object(text) or arguments


def _nulls_for_infinity(arguments: Json) -> bool:
    """Replace numbers beyond a double by None; return whether there was one."""
    found = False
    left: list[Any] = [arguments]
    while left:
        inside = left.pop()
        for key, value in inside.items() if isinstance(inside, dict) else enumerate(inside):
            if isinstance(value, dict | list):
                left.append(value)
            elif isinstance(value, float) and not math.isfinite(value):
                inside[key] = None
                found = True
    return found


def _with_bigints(
    tool: Tool, arguments: Json, places: Sequence[tuple[str | int, ...]], notes: list[str]
) -> Json:
    """Return the arguments with BigInts as integers, but as decimal strings where an integer is refused."""
    exact = _with_integers(arguments, places)
    refused = {tuple(deepest(fault).absolute_path) for fault in faults(tool.input_schema, exact)}
    kept = [place for place in places if place in refused]
    if not kept:
        return exact
    mixed = _with_integers(arguments, [place for place in places if place not in refused])
    still = {tuple(deepest(fault).absolute_path) for fault in faults(tool.input_schema, mixed)}
    as_text = [place for place in kept if place not in still]
    if not as_text:  # neither form is allowed: the error is about the number that the code wrote
        return exact
    where = path_text(as_text[0]) + (f" and {len(as_text) - 1} more" if len(as_text) > 1 else "")
    notes.append(f"arguments of {spoken(tool.qualified)}: BigInt became a decimal string ({where})")
    return _with_integers(arguments, [place for place in places if place not in as_text])


def _optional_nulls(tool: Tool, arguments: Json) -> list[tuple[str | int, ...]]:
    """Return the paths of members that are null where null is refused, and that may be left out."""
    found: list[tuple[str | int, ...]] = []
    needed: set[tuple[str | int, ...]] = set()
    while True:
        refused = faults(tool.input_schema, _without(arguments, found))
        for fault in refused:
            if fault.validator == "required":
                names: Any = fault.validator_value
                needed |= {(*fault.absolute_path, name) for name in names}
        if lost := [place for place in found if place in needed]:
            found = [place for place in found if place not in lost]
            continue
        nulls = {tuple(place.absolute_path) for place in map(deepest, refused) if place.instance is None}
        new = [place for place in nulls - needed if place and isinstance(place[-1], str)]
        if not new:
            return sorted(found, key=path_text)
        found += new


def _without(arguments: Json, places: Sequence[tuple[str | int, ...]]) -> Json:
    left = copy.deepcopy(arguments) if places else arguments
    for *above, last in places:
        inside: Any = left
        for step in above:
            inside = inside[step]
        del inside[last]
    return left


def _of_exact_integers(tool: Tool, arguments: Json) -> list[tuple[str | int, ...]]:
    """Return the paths of digits held as text where only a number is accepted.

    Beyond 2^53 such an id came from a tool as text.
    """
    return [
        tuple(place.absolute_path)
        for fault in faults(tool.input_schema, arguments)
        if _takes_number(place := deepest(fault)) and _is_wide_integer(place.instance)
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


def _is_wide_integer(text: Any) -> bool:
    """Return whether a text holds the digits of an integer beyond 2^53."""
    return isinstance(text, str) and _INTEGER.fullmatch(text) is not None and abs(int(text)) > 2**53


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
    extra = [name for name in arguments if name not in known and name not in unknown]
    pair = len(missing) == len(extra) == 1 and not other  # then no other name can be meant
    sentences = [(name, _missing_sentence(name, extra, 0.0 if pair else 0.6)) for name in missing]
    free = [name for name in known if name not in arguments]
    sentences += [(name, _unknown_sentence(name, free)) for name in unknown]
    return list(dict.fromkeys(sentences + other))


def _missing_sentence(name: str, extra: Sequence[str], least: float) -> str:
    close = _nearest(name, list(extra)[:50], least)
    return f'required "{name}" is missing' + (f' (there is "{close}")' if close else "")


def _unknown_sentence(name: str, free: Sequence[str]) -> str:
    close = _nearest(name, list(free)[:200], 0.5)
    return f'unknown "{shorten(name, SHOWN_VALUE)}"' + (f' (did you mean "{close}"?)' if close else "")


def _nearest(name: str, others: Sequence[str], least: float) -> str | None:
    """Return the most similar name; one that differs only in case and underscores counts as the same word."""
    word = _word(name)
    same = next((other for other in others if _word(other) == word), None)
    return same if same is not None else next(iter(difflib.get_close_matches(name, others, 1, least)), None)


def _word(name: str) -> str:
    return re.sub(r"[\W_]", "", name).casefold()


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
        visible(message),
        hint=f"{visible(hint)}. Signature: {shorten(signature(tool), SHOWN_SIGNATURE)}",
        details={"tool": tool.qualified, "fields": fields, "required": list(tool.required)},
    )
