"""Text to UTF-8 and back. A Python string may hold lone surrogates; they survive both ways."""

from __future__ import annotations


def encode(text: str) -> bytes:
    """Return `text` in UTF-8."""
    return text.encode("utf-8", "surrogatepass")


def decode(data: bytes) -> str:
    """Return the text of `data`."""
    return data.decode("utf-8", "surrogatepass")
