"""JSON Schema validation that a hostile or broken schema cannot turn against the gateway.

jsonschema validates, with the draft that the schema declares. Around it: remote references are never fetched, regular
expressions run in a linear-time engine (Rust's, through pydantic-core) or not at all, work is bounded by a step budget,
and a schema that cannot be used accepts everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import orjson
from cachetools import LRUCache
from jsonschema.exceptions import UnknownType, ValidationError
from jsonschema.validators import (
    Draft3Validator,
    Draft4Validator,
    Draft202012Validator,
    extend,
    validator_for,
)
from pydantic_core import SchemaError as RegexError
from pydantic_core import SchemaValidator, core_schema
from pydantic_core import ValidationError as NoMatch
from referencing.exceptions import Unresolvable
from referencing.jsonschema import EMPTY_REGISTRY

MAX_STEPS: Final = 10_000
"""Keyword evaluations of one validation (about 50 ms); the backend checks what is left."""

MAX_ERRORS: Final = 20
"""Faults gathered from one validation."""

MAX_MATCHED: Final = 100_000
"""Longest string that a `pattern` is tried on."""

MAX_PATTERN: Final = 2_000
"""Longest regular expression that is compiled."""

KEPT_VALIDATORS: Final = 1_024
"""Prepared validators kept; the schema object of a tool lives as long as its listing."""


_STUMBLES: Final = (
    UnknownType,
    Unresolvable,
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
)
"""Exceptions of jsonschema over a malformed schema, which must not block a call."""


class _Unusable(Exception):
    """Validation cannot go on (budget spent); the faults found so far count."""


class _Budget:
    """Steps left of the running validation. Validation is synchronous and never nested."""

    left = MAX_STEPS

    def spend(self, steps: int = 1) -> None:
        self.left -= steps
        if self.left < 0:
            raise _Unusable


_budget = _Budget()
Keyword = Callable[[Any, Any, Any, Any], Iterator[ValidationError] | None]


def faults(schema: Mapping[str, Any], instance: Any, *, steps: int = MAX_STEPS) -> list[ValidationError]:
    """Return what is wrong with the instance, at most `MAX_ERRORS` faults; none if the schema cannot be used."""
    _budget.left = steps
    found: list[ValidationError] = []
    try:
        _, validator, flat = _prepared(schema)
        if flat is not None and _fits(flat, instance):
            return []
        for fault in validator.iter_errors(instance):
            found.append(fault)
            if len(found) >= MAX_ERRORS:
                break
    except (_Unusable, RecursionError, *_STUMBLES):
        return found
    return found


Flat = tuple[Mapping[str, tuple[type, ...]], Sequence[str], bool]
"""Python types by property (none where it has other conditions), required properties, whether others are allowed."""

_kept: LRUCache[int, tuple[Mapping[str, Any], Any, Flat | None]] = LRUCache(KEPT_VALIDATORS)
"""By identity of the schema object, which the entry keeps alive."""


def _prepared(schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], Any, Flat | None]:
    known = _kept.get(id(schema))
    if known is None:
        known = _kept[id(schema)] = (schema, _prepare(schema), _flat(schema))
    return known


PYTHON_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
"""Types of JSON Schema → those of Python, exactly: a bool is no int here."""
_NOTES: Final = frozenset({"title", "description", "default", "examples"})
_PLAIN: Final = _NOTES | {"type", "properties", "required", "additionalProperties"}


def _flat(schema: Mapping[str, Any]) -> Flat | None:
    """What an object must hold to be valid for certain; None where the schema has conditions beyond that.

    jsonschema takes 0.03 ms even for flat objects, a sixth of what the gateway needs for a call.
    """
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if schema.get("type") != "object" or not _PLAIN.issuperset(schema) or not isinstance(properties, dict):
        return None
    if not _usable("required", required) or not isinstance(schema.get("additionalProperties", True), bool):
        return None
    types = {name: _types(rule) for name, rule in properties.items()}
    return types, required, schema.get("additionalProperties", True)


def _types(rule: Any) -> tuple[type, ...]:
    if not isinstance(rule, dict) or not _NOTES.issuperset(rule.keys() - {"type"}):
        return ()
    return PYTHON_TYPES.get(str(rule.get("type")), ())


def _fits(flat: Flat, instance: Any) -> bool:
    types, required, others = flat
    if type(instance) is not dict or not all(name in instance for name in required):
        return False
    return all(type(value) in types[name] if name in types else others for name, value in instance.items())


def _prepare(schema: Mapping[str, Any]) -> Any:
    """Return a validator of the declared draft, 2020-12 by default; draft 4 for draft 3, which is out of use."""
    declared = isinstance(schema.get("$schema"), str)
    draft = validator_for(dict(schema), default=Draft202012Validator) if declared else Draft202012Validator
    draft = Draft4Validator if draft is Draft3Validator else draft
    return _guarded(draft)(schema, registry=EMPTY_REGISTRY)


@lru_cache(maxsize=16)
def _guarded(draft: Any) -> Any:
    """Return the draft's validator class with every keyword counted and the dangerous ones replaced."""
    keywords: dict[str, Keyword] = dict(draft.VALIDATORS) | {
        name: keyword for name, keyword in _REPLACED.items() if name in draft.VALIDATORS
    }
    extended: Callable[..., Any] = extend
    return extended(draft, {name: _counted(name, keyword) for name, keyword in keywords.items()})


