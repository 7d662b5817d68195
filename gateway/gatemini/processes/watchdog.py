"""A process of its own that outlives the gateway by a moment and kills what the gateway left behind.

Run as a script with a pipe on stdin: lines `+pid start mark` and `-pid` say which process groups are alive. The
end of the pipe means that the gateway is gone, even by SIGKILL; then every group still on the list is ended.
Standard library only, so that it starts in milliseconds and stays small. Above: `children.py` starts it and
shares its functions. Below: /proc (Linux); elsewhere only the group itself can be reached.

A process that left its group and session and lost its parent is still known by its mark (see `mark.py`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

GRACE_SECONDS = 1.0
"""Between SIGTERM and SIGKILL for orphans: their servers have no client any more."""

POLL_SECONDS = 0.02

KILL_ROUNDS = 5
"""How often the process table is read again for what was forked while its family was being killed."""

START_TOLERANCE = 1.5
"""Seconds by which two readings of a start time may differ (boot time is known to the second)."""


def main() -> None:
    """Follow the pipe to its end, then end every group on the list."""
    groups: dict[int, tuple[float, int]] = {}
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)  # only the end of the gateway ends the watch
    with os.fdopen(0, "r", encoding="ascii", errors="replace") as pipe:
        for line in pipe:
            try:
                if line.startswith("+"):
                    number, start, shared = line[1:].split()
                    groups[int(number)] = (float(start), int(shared))
                elif line.startswith("-"):
                    groups.pop(int(line[1:]), None)
            except ValueError:
                continue  # a torn line: the gateway died while writing it
    for group, (created, marked) in groups.items():
        terminate(group, created, marked)
    deadline = time.monotonic() + GRACE_SECONDS
    for group, (created, marked) in groups.items():
        kill_group(group, created, marked, grace=max(0.0, deadline - time.monotonic()))


def terminate(pid: int, created: float, marked: int) -> None:
    if _ours(pid, created):
        _signal(pid, family(pid, marked), signal.SIGTERM)


def kill_group(pid: int, created: float, marked: int, *, grace: float) -> bool:
    """SIGKILL a group and its family after `grace` seconds, if any of it still runs; whether it did."""
    ours = _ours(pid, created)
    others = family(pid, marked) if ours else bearers(marked)
    deadline = time.monotonic() + grace
    while (ours and running(pid, others)) or (not ours and others):
        if time.monotonic() >= deadline:
            for _ in range(KILL_ROUNDS):
                _signal(pid if ours else None, others, signal.SIGKILL)
                others = family(pid, marked) if ours else bearers(marked)
                if not others:
                    break
            return True
        time.sleep(POLL_SECONDS)
    return False


def bearers(marked: int, *, after: int = 0) -> set[int]:
    """Processes with this mark, dead ones not counted; `after` leaves out those older than that process id."""
    if not marked:
        return set()
    shown = b" %d " % marked
    found: set[int] = set()
    for pid in _numbers(after):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/limits", "rb") as file:
                if shown not in file.read():
                    continue
            with open(f"/proc/{pid}/stat", "rb") as file:
                if file.read().rpartition(b")")[2].split()[0] not in b"ZX":
                    found.add(pid)
    found.discard(os.getpid())
    return found


def family(pid: int, marked: int = 0) -> set[int]:
    """Processes other than `pid` in its session, descended from it, or bearing its mark; no dead ones."""
    parents: dict[int, int] = {}
    dead: set[int] = set()
    members = bearers(marked)
    for other, state, parent, _group, session in _processes():
        parents[other] = parent
        if state in "ZX":
            dead.add(other)
        elif session == pid:
            members.add(other)
    for other in parents:
        ancestor, steps = parents.get(other), 0
        while ancestor and ancestor != pid and steps < 64:
            ancestor, steps = parents.get(ancestor), steps + 1
        if ancestor == pid:
            members.add(other)
    return members - dead - {pid, os.getpid()}


def running(group: int, others: set[int]) -> bool:
    """Whether anything of the group, its session or the others still runs; zombies do not count."""
    if not os.path.isdir("/proc/self"):
        try:
            os.killpg(group, 0)
        except OSError:
            return False
        return True
    return any(
        state not in "ZX" and (pid == group or pid in others or group in (of_group, of_session))
        for pid, state, _parent, of_group, of_session in _processes()
    )


def same_start(first: float, second: float) -> bool:
    return first > 0 and second > 0 and abs(first - second) < START_TOLERANCE


def _ours(pid: int, created: float) -> bool:
    """Whether the number still stands for our group: its leader is the same, or gone with members left."""
    now = _start_of(pid)
    return same_start(now, created) if now else True


def _start_of(pid: int) -> float:
    """Start time in seconds since the epoch; 0 when there is no such process or no /proc."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            ticks = int(file.read().rpartition(")")[2].split()[19])
        with open("/proc/stat", encoding="ascii") as file:
            boot = next(int(line.split()[1]) for line in file if line.startswith("btime"))
    except (OSError, ValueError, IndexError, StopIteration):
        return 0.0
    return boot + ticks / os.sysconf("SC_CLK_TCK")


def _processes() -> list[tuple[int, str, int, int, int]]:
    """(pid, state, parent, group, session) of every process that can be seen; empty without /proc."""
    found: list[tuple[int, str, int, int, int]] = []
    for pid in _numbers():
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
            found.append((pid, fields[0], int(fields[1]), int(fields[2]), int(fields[3])))
    return found


def _numbers(after: int = 0) -> list[int]:
    """Ids of all processes that can be seen, or of those that were started after one (ids are given in turn)."""
    try:
        numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        with open("/proc/loadavg", encoding="ascii") as file:
            newest = int(file.read().split()[4])
    except (OSError, ValueError, IndexError):
        return []
    return numbers if newest < after else [number for number in numbers if number > after]


def _signal(group: int | None, others: set[int], number: int) -> None:
    if group is not None:
        with contextlib.suppress(OSError):
            os.killpg(group, number)
    for pid in others:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


if __name__ == "__main__":
    main()
