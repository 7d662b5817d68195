"""A mark by which everything that a child ever starts can be found: it is worn while the child is being started.

The mark is the soft value of a resource limit that bounds nothing (see `MARK_FLOOR`). Every process inherits it
from its parent and keeps it through fork, exec and setsid, whatever becomes of its parent, its session and its
environment. Linux only; elsewhere there are no marks. Above: `pipes.py` starts children, `watchdog.py` looks for
bearers. Below: the operating system.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import sys

if sys.platform != "win32":
    import resource

MARK_FLOOR = 1 << 62
"""Marks are values of RLIMIT_RTTIME from here on: microseconds of CPU time without a pause that a process of
real-time priority may use. This many are 146,000 years."""


def wear() -> int:
    """Wear a new mark until this turn of the event loop ends; what is started meanwhile has it. 0: no mark."""
    if not sys.platform.startswith("linux"):
        return 0
    chosen = MARK_FLOOR + secrets.randbits(61)
    soft, hard = resource.getrlimit(resource.RLIMIT_RTTIME)
    try:
        resource.setrlimit(resource.RLIMIT_RTTIME, (chosen, hard))
    except (OSError, ValueError):  # a hard limit stands in the way
        return 0
    asyncio.get_running_loop().call_soon(_take_off, soft if soft < MARK_FLOOR else resource.RLIM_INFINITY)
    return chosen


def spare(pid: int) -> None:
    """A child that is to be nobody's, started just now, perhaps in the same turn as one that is: it has no mark."""
    if not sys.platform.startswith("linux"):
        return
    with contextlib.suppress(OSError):  # it has ended already
        hard = resource.prlimit(pid, resource.RLIMIT_RTTIME)[1]
        resource.prlimit(pid, resource.RLIMIT_RTTIME, (hard, hard))


def _take_off(soft: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_RTTIME)[1]
    resource.setrlimit(resource.RLIMIT_RTTIME, (soft, hard))
