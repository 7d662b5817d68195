"""What each client cuts off by itself, so that nothing is cut a second time out of our sight (spec 1.1).

One table keyed by the name a client announces. Sizes are characters; tokens are estimated as bytes / 4 as
everywhere. Above: `tools.py`, `instructions.py`, `definitions.py`. Below: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

BYTES_PER_TOKEN = 4
RESULT_TOKENS = 25_000
"""Default for unknown clients; the documented limit of a widespread one."""
ERROR_CHARS = 10_000
DESCRIPTION_CHARS = 2_048


@dataclass(frozen=True, slots=True)
class Budget:
    """Most that a client takes of each kind of text."""

    result_chars: int = RESULT_TOKENS * BYTES_PER_TOKEN - 1
    error_chars: int = ERROR_CHARS - 1


UNKNOWN = Budget()

# Keyed by the beginning of the announced name, lower case. A client stands here only where its limit is known
# to differ from the default; a name nobody measured gets the default.
_BUDGETS: dict[str, Budget] = {
    "gatemini": Budget(result_chars=10_000_000, error_chars=1_000_000),
}


def budget_for(client: str | None) -> Budget:
    """The budget of the client that announced itself by this name."""
    name = (client or "").strip().lower()
    for known, budget in _BUDGETS.items():
        if name == known or name.startswith((known + "-", known + " ", known + "/")):
            return budget
    return UNKNOWN
