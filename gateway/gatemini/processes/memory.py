"""Resident memory of child processes."""

from __future__ import annotations

from collections.abc import Sequence

import psutil


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
