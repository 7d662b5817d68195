"""Sizes as people write them: `4MiB`, `512KiB`, `1GiB`; a bare number is bytes."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

MAX_BYTES = 1 << 40
_ALLOWED = "a size above 0, such as 512KiB, 4MiB or a number of bytes"
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(B|KiB|MiB|GiB|kB|MB|GB)?\s*")
_UNITS = {
    "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "kB": 1000, "MB": 1000**2, "GB": 1000**3,
}  # fmt: skip


def parse_size(value: object) -> object:
    """Text as bytes; a bare number is bytes already. Values of other types are left to the model's check."""
    if isinstance(value, bool):
        raise ValueError(_ALLOWED)
    if isinstance(value, str):
        match = _SIZE.fullmatch(value)
        if match is None:
            raise ValueError(_ALLOWED)
        value = int(float(match[1]) * _UNITS[match[2] or "B"])
    if isinstance(value, int) and not 0 < value <= MAX_BYTES:
        raise ValueError(_ALLOWED)
    return value


Size = Annotated[
    int,
    BeforeValidator(parse_size),
    Field(gt=0, le=MAX_BYTES),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*(B|KiB|MiB|GiB|kB|MB|GB)?\s*$"},
                {"type": "integer", "exclusiveMinimum": 0},
            ],
            "description": "512KiB, 4MiB; a bare number is bytes",
        }
    ),
]
"""Bytes."""
