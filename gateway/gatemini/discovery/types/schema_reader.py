"""Read JSON Schemas of backends: references, parameters, what is required.

Any JSON value is accepted as a schema, and nothing raises. References stay inside the document; a remote one is unknown
and never fetched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from gatemini.model import Json

_MAX_HOPS = 16
"""References followed in a row; a longer chain is taken for a loop."""
_MAX_DEPTH = 8
_MISSING = object()


def resolve_pointer(root: Any, reference: str) -> Any:
    """Return what `#` or `#/a/b` names inside `root`; None when there is nothing (a remote reference)."""
    found = _locate(root, reference)
    return None if found is _MISSING else found


def _locate(root: Any, reference: str) -> Any:
    if reference in ("#", "#/"):
        return root
    if not reference.startswith("#/"):
        return _MISSING
    here = root
    for raw in reference[2:].split("/"):
        part = unquote(raw).replace("~1", "/").replace("~0", "~")
        if isinstance(here, Mapping) and part in here:
            here = here[part]
        elif isinstance(here, list) and part.isdecimal() and len(part) < 6 and int(part) < len(here):
            here = here[int(part)]
        else:
            return _MISSING
    return here


def follow(root: Any, schema: Any) -> Any:
    """Follow the chain of `$ref` at the top of `schema`; None where it leads nowhere."""
    for _ in range(_MAX_HOPS):
        reference = schema.get("$ref") if isinstance(schema, Mapping) else None
        if not isinstance(reference, str):
            return schema
        schema = resolve_pointer(root, reference)
    return None


def parameters(schema: Json) -> dict[str, bool]:
    """Return parameter name → whether it is required: required ones first, in the order of `required`.

    Of alternatives at the root (`anyOf`, `oneOf`) the first one's required parameters count, so that a call with them
    is valid.
    """
    named: dict[str, None] = {}
    required: dict[str, None] = {}
    _collect(schema, schema, (named, required), set(), counts=True, depth=0)
    ordered = [*required, *(n for n in named if n not in required)]
    return {name: name in required for name in ordered}


def required_parameters(schema: Json) -> tuple[str, ...]:
    """Return the names of the parameters a call must have, in the order of `required`."""
    return tuple(name for name, needed in parameters(schema).items() if needed)


def _collect(
    root: Any,
    schema: Any,
    into: tuple[dict[str, None], dict[str, None]],
    seen: set[tuple[int, bool]],
    *,
    counts: bool,
    depth: int,
) -> None:
    here = follow(root, schema)
    if not isinstance(here, Mapping) or depth > _MAX_DEPTH or (id(here), counts) in seen:
        return
    seen.add((id(here), counts))
    named, required = into
    properties = here.get("properties")
    if isinstance(properties, Mapping):
        for name in properties:
            named.setdefault(str(name))
    if counts:
        for name in _listed(here.get("required")):
            if isinstance(name, str):
                required.setdefault(name)
    for part in _listed(here.get("allOf")):
        _collect(root, part, into, seen, counts=counts, depth=depth + 1)
    for key in ("anyOf", "oneOf"):
        for index, part in enumerate(_listed(here.get(key))):
            _collect(root, part, into, seen, counts=counts and index == 0, depth=depth + 1)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
