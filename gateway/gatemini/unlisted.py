"""Backends whose tools nobody knows: still starting, failed or disabled; told where a tool is looked for.

An answer that left them out in silence would send its reader away from a tool that is merely down. Above: app.py
(which looks), the meta-tools, chains, the CLI. Below: errors, `types/wording.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gatemini.errors import ToolNotFound
from gatemini.types.wording import shorten, visible

FIRST_LISTING_SECONDS = 2.0
"""How long whoever looks for a tool waits for backends that have never listed any (no cache, still starting): an
answer without them would send the agent the wrong way. What is not there by then is named."""

SHOWN = 8
"""Backends that a note names."""
_NAME_CHARS = 40
_REASON_CHARS = 400


@dataclass(frozen=True, slots=True)
class Unlisted:
    """Names of backends that are starting, and of those that do not run with the reason.

    `disabled` has those that the configuration leaves out, on purpose too: only whoever names one is told.
    """

    starting: Sequence[str] = ()
    down: Mapping[str, str] = field(default_factory=dict)
    disabled: Mapping[str, str] = field(default_factory=dict)

    def note(self) -> str:
        """What is missing in an answer, in one line; empty where nothing is."""
        parts = []
        if self.starting:
            parts.append(f"still starting, tools not listed yet: {_listed(self.starting)}")
        if self.down:
            parts.append(
                f"not running, tools unknown: {_listed([*self.down])} (see gatemini://health or `gatemini doctor`)"
            )
        return "; ".join(parts)

    def explain(self, error: ToolNotFound, name: str) -> None:
        """Add to the hint which backends the tool of this name may be of; of a backend it names, why."""
        why = {**self.disabled, **self.down}
        backend = next((n for n in (name, name.partition(".")[0]) if n in why), None)
        if backend is not None:
            error.hint = f"{visible(backend)} is not running: {shorten(visible(why[backend]), _REASON_CHARS)}"
        elif note := self.note():
            error.hint = f"{error.hint} {note[0].upper()}{note[1:]}." if error.hint else note


class Look(Protocol):
    """Waits up to so many seconds for backends of which nothing is known; those that are missing then.

    `live`: also for those whose tools are only known from last time, where it matters that no other has them too.
    """

    async def __call__(self, seconds: float, *, live: bool = False) -> Unlisted: ...


async def none_unlisted(seconds: float, *, live: bool = False) -> Unlisted:
    """For chains over a registry that is whole from the start."""
    return Unlisted()


def _listed(names: Sequence[str]) -> str:
    shown = [shorten(visible(name), _NAME_CHARS) for name in names[:SHOWN]]
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(shown) + more
