"""Bound the time that parsing takes: hostile text makes parsers slow, and a parser must not outlast its chain.

The steps of parsing look at the time as they go; that also lets other threads have the interpreter in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tree_sitter import Parser, Tree

from gatemini_sandbox.errors import ReadingTooLong

PIECE = 64 * 1024
"""Bytes of code that a parser is given at a time."""

NODE_PIECE = 256
"""Bytes of code that are copied at a time when the text of a node is read."""

_until: ContextVar[float] = ContextVar("until", default=float("inf"))


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """What is read inside ends with ReadingTooLong once `seconds` are over, or those of a patience around it."""
    token = _until.set(min(_until.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _until.reset(token)


def over() -> bool:
    """Whether the time is over."""
    return time.monotonic() > _until.get()


def parse_until(parser: Parser, data: bytes, stop: Callable[[], bool]) -> Tree | None:
    """The tree, or None once `stop` returns True; it is called again and again."""
    stopped = False

    def stops(*_progress: object) -> bool:
        nonlocal stopped
        stopped = stopped or stop()
        return stopped

    size = PIECE

    def piece(offset: int, _place: object) -> bytes:
        return data[offset : offset + size]

    # Only what is read in pieces can be stopped, and lets go of the interpreter in between.
    try:
        tree = parser.parse(piece, progress_callback=stops)
        size = NODE_PIECE
        return tree
    except ValueError:
        if not stopped:
            raise
        return None


def check() -> None:
    """Raises ReadingTooLong when the time is over."""
    if over():
        raise ReadingTooLong("the code takes too long to parse")


__all__ = ["check", "over", "parse_until", "patience"]
