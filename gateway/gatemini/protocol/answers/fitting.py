"""Shorten a discovery answer to what the client takes, and say what was cut and how to read it whole.

Pure functions on JSON-able answers. Sizes are bytes of compact JSON, which is never less than its characters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import orjson

from gatemini.model import Json
from gatemini.protocol.sessions.budgets import UNKNOWN
from gatemini.text.escape import visible
from gatemini.text.shorten import shorten

_Entry = TypeVar("_Entry")

DEFAULT_ROOM = UNKNOWN.result.plain
"""Bytes of an answer to an unknown client."""
WHOLE = 1 << 30
"""Room inside a chain: nothing is cut there, since the chain's own answer is reduced, with a handle."""
LEAST_ROOM = 2_000
"""Least room that is used, however little a client takes: less would hold nothing useful."""
_NOTES_ROOM = 700
"""Reserved for notes on cuts and on backends still starting."""
_SHORTEST = 80
"""Shortest description, in characters; where that is still too much, rows are left out."""
_WHOLE_BITS = 63


def size_of(value: Any) -> int:
    """Return the bytes of a value as compact JSON."""
    try:
        return len(orjson.dumps(value))
    except (TypeError, ValueError, RecursionError):
        return len(repr(value).encode("utf-8", "replace"))  # huge integers and lone surrogates: close enough


def shown(value: Any, depth: int = 0) -> Any:
    """Return a JSON value with every hidden character in strings and keys escaped, which any JSON writer takes."""
    if isinstance(value, str):
        return visible(value, lines=True)
    if isinstance(value, int) and value.bit_length() > _WHOLE_BITS:
        return str(value)
    if depth > 200:
        return None
    if isinstance(value, Mapping):
        return {visible(str(k)): shown(v, depth + 1) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [shown(v, depth + 1) for v in value]
    return value


def fit_rows(rows: list[Json], room: int) -> tuple[list[Json], bool]:
    """Return (the rows whose JSON fits, whether descriptions were cut): all are cut evenly before rows are dropped."""
    room = _usable(room)
    if size_of(rows) <= room:
        return rows, False
    longest = max(len(row["description"]) for row in rows)
    chars = largest(longest, lambda most: size_of(_cut(rows, most)) <= room)
    if chars >= _SHORTEST:
        return _cut(rows, chars), True
    kept: list[Json] = []
    used = 2
    for row in _cut(rows, _SHORTEST):
        used += size_of(row) + 1
        if used > room and kept:
            break
        kept.append(row)
    return kept, True


def largest(most: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number from 0 to `most` that fits; 0 where none does."""
    low, high = 0, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low


def _cut(rows: Sequence[Json], longest: int) -> list[Json]:
    return [{**row, "description": shorten(row["description"], longest)} for row in rows]


def fit_names(names: Sequence[_Entry], room: int) -> list[_Entry]:
    """Return the first names, or other entries, whose JSON fits; at least one, if there is one."""
    used = 2
    for count, name in enumerate(names):
        used += size_of(name) + 1
        if used > room and count:
            return list(names[:count])
    return list(names)


def fit_parts(answer: Json, parts: Sequence[str], room: int) -> list[str]:
    """Shorten or remove `parts` of the answer, the largest first, until it fits; return the names of those changed.

    A text keeps its beginning, a list its first entries; anything else is removed.
    """
    room = _usable(room)
    share = room // max(1, len(parts))
    touched: list[str] = []
    for name in sorted(parts, key=lambda part: -size_of(answer.get(part))):
        excess = size_of(answer) - room
        if excess <= 0:
            break
        if name not in answer or size_of(answer[name]) <= share:
            continue
        touched.append(name)
        value = answer[name]
        if isinstance(value, list):
            answer[name] = fit_names(value, share)
        elif name == "description":
            answer[name] = _shorter(value, max(share, size_of(value) - excess))
        else:
            del answer[name]
    return touched


def _shorter(text: str, room: int) -> str:
    """Return the longest beginning of `text` whose JSON fits in `room`."""
    made = shorten(text, room)
    while size_of(made) > room and len(made) > _SHORTEST:
        made = shorten(text, max(_SHORTEST, len(made) - max(16, size_of(made) - room)))
    return made


def _usable(room: int) -> int:
    return max(room, LEAST_ROOM) - _NOTES_ROOM
