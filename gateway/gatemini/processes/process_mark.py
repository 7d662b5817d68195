"""A mark that a child process and all its descendants inherit, so that the gateway can find and end them.

The mark is the soft value of a resource limit that bounds nothing at that height (see `MARK_FLOOR`). A process keeps
it through fork, exec and setsid, and when its parent dies: browsers and daemons that MCP servers start leave the
process group and the session. Linux only; elsewhere there are no marks.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import sys

if sys.platform != "win32":
    import resource

MARK_FLOOR = 1 << 62
"""Marks are values of RLIMIT_RTTIME from this one on: microseconds of CPU time that a process of real-time priority
may use without a pause. This many are 146,000 years."""


def set_mark() -> int:
    """Set a new mark for the children that start before this turn of the event loop ends; 0 where there is none."""
    if not sys.platform.startswith("linux"):
        return 0
    chosen = MARK_FLOOR + secrets.randbits(61)
    soft, hard = resource.getrlimit(resource.RLIMIT_RTTIME)
    try:
        resource.setrlimit(resource.RLIMIT_RTTIME, (chosen, hard))
    except (OSError, ValueError):  # the hard limit is lower than a mark
        return 0
    asyncio.get_running_loop().call_soon(_restore, soft if soft < MARK_FLOOR else resource.RLIM_INFINITY)
    return chosen


def put_mark(pid: int, mark: int) -> None:
    """Give a child the mark that was set for it: the limit is the process's, and a thread with an event loop of its own
    may have set another one before the child was started."""
    if mark:
        _put(pid, mark)


def clear_mark(pid: int) -> None:
    """Remove the mark of a process that may have started while a mark was set for a child."""
    _put(pid, None)


def _put(pid: int, soft: int | None) -> None:
    if not sys.platform.startswith("linux"):
        return
    with contextlib.suppress(OSError):  # it has ended
        hard = resource.prlimit(pid, resource.RLIMIT_RTTIME)[1]
        resource.prlimit(pid, resource.RLIMIT_RTTIME, (hard if soft is None else soft, hard))


def _restore(soft: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_RTTIME)[1]
    resource.setrlimit(resource.RLIMIT_RTTIME, (soft, hard))
