"""Facts about processes of this machine: whether a recorded one still runs, and how much memory they use."""

from __future__ import annotations

from collections.abc import Sequence

import psutil

from gatemini.processes.watchdog import same_start


def start_time(pid: int) -> float:
    """Start time of a process in seconds since the epoch, 0 if there is no such process."""
    try:
        return psutil.Process(pid).create_time()
    except (psutil.Error, ValueError, OverflowError):
        return 0.0


def same_process(pid: int, created: float) -> bool:
    """Whether `pid` is still the process that started at `created`: process ids are used again."""
    return same_start(start_time(pid), created)


def resident_sizes(roots: Sequence[int]) -> dict[int, int]:
    """Resident bytes of each process and its descendants, in one pass over the process table."""
    parents: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for process in psutil.process_iter(["pid", "ppid", "memory_info"]):
        memory = process.info["memory_info"]
        if memory is not None:
            parents[process.info["pid"]] = process.info["ppid"] or 0
            sizes[process.info["pid"]] = memory.rss
    totals = {root: 0 for root in roots if root in sizes}
    for pid, size in sizes.items():
        ancestor, steps = pid, 0
        while ancestor and ancestor not in totals and steps < 64:
            ancestor, steps = parents.get(ancestor, 0), steps + 1
        if ancestor in totals:
            totals[ancestor] += size
    return totals
