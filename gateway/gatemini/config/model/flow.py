"""Keys of `policy` for the data-flow guard: what a session has read, and what it may then no longer do."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field

from gatemini.config.model.backend import Strict
from gatemini.config.model.values.expressions import ToolGlob

Label = Literal["untrusted", "private"]
LABELS: tuple[Label, ...] = get_args(Label)

Globs = tuple[ToolGlob, ...]


class FlowLabels(Strict):
    """Tools whose results carry a label."""

    untrusted: Globs = ()
    """Globs over `backend.tool` that return what others wrote, beside all tools that are open-world."""
    private: Globs = ()
    """Globs over `backend.tool` that return what must not get out."""


class Declassify(Strict):
    """Tools that may be called although the session has read something with these labels."""

    tools: Annotated[Globs, Field(min_length=1)]
    """Globs over `backend.tool`."""
    labels: Annotated[tuple[Label, ...], Field(min_length=1)] = LABELS
    """The labels that do not count for them."""
