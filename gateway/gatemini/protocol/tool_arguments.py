"""Read the arguments of the meta-tools in the forms that clients really send.

One reader serves all seven, led by their input schemas: JSON strings for objects, numbers in quotes, synonyms. An
unknown key is an error that names the closest right one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from rapidfuzz import fuzz, process, utils

from gatemini.errors import InvalidRequest
from gatemini.model import Json
from gatemini.protocol.definitions import tool_definitions
from gatemini.text.escape import visible
from gatemini.text.shorten import shorten

SYNONYMS: Mapping[str, Mapping[str, str]] = {
    "search_tools": {"query": "task_description", "task": "task_description", "q": "task_description"},
    "tool_info": {"name": "tool_name", "tool": "tool_name"},
    "get_required_keys_for_tool": {"name": "tool_name", "tool": "tool_name"},
    "call_tool_chain": {"script": "code", "timeout_ms": "timeout"},
    "register_manual": {"template": "manual_call_template"},
    "deregister_manual": {"name": "manual_name"},
}
"""Other names accepted for a parameter."""
_WRAPPERS = frozenset(("arguments", "args", "input", "params", "parameters"))
"""Keys that some clients wrap around the arguments."""
_SHOWN = 80
_CLOSE = 60.0

_SCHEMAS: Mapping[str, Json] = {d["name"]: d["inputSchema"] for d in tool_definitions()}


def read_arguments(tool: str, arguments: Any) -> tuple[Json, list[str]]:
    """Return a meta-tool's arguments with defaults filled in, and notes on what was changed.

    Numbers outside their bounds are moved to the nearest bound, with a note. Raises InvalidRequest.
    """
    schema = _SCHEMAS[tool]
    properties: Json = schema["properties"]
    given = _object(tool, arguments if arguments is not None else {})
    notes: list[str] = []
    taken: Json = {}
    for key, value in given.items():
        name = key if key in properties else SYNONYMS.get(tool, {}).get(key)
        if name is None:
            raise _unknown(tool, key, properties)
        if name in taken:
            raise InvalidRequest(
                f"{tool}: '{name}' and '{visible(shorten(str(key), _SHOWN))}' are the same parameter; send one of them"
            )
        if value is None and name not in schema.get("required", ()):
            continue  # clients send null for "not given"
        taken[name] = _value(tool, name, value, properties[name], notes)
    missing = [name for name in schema.get("required", ()) if name not in taken]
    if missing:
        raise InvalidRequest(
            f"{tool} needs '{missing[0]}' ({properties[missing[0]]['type']})", hint=_takes(tool, properties)
        )
    defaults = {n: p["default"] for n, p in properties.items() if "default" in p and n not in taken}
    return {**{n: None for n in properties if n not in taken}, **defaults, **taken}, notes


def is_given(tool: str, arguments: Any, name: str) -> bool:
    """Return whether the arguments name a parameter themselves, and not only its default applies."""
    return _object(tool, arguments if arguments is not None else {}).get(name) is not None


def _object(tool: str, arguments: Any) -> Json:
    if isinstance(arguments, str):
        arguments = parsed_json(arguments)
    if not isinstance(arguments, dict):
        raise InvalidRequest(f"{tool} takes an object of named arguments", hint=_takes(tool, None))
    return arguments


def _value(tool: str, name: str, value: Any, schema: Json, notes: list[str]) -> Any:
    kind = schema["type"]
    made: Any = None
    if kind == "string":
        made = value if isinstance(value, str) else None
        calls = value if isinstance(value, list) else [value]
        if name == "code" and calls and all(isinstance(call, dict) for call in calls):
            made = json.dumps(value)  # a JSON call that the client has parsed already
    elif kind == "boolean":
        made = value if isinstance(value, bool) else {"true": True, "false": False}.get(str(value).lower())
    elif kind == "integer":
        made = _integer(value)
    else:
        made = parsed_json(value) if isinstance(value, str) else value
        made = made if isinstance(made, dict) else None
    if made is None:
        raise InvalidRequest(f"{tool}: '{name}' must be {_article(kind)}, got {_described(value)}")
    if "enum" in schema:
        made = _chosen(tool, name, made, schema["enum"])
    if kind == "integer":
        low, high = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
        bounded = int(min(max(made, low), high))
        if bounded != made:
            beyond = "below" if made < low else "above"
            notes.append(f"{name} {shorten(str(made), 20)} is {beyond} {bounded}; {bounded} was used")
        made = bounded
    return made


def _chosen(tool: str, name: str, written: str, options: list[str]) -> str:
    """Return the option that equals `written` but for case and white space. Raises InvalidRequest."""
    word = written.strip().lower()
    if word in options:
        return word
    close = process.extractOne(word[:100], options, scorer=fuzz.WRatio, score_cutoff=_CLOSE)
    meant = f"; did you mean '{close[0]}'?" if close else ""
    listed = " or ".join(f"'{option}'" for option in options)
    raise InvalidRequest(f"{tool}: '{name}' must be {listed}, got {_described(written)}{meant}")


def _integer(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        try:
            value = float(value) if len(value) < 32 else None
        except ValueError:
            return None
    if isinstance(value, float):
        return int(value) if math.isfinite(value) and value == int(value) else None
    return value if isinstance(value, int) else None


def parsed_json(text: str) -> Any:
    """Parse JSON text; return None where it is not valid."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _unknown(tool: str, key: str, properties: Json) -> InvalidRequest:
    close = process.extractOne(
        str(key)[:100],
        list(properties),
        scorer=fuzz.ratio,
        processor=utils.default_process,
        score_cutoff=_CLOSE,
    )
    meant = f"; did you mean '{close[0]}'?" if close else ""
    inside = f"; send what is in '{key}' itself" if key in _WRAPPERS else ""
    return InvalidRequest(
        f"{tool} has no parameter '{visible(shorten(str(key), _SHOWN))}'{meant or inside}",
        hint=_takes(tool, properties),
    )


def _takes(tool: str, properties: Json | None) -> str:
    properties = _SCHEMAS[tool]["properties"] if properties is None else properties
    required = _SCHEMAS[tool].get("required", ())
    listed = ", ".join(f"{n}{'' if n in required else '?'}: {p['type']}" for n, p in properties.items())
    return f"{tool} takes {{{listed}}}."


def _article(kind: str) -> str:
    return {"integer": "a whole number", "object": "an object"}.get(kind, f"a {kind}")


def _described(value: Any) -> str:
    if isinstance(value, str):
        return f"'{visible(shorten(value, _SHOWN))}'"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return shorten(json.dumps(value, default=str), _SHOWN)