def _counted(name: str, keyword: Keyword) -> Keyword:
    """Return the keyword, counted; it accepts everything where its value is malformed or it raises."""

    def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        _budget.spend()
        if not _usable(name, value):
            return
        if instance is None and schema.get("nullable") is True:
            return  # OpenAPI's way to allow null beside any other rule
        try:
            yield from keyword(validator, value, instance, schema) or ()
        except _STUMBLES:  # including a reference that cannot be resolved
            return

    return counted


_NUMBERS: Final = frozenset(
    [
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
    ]
)


def _usable(name: str, value: Any) -> bool:
    """Return whether a keyword's value means what jsonschema takes it for; most others raise in there.

    It reads `"required": "name"` as letters, and `"exclusiveMinimum": true` of draft 4 as 1 in later drafts.
    """
    if name in _NUMBERS:
        return not isinstance(value, bool)
    if name == "required":
        return isinstance(value, list) and all(isinstance(member, str) for member in value)
    if name == "dependentRequired":
        return isinstance(value, dict) and all(_usable("required", names) for names in value.values())
    if name in ("enum", "anyOf", "oneOf"):
        return isinstance(value, list) and bool(value)
    return name != "type" or value != []


@lru_cache(maxsize=512)
def _regex(pattern: str) -> SchemaValidator | None:
    """Compile the pattern in Rust's engine; None for what that engine lacks (look-around, references)."""
    if len(pattern) > MAX_PATTERN:
        return None
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except RegexError:
        return None


def pattern_matches(pattern: Any, text: str) -> bool | None:
    """Return whether the pattern occurs in the text, or None when that is not tried."""
    regex = _regex(pattern) if isinstance(pattern, str) and len(text) <= MAX_MATCHED else None
    if regex is None:
        return None
    try:
        regex.validate_python(text)
    except NoMatch:
        return False
    return True


def _pattern(validator: Any, pattern: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if validator.is_type(instance, "string") and pattern_matches(pattern, instance) is False:
        yield ValidationError(f"does not match the pattern {pattern}")


def _pattern_properties(
    validator: Any, patterns: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if not validator.is_type(instance, "object"):
        return
    for pattern, subschema in patterns.items():
        for name, value in instance.items():
            _budget.spend()
            if pattern_matches(pattern, name):
                yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _additional_properties(
    validator: Any, rule: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if not validator.is_type(instance, "object"):
        return
    declared = schema.get("properties", {})
    patterns = schema.get("patternProperties", {})
    extras = [
        name
        for name in instance
        if name not in declared and all(pattern_matches(pattern, name) is False for pattern in patterns)
    ]
    if validator.is_type(rule, "object"):
        for name in extras:
            yield from validator.descend(instance[name], rule, path=name)
    elif rule is False and extras:
        fault = ValidationError("unknown " + ", ".join(extras[:10]))
        fault.cause = KeyError(*extras)
        yield fault


def unknown_names(fault: ValidationError) -> list[str]:
    """Return the properties that an `additionalProperties` fault is about."""
    return list(fault.cause.args) if isinstance(fault.cause, KeyError) else []


def _unique_items(validator: Any, rule: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if rule is not True or not validator.is_type(instance, "array"):
        return
    seen: set[bytes] = set()
    for item in instance:
        written = orjson.dumps(item, option=orjson.OPT_SORT_KEYS)
        if written in seen:
            yield ValidationError("has the same item twice")
            return
        seen.add(written)


_REPLACED: Final[dict[str, Keyword]] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    # jsonschema would search with patterns in Python's engine; the backend checks it.
    "unevaluatedProperties": lambda *_: iter(()),
    "uniqueItems": _unique_items,
}
