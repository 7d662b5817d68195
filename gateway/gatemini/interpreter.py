"""How a serving process shares the one interpreter among its threads.

Above: `server/direct_mode.py`. Below: nothing.
"""

from __future__ import annotations

import gc
import sys
from typing import Final

TURN_SECONDS: Final = 0.0005
"""How long a thread that computes keeps the others waiting. A search encodes its query in twenty steps, a guest asks the
host thirty-five times, and each may have to wait for its turn: beside a large result Python's own five milliseconds
make 200 of that. Turns of half a millisecond cost two busy threads two per cent."""


def prepare() -> None:
    """For a process that serves, once everything is imported."""
    gc.freeze()  # what the imports made stays: walking it again and again would delay every answer
    sys.setswitchinterval(TURN_SECONDS)
