"""What a question to the user of a call needs: the client's capabilities, a function that sends it, a paused clock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from gatemini.model import Json


class CannotAsk(Exception):
    """The client was not asked, or gave no valid answer; the message says why."""


@dataclass(frozen=True, slots=True)
class Reach:
    """The ways to the person behind a call: the client's capabilities and `ask`, which sends it a request.

    `ask` raises CannotAsk. `pause()` stops the chain's clock for the length of its context.
    """

    can: Json = field(default_factory=dict)
    ask: Callable[[str, Json], Awaitable[Json]] | None = None
    pause: Callable[[], AbstractContextManager[None]] = nullcontext
