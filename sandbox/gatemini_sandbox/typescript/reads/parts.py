"""What a value in code may be: a result of a tool call, a part of one, or a collection that code made of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tree_sitter import Node

MOST_PARTS: Final = 6


@dataclass(frozen=True, slots=True)
class Site:
    """A call of a tool in the code: `backend` is its global."""

    node: Node
    backend: str
    tool: str


@dataclass(frozen=True, slots=True)
class Items:
    """A step to the items of an array (or the values of an object); equal ones go through the same item at a time."""

    by: int | str


@dataclass(frozen=True, slots=True)
class Sifted:
    """A step that only those values pass for which the function answers true."""

    function: Node


@dataclass(frozen=True, slots=True)
class Put:
    """A step that only values pass which this expression put into a collection."""

    node: Node


@dataclass(frozen=True, slots=True)
class Parsed:
    """A step from JSON text to its value."""


Step = str | Items | Sifted | Put | Parsed


@dataclass(frozen=True, slots=True)
class Value:
    """A value in the result of a call."""

    site: Site
    path: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class Listed:
    """An array that code made; `items` is where its items come from."""

    items: Origin


@dataclass(frozen=True, slots=True)
class Fixed:
    """An array literal: the origin of each of its items."""

    parts: tuple[Origin, ...]


@dataclass(frozen=True, slots=True)
class Filtered:
    """The items of an array that a function lets pass."""

    of: Part
    function: Node


@dataclass(frozen=True, slots=True)
class Keyed:
    """An object or Map that code made with keys it computed."""

    values: Origin


@dataclass(frozen=True, slots=True)
class Literal:
    """An object literal."""

    node: Node


@dataclass(frozen=True, slots=True)
class Pending:
    """A promise."""

    of: Origin


Part = Value | Listed | Fixed | Filtered | Keyed | Literal | Pending
Origin = tuple[Part, ...] | None
"""What a value may be, all of it; the empty one is certainly no result of a tool; None is not known."""


def union(origins: Iterable[Origin]) -> Origin:
    found: dict[Part, None] = {}
    for origin in origins:
        if origin is None:
            return None
        found.update(dict.fromkeys(origin))
    return tuple(found) if len(found) <= MOST_PARTS else None


def each(origin: Origin, by: int | str) -> Origin:
    """The items of an array."""
    if origin is None:
        return None
    return union(items_of(part, by) for part in origin)


def items_of(part: Part, by: int | str) -> Origin:
    if isinstance(part, Value):
        return (Value(part.site, (*part.path, Items(by))),)
    if isinstance(part, Listed):
        return part.items
    if isinstance(part, Fixed):
        return union(part.parts)
    if isinstance(part, Filtered):
        return stepped(items_of(part.of, by), Sifted(part.function))
    return None


def values_in(origin: Origin) -> tuple[Value, ...] | None:
    """The values, where all that it may be are values in results."""
    values = tuple(part for part in origin or () if isinstance(part, Value))
    return values if origin is not None and len(values) == len(origin) else None


def stepped(origin: Origin, step: Step) -> Origin:
    """The values one step further; not known where they are no results themselves."""
    values = values_in(origin)
    return None if values is None else tuple(Value(part.site, (*part.path, step)) for part in values)


def is_array(origin: Origin) -> bool:
    """Whether it is an array for certain, or a value in a result, which may be one."""
    return origin is not None and all(isinstance(part, (Value, Listed, Fixed, Filtered)) for part in origin)


def awaited(origin: Origin) -> Origin:
    if origin is None:
        return None
    return union(part.of if isinstance(part, Pending) else (part,) for part in origin)


def settled(origin: Origin) -> Origin:
    """What `await Promise.all(…)` gives."""
    if origin is None:
        return None
    made: list[Origin] = []
    for part in origin:
        if isinstance(part, Fixed):
            made.append((Fixed(tuple(awaited(one) for one in part.parts)),))
        elif isinstance(part, Listed):
            made.append((Listed(awaited(part.items)),))
        else:
            made.append((part,) if isinstance(part, Value) else None)
    return union(made)


def pending(origin: Origin) -> Origin:
    """A promise of it."""
    return None if origin is None else (Pending(origin),)
