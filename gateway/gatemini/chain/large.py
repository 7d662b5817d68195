"""Large results: told from small ones, written and let go of without keeping everybody waiting.

A result of megabytes is made into text on a thread, in steps of a few milliseconds: between two of them other threads,
the event loop's first of all, have their turn. Pure. Above: invoke.py, trace.py. Below: jsvalue.py, piecewise/steps.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

from gatemini.chain.jsvalue import dumps, is_index, ordered_keys, quoted
from gatemini.piecewise.steps import joined

ON_THE_LOOP: Final = 256 * 1024
"""Bytes of a result up to which it is read on the event loop, in a few milliseconds."""

STEP_CHARS: Final = 128 * 1024
"""Characters written in one step, about: a millisecond or two."""

STEP_ENTRIES: Final = 1_000
"""Entries of a list or an object that are let go of in one step."""

FEW: Final = 64
"""Entries up to which each is looked at for itself, since one of them may hold nearly everything."""

LEVELS: Final = 8
"""How deep that goes: what lies below is one step."""

COUNTED: Final = 2_000
"""Entries that are counted to tell whether a result of unknown size is large."""


def is_large(result: Any, size: int) -> bool:
    """Whether a result is to be read on a thread; `size` is its bytes on the wire (0: it was on none)."""
    if size:
        return size > ON_THE_LOOP
    count = chars = 0
    stack: list[Any] = [result]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            chars += len(item)
        elif isinstance(item, dict | list):
            count += len(item)
            stack.extend(islice(item.values() if isinstance(item, dict) else item, COUNTED))
        if count > COUNTED or chars > ON_THE_LOOP:
            return True
    return False


def write(value: Any) -> str:
    """The text that `jsvalue.dumps` gives, made in steps."""
    return joined(_parts(value, LEVELS))


def _parts(value: Any, levels: int) -> Iterator[str]:
    if isinstance(value, str) and len(value) > STEP_CHARS:
        yield '"'
        for start in range(0, len(value), STEP_CHARS):
            yield dumps(value[start : start + STEP_CHARS])[1:-1]
        yield '"'
    elif not isinstance(value, dict | list) or not value or (len(value) <= FEW and not levels):
        yield dumps(value)
    elif isinstance(value, list):
        if len(value) > FEW:
            yield from _stepwise(iter(value), list, "[]")
            return
        for number, item in enumerate(value):
            yield "," if number else "["
            yield from _parts(item, levels - 1)
        yield "]"
    else:
        if len(value) > FEW:
            if any(is_index(key) for key in value):
                value = ordered_keys(value)
            yield from _stepwise(iter(value.items()), dict, "{}")
            return
        for number, (key, item) in enumerate(ordered_keys(value).items()):
            yield f"{',' if number else '{'}{quoted(key)}:"
            yield from _parts(item, levels - 1)
        yield "}"


def _stepwise(entries: Iterator[Any], gathered: Callable[[Any], Any], brackets: str) -> Iterator[str]:
    """Many entries, as many at a time as make a step's text."""
    opening, count = brackets[0], 1
    while step := list(islice(entries, count)):
        text = dumps(gathered(step))
        yield opening
        yield text[1:-1]
        opening = ","
        if len(text) < STEP_CHARS // 2:
            count *= 2
        elif len(text) > STEP_CHARS:
            count = max(1, count // 2)
    yield brackets[1]


def release(value: Any, levels: int = LEVELS) -> None:
    """Empties a value that nobody else holds, in steps: a million objects let go of at once take 50 ms."""
    if not isinstance(value, dict | list):
        return
    if len(value) <= FEW and levels:
        for item in value.values() if isinstance(value, dict) else value:
            release(item, levels - 1)
    if isinstance(value, list):
        while value:
            del value[-STEP_ENTRIES:]
    else:
        while value:
            value.popitem()


__all__ = ["ON_THE_LOOP", "is_large", "release", "write"]
