"""The bytes of JavaScript typed arrays as the items they hold.

Above: results.py, which keeps the bytes. Below: nothing.
"""

from __future__ import annotations

import math
import struct
from typing import Any, Final

MIME: Final = "application/octet-stream; array="
"""In front of the array's name: the MIME type under which its bytes are kept."""

_CODES: Final = {
    "Int8Array": "b",
    "Uint8Array": "B",
    "Uint8ClampedArray": "B",
    "Int16Array": "h",
    "Uint16Array": "H",
    "Int32Array": "i",
    "Uint32Array": "I",
    "Float16Array": "e",
    "Float32Array": "f",
    "Float64Array": "d",
    "BigInt64Array": "q",
    "BigUint64Array": "Q",
}
"""Name → code of the struct module. WebAssembly's memory is little-endian wherever it runs."""


def is_array(name: str) -> bool:
    return name in _CODES


def items(mime: str, data: bytes) -> list[Any] | None:
    """The items as JSON has them (64-bit integers as strings, NaN as null), or None if this is no array."""
    code = _CODES.get(mime.removeprefix(MIME)) if mime.startswith(MIME) else None
    if code is None:
        return None
    size = struct.calcsize(f"<{code}")
    read = struct.unpack(f"<{len(data) // size}{code}", data[: len(data) // size * size])
    if code in "qQ":
        return [str(item) for item in read]
    if code in "efd":
        return [item if math.isfinite(item) else None for item in read]
    return list(read)
