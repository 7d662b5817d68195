"""Say in words how a definition changed: `parameter limit: default was 10, is 1000`. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gatemini.policy.canonical import canonical
from gatemini.text.escape import one_line
from gatemini.text.shorten import shorten

MOST_CHANGES = 12
"""Changes of one tool that are listed; more are counted."""
SHOWN_CHARS = 160
MOST_DEPTH = 64
_AROUND = 40
"""Characters shown before the first difference of two texts."""
_ABSENT = object()


def changes_of(old: dict[str, Any], new: dict[str, Any], *, whole: bool = False) -> list[str]:
    """Return the changes between two definitions, one phrase each; `whole`: all of them, and no value is shortened."""
    found = list(_changes(old, new, (), whole))
    more = 0 if whole else len(found) - MOST_CHANGES
    return [*found[:MOST_CHANGES], f"and {more} more"] if more > 0 else found


def _changes(old: Any, new: Any, path: tuple[str, ...], whole: bool) -> Iterator[str]:
    if _ABSENT not in (old, new) and canonical(old) == canonical(new):  # `==` takes 1 for true
        return
    if isinstance(old, dict) and isinstance(new, dict) and len(path) < MOST_DEPTH:
        for key in sorted({*old, *new}, key=str):
            yield from _changes(old.get(key, _ABSENT), new.get(key, _ABSENT), (*path, str(key)), whole)
        return
    if isinstance(old, list) and isinstance(new, list) and path[-1:] in (("required",), ("enum",)):
        gone = [value for value in old if value not in new]
        added = [value for value in new if value not in old]
        for value in gone:
            yield f"{_place(path)} no longer has {_shown(value, whole)}"
        for value in added:
            yield f"{_place(path)} has {_shown(value, whole)} as well"
        if gone or added:
            return
    if old is _ABSENT:
        yield f"{_place(path)} is new: {_shown(new, whole)}"
    elif new is _ABSENT:
        yield f"{_place(path)} is gone, was {_shown(old, whole)}"
    elif isinstance(old, str) and isinstance(new, str):
        start = 0 if whole else _first_difference(old, new)
        yield f"{_place(path)} was {_shown(old[start:], whole, start)}, is {_shown(new[start:], whole, start)}"
    else:
        yield f"{_place(path)} was {_shown(old, whole)}, is {_shown(new, whole)}"


def _place(path: tuple[str, ...]) -> str:
    """A path in a definition as one speaks of it."""
    words: list[str] = []
    rest = list(path)
    while rest:
        word = rest.pop(0)
        if word == "properties" and rest:
            words.append(f"parameter {one_line(rest.pop(0))}")
        elif word in ("inputSchema", "outputSchema") and rest:
            if word == "outputSchema":
                words.append("result")
        else:
            words.append(one_line(word))
    return ": ".join([" of ".join(reversed(words[:-1])), words[-1]]) if len(words) > 1 else words[0]


def _first_difference(old: str, new: str) -> int:
    """Where the part to show begins: a little before two texts differ."""
    same = next(
        (at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new))
    )
    return max(0, same - _AROUND)


def _shown(value: Any, whole: bool, start: int = 0) -> str:
    """Return a value as text, shortened unless it is shown `whole`; `start`: how much of a text was left out before it."""
    text = one_line(value if isinstance(value, str) else canonical(value).decode())
    text = text if whole else shorten(text, SHOWN_CHARS)
    return f"{'“…' if start else '“'}{text}”" if isinstance(value, str) else text
