"""Whether a process that wrote something down still lives: its number together with its start time.

A number alone may long belong to another process. Above: `accounts.py`, `output/spill.py`,
`backends/children.py`. Below: psutil, `backends/watchdog.py` (how exactly two start times must agree).
"""

from __future__ import annotations

import psutil

from gatemini.processes.watchdog import same_start


def start_time(pid: int) -> float:
    """Creation time of a process in seconds since the epoch, 0 if it is gone."""
    try:
        return psutil.Process(pid).create_time()
    except (psutil.Error, ValueError, OverflowError):
        return 0.0


def same_process(pid: int, created: float) -> bool:
    """Whether `pid` still is the process that was created then, and not one that took its number."""
    return same_start(start_time(pid), created)
