"""The bytes of JavaScript typed arrays as the items they hold."""

from __future__ import annotations

import math
import struct
from base64 import b64encode
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


BLOB_ROW = 3_072
"""Bytes of binary data in a row, a multiple of three: the rows' base64, joined, is that of the whole."""
_LONGEST_NUMBER = 26
"""Characters of a double or a 64-bit integer as JSON, with its comma."""


def is_array(name: str) -> bool:
    return name in _CODES


@dataclass(frozen=True, slots=True)
class Items:
    """The items of a typed array; without a `code`, stretches of `BLOB_ROW` bytes in base64."""

    code: str
    size: int

    @property
    def width(self) -> int:
        return struct.calcsize(f"<{self.code}") if self.code else BLOB_ROW

    @property
    def count(self) -> int:
        return self.size // self.width if self.code else -(-self.size // BLOB_ROW)

    @property
    def longest(self) -> int:
        """Characters of an item as JSON, with its comma."""
        return _LONGEST_NUMBER if self.code else BLOB_ROW * 4 // 3 + 3

    def read(self, read: Callable[[int, int | None], bytes], first: int, count: int) -> list[Any]:
        """The items as JSON has them: 64-bit integers as strings, NaN as null."""
        count = max(0, min(count, self.count - first))
        data = read(first * self.width, min(self.size, (first + count) * self.width))
        if not self.code:
            return [b64encode(data[at : at + BLOB_ROW]).decode() for at in range(0, len(data), BLOB_ROW)]
        found = struct.unpack(f"<{count}{self.code}", data)
        if self.code in "qQ":
            return [str(item) for item in found]
        if self.code in "efd":
            return [item if math.isfinite(item) else None for item in found]
        return list(found)


def items(mime: str, size: int) -> Items:
    """The items in `size` bytes of this type."""
    return Items(_CODES.get(mime.removeprefix(MIME), "") if mime.startswith(MIME) else "", size)
