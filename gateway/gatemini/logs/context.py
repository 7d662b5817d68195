"""Which session and chain the current task works for, as each line of the log names them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

SESSION: ContextVar[str | None] = ContextVar("gatemini_log_session", default=None)
CHAIN: ContextVar[str | None] = ContextVar("gatemini_log_chain", default=None)


@contextmanager
def logged_as(variable: ContextVar[str | None], name: str) -> Iterator[None]:
    """Name a session or chain in what is logged meanwhile."""
    token = variable.set(name)
    try:
        yield
    finally:
        variable.reset(token)
