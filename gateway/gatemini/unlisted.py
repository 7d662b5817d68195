"""Backends whose tools are unknown: still starting, failed or disabled. Answers about tools name them.

Without that, a reader would conclude that a tool does not exist although its backend is only down.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gatemini.errors import ToolNotFound
from gatemini.text.escape import visible
from gatemini.text.shorten import shorten

FIRST_LISTING_SECONDS = 2.0
"""How long a search for tools waits for backends that have never listed any (no cache, still starting). The answer names
those that have not listed by then."""

SHOWN = 8
"""Backends that a note names."""
_NAME_CHARS = 40
REASON_CHARS = 400


@dataclass(frozen=True, slots=True)
class Unlisted:
    """Names of backends that are starting, and of those that do not run with the reason.

    `disabled` has those that the configuration disables; they are mentioned only if a name refers to one.
    """

    starting: Sequence[str] = ()
    down: Mapping[str, str] = field(default_factory=dict)
    disabled: Mapping[str, str] = field(default_factory=dict)

    @property
    def reasons(self) -> Mapping[str, str]:
        """Backends without tools, each with the reason."""
        return {**self.disabled, **self.down}

    def note(self) -> str:
        """One line on the backends that an answer lacks; empty without any."""
        parts = []
        if self.starting:
            parts.append(f"still starting, tools not listed yet: {_listed(self.starting)}")
        if self.down:
            parts.append(
                f"not running, tools unknown: {_listed([*self.down])} (see gatemini://health or `gatemini doctor`)"
            )
        return "; ".join(parts)

    def explain(self, error: ToolNotFound, name: str) -> None:
        """Add to the hint the backends that may have this tool; for a backend that the name contains, the reason."""
        why = self.reasons
        backend = next((n for n in (name, name.partition(".")[0]) if n in why), None)
        if backend is not None:
            # Another backend may have a tool of that name, which is not what was asked for.
            error.message = f"the tools of '{visible(backend)}' are not known"
            error.hint = f"{visible(backend)} is not running: {shorten(visible(why[backend]), REASON_CHARS)}"
        elif note := self.note():
            error.hint = f"{error.hint} {note[0].upper()}{note[1:]}." if error.hint else note


Look = Callable[..., Awaitable[Unlisted]]
"""Waits some seconds for backends whose tools are unknown, and returns those that are still missing.

`live=True`: also for backends whose tools are only known from the cache, where a name must be unambiguous.
"""


async def none_unlisted(seconds: float, *, live: bool = False) -> Unlisted:
    """For chains over a registry that is complete from the start."""
    return Unlisted()


def _listed(names: Sequence[str]) -> str:
    shown = [shorten(visible(name), _NAME_CHARS) for name in names[:SHOWN]]
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(shown) + more
