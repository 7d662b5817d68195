"""The bytes of JavaScript typed arrays as the items they hold."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Items:
    """The items of a typed array whose bytes lie somewhere."""

    code: str
    count: int

    def read(self, read: Callable[[int, int | None], bytes], first: int, count: int) -> list[Any]:
        """The items as JSON has them: 64-bit integers as strings, NaN as null."""
        size = struct.calcsize(f"<{self.code}")
        count = max(0, min(count, self.count - first))
        data = read(first * size, (first + count) * size)
        found = struct.unpack(f"<{count}{self.code}", data)
        if self.code in "qQ":
            return [str(item) for item in found]
        if self.code in "efd":
            return [item if math.isfinite(item) else None for item in found]
        return list(found)


def items(mime: str, size: int) -> Items | None:
    """The items in `size` bytes of this type, or None if it is no typed array."""
    code = _CODES.get(mime.removeprefix(MIME)) if mime.startswith(MIME) else None
    return None if code is None else Items(code, size // struct.calcsize(f"<{code}"))
