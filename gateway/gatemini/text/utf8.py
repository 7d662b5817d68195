"""Text to UTF-8 and back. A Python string may hold lone surrogates; they survive both ways."""

from __future__ import annotations

import re

SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a character beyond U+FFFF, as JSON escapes it."""


def encode(text: str) -> bytes:
    """Return `text` in UTF-8."""
    return text.encode("utf-8", "surrogatepass")


def decode(data: bytes) -> str:
    """Return the text of `data`."""
    return data.decode("utf-8", "surrogatepass")


def paired(text: str) -> str:
    """Return `text` with two surrogates that are the halves of one character as that character."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
