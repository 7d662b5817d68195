"""Whether a recorded process still runs: its process id together with its start time, since ids are used again."""

from __future__ import annotations

import psutil

from gatemini.processes.watchdog import same_start


def start_time(pid: int) -> float:
    """Start time of a process in seconds since the epoch, 0 if there is no such process."""
    try:
        return psutil.Process(pid).create_time()
    except (psutil.Error, ValueError, OverflowError):
        return 0.0


def same_process(pid: int, created: float) -> bool:
    """Whether `pid` is still the process that started at `created`."""
    return same_start(start_time(pid), created)
