"""The JSON text of a value that is the same for equal values, for hashes of arguments and of definitions."""

from __future__ import annotations

import json
from typing import Any

import orjson


def canonical(value: Any) -> bytes:
    """Return the text: keys sorted, no blanks."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # integers beyond 64 bits and lone surrogates, which orjson refuses
        return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
