"""How long code may be read before it runs: hostile text makes parsers slow, and a parser must not outlast its chain.

The steps of reading ask here as they go; in a thread of its own that also lets others have the interpreter, which the
parser would else hold from beginning to end. Above: parse.py, typescript.py, facts.py, wrap.py. Below: errors.py.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from gatemini_sandbox.errors import ReadingTooLong

_until: ContextVar[float] = ContextVar("until", default=float("inf"))


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """What is read inside ends with ReadingTooLong once `seconds` are over, or those of a patience around it."""
    token = _until.set(min(_until.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _until.reset(token)


def over(*_progress: object) -> bool:
    """Whether the time is over; in the form of tree-sitter's progress callbacks, which stop for a true answer."""
    return time.monotonic() > _until.get()


def check() -> None:
    """Raises ReadingTooLong when the time is over."""
    if over():
        raise ReadingTooLong("the code takes too long to parse")


__all__ = ["check", "over", "patience"]
