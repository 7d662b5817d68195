"""Globs of rules, compiled; and the names of a tool that they are matched with."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable
from functools import lru_cache

from gatemini.discovery.types.identifiers import COMPOSITE_BACKEND, spoken

Match = Callable[[str], object]
"""Truthy for a text that one of the globs matches as a whole; letters in upper and lower case differ."""


@lru_cache(maxsize=1000)  # a grant of a client is compiled by its first call
def compile_globs(globs: tuple[str, ...]) -> Match:
    """Return the test for any of these globs, which no text passes where there are none; `*` also matches dots."""
    return re.compile("|".join(map(fnmatch.translate, globs)) or r"(?!)").match


def tool_names(backend: str, tool: str, qualified: str) -> tuple[str, ...]:
    """Return every name by which a rule may mean the tool.

    A rule for a backend also holds where the backend has a namespace, and the other way round.
    """
    if backend == COMPOSITE_BACKEND:
        return (f"{spoken(backend)}.{tool}",)
    own = f"{backend}.{tool}"
    return (own,) if own == qualified else (own, qualified)
