"""JSON Schema validation that a hostile or broken schema cannot turn against the gateway.

jsonschema validates, with the draft that the schema declares. Around it: remote references are never fetched, regular
expressions run in a linear-time engine (Rust's, through pydantic-core) or not at all, work is bounded by a step budget,
and a schema that cannot be used accepts everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, Protocol

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


class Validator(Protocol):
    def iter_errors(self, instance: Any) -> Iterator[ValidationError]: ...


def faults(schema: Mapping[str, Any], instance: Any, *, steps: int = MAX_STEPS) -> list[ValidationError]:
    """Return what is wrong with the instance, at most `MAX_ERRORS` faults; none if the schema cannot be used."""
    prepared = _validator_of(schema)
    if prepared.plainly_fits(instance):
        return []
    _budget.left = steps
    found: list[ValidationError] = []
    try:
        for fault in prepared.validator.iter_errors(instance):
            found.append(fault)
            if len(found) >= MAX_ERRORS:
                break
    except (_Unusable, RecursionError, *_STUMBLES):
        return found
    return found


class _Prepared:
    """One schema. Its validator is made only for an instance that does not plainly fit."""

    __slots__ = ("_open", "_plain", "_required", "_schema", "_validator")

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema  # keeps the object alive, so that its id is not used again
        self._validator: Validator | None = None
        self._plain = _plain_properties(schema)
        self._open = schema.get("additionalProperties", True) is True
        self._required = () if self._plain is None else schema.get("required", ())

    def plainly_fits(self, instance: Any) -> bool:
        """Return True for certain valid instances: a flat object whose properties have their declared types."""
        plain = self._plain
        if plain is None or type(instance) is not dict:
            return False
        for name, value in instance.items():
            types = plain.get(name)
            if type(value) not in types if types is not None else not self._open:
                return False
        return all(name in instance for name in self._required)

    @property
    def validator(self) -> Validator:
        if self._validator is None:
            self._validator = _prepare(self._schema)
        return self._validator


_PLAIN_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
_ANNOTATIONS: Final = frozenset({"title", "description", "default", "examples"})
_PLAIN_KEYWORDS: Final = _ANNOTATIONS | {"type", "properties", "required", "additionalProperties"}


def _plain_properties(schema: Mapping[str, Any]) -> dict[str, tuple[type, ...]] | None:
    """Return Python types by property, none for one with other conditions; None where the object has other conditions."""
    if not _PLAIN_KEYWORDS.issuperset(schema) or schema.get("type") != "object":
        return None
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not _is_names(schema.get("required", [])):
        return None
    return {name: _plain_types(rule) for name, rule in properties.items()}


def _plain_types(rule: Any) -> tuple[type, ...]:
    if not isinstance(rule, dict) or not _ANNOTATIONS.issuperset(rule.keys() - {"type"}):
        return ()
    declared = rule.get("type")
    return _PLAIN_TYPES.get(declared, ()) if isinstance(declared, str) else ()


_validators: LRUCache[int, _Prepared] = LRUCache(KEPT_VALIDATORS)
"""By identity of the schema object, which the entry keeps alive."""


def _validator_of(schema: Mapping[str, Any]) -> _Prepared:
    prepared = _validators.get(id(schema))
    if prepared is None:
        prepared = _validators[id(schema)] = _Prepared(schema)
    return prepared


def _prepare(schema: Mapping[str, Any]) -> Validator:
    """Return a validator of the declared draft, 2020-12 by default; draft 4 for draft 3, which is out of use."""
    declared = isinstance(schema.get("$schema"), str)
    draft = validator_for(dict(schema), default=Draft202012Validator) if declared else Draft202012Validator
    draft = Draft4Validator if draft is Draft3Validator else draft
    validator: Validator = _guarded(draft)(schema, registry=EMPTY_REGISTRY)
    return validator


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
    has_its_shape = _SHAPES.get(name)

    def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        _budget.spend()
        if has_its_shape is not None and not has_its_shape(value):
            return
        try:
            yield from keyword(validator, value, instance, schema) or ()
        except _STUMBLES:  # including a reference that cannot be resolved
            return

    return counted


def _is_schema(value: Any) -> bool:
    return isinstance(value, (dict, bool))


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_type(value: Any) -> bool:
    names = value if isinstance(value, list) else [value]
    return bool(names) and all(isinstance(name, str) and name in _TYPE_NAMES for name in names)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_size(value: Any) -> bool:
    return _is_number(value) and value >= 0


def _is_branches(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_schema, value))


_TYPE_NAMES: Final = ("null", "boolean", "integer", "number", "string", "array", "object")

_SHAPES: Final[dict[str, Callable[[Any], bool]]] = {
    "type": _is_type,
    "required": _is_names,
    "enum": lambda value: isinstance(value, list) and bool(value),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _is_size),
    **dict.fromkeys(("minProperties", "maxProperties"), _is_size),
    **dict.fromkeys(("allOf", "anyOf", "oneOf"), _is_branches),
    **dict.fromkeys(("not", "if", "contains", "propertyNames", "additionalProperties"), _is_schema),
    **dict.fromkeys(("properties", "patternProperties", "dependentSchemas"), lambda v: isinstance(v, dict)),
    "dependentRequired": lambda value: isinstance(value, dict) and all(map(_is_names, value.values())),
}
"""Valid values of each keyword. jsonschema would read `"required": "name"` as letters."""


@lru_cache(maxsize=512)
def _regex(pattern: str) -> SchemaValidator | None:
    """Compile the pattern in Rust's engine; None for what that engine lacks (look-around, references)."""
    if len(pattern) > MAX_PATTERN:
        return None
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except RegexError:
        return None


def _matches(pattern: Any, text: str) -> bool | None:
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
    if validator.is_type(instance, "string") and _matches(pattern, instance) is False:
        yield ValidationError(f"does not match the pattern {pattern}")


def _pattern_properties(
    validator: Any, patterns: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if not validator.is_type(instance, "object"):
        return
    for pattern, subschema in patterns.items():
        for name, value in instance.items():
            _budget.spend()
            if _matches(pattern, name):
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
        if name not in declared and all(_matches(pattern, name) is False for pattern in patterns)
    ]
    if validator.is_type(rule, "object"):
        for name in extras:
            yield from validator.descend(instance[name], rule, path=name)
    elif rule is False and extras:
        fault = ValidationError("unknown " + ", ".join(extras[:10]))
        fault.cause = _Extras(extras)
        yield fault


class _Extras(Exception):
    """Names of properties that the schema does not allow, carried by a fault."""

    def __init__(self, names: list[str]) -> None:
        super().__init__(names)
        self.names = names


def unknown_names(fault: ValidationError) -> list[str]:
    """Return the properties that an `additionalProperties` fault is about."""
    return fault.cause.names if isinstance(fault.cause, _Extras) else []


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


def _unevaluated(validator: Any, rule: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Skip the keyword: jsonschema would search with patterns in Python's engine. The backend checks it."""
    return iter(())


_REPLACED: Final[dict[str, Keyword]] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "unevaluatedProperties": _unevaluated,
    "uniqueItems": _unique_items,
}
