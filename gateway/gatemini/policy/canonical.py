"""The JSON text of a value that is the same for equal values, for hashes of arguments and of definitions."""

from __future__ import annotations

import json
from typing import Any

import orjson


def canonical(value: Any) -> bytes:
    """Return the text: keys sorted, no blanks."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # integers beyond 64 bits, lone surrogates, and depth, which orjson refuses
        return _written(value)


def _written(value: Any) -> bytes:
    """Return the text of a value of any depth, without recursion, which ends at about a thousand levels."""
    texts: list[str] = []
    # What is to be written, the next one last: a value in a tuple, or a text as it is.
    left: list[Any] = [(value,)]
    while left:
        one = left.pop()
        if isinstance(one, str):
            texts.append(one)
            continue
        (inner,) = one
        if isinstance(inner, dict):
            parts = [part for key in sorted(inner) for part in (",", f"{json.dumps(key)}:", (inner[key],))]
            left += reversed(["{", *parts[1:], "}"])
        elif isinstance(inner, list | tuple):
            parts = [part for each in inner for part in (",", (each,))]
            left += reversed(["[", *parts[1:], "]"])
        else:
            texts.append(json.dumps(inner))
    return "".join(texts).encode()
