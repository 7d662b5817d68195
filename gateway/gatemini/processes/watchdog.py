"""A process that outlives the gateway for a moment and kills the child processes that the gateway left.

Runs as a script with a pipe on stdin: lines `+pid start mark` and `-pid` add and remove process groups. The end of the
pipe means that the gateway is gone, even by SIGKILL; then every group on the list is ended. Imports little of the
standard library and nothing else, so that it starts in milliseconds and stays small. Without /proc (not Linux) only
the process group itself is reached. `children.py` uses the same functions.
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
"""How often the process table is read again for processes that were forked during the killing."""

START_TOLERANCE = 1.5
"""Seconds by which two readings of a start time may differ (boot time is known to the second)."""


def main() -> None:
    """Read the pipe to its end, then end every group on the list."""
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
    for group, (created, mark) in groups.items():
        if _same_leader(group, created):
            send_signal(group, family(group, mark), signal.SIGTERM)
    deadline = time.monotonic() + GRACE_SECONDS
    for group, (created, mark) in groups.items():
        kill_group(group, created, mark, grace=max(0.0, deadline - time.monotonic()))


def kill_group(pid: int, created: float, mark: int, *, grace: float) -> bool:
    """SIGKILL a group and its family after `grace` seconds; False if nothing of it ran any more before."""
    ours = _same_leader(pid, created)
    others = family(pid, mark) if ours else marked(mark)
    deadline = time.monotonic() + grace
    while (ours and running(pid, others)) or (not ours and others):
        if time.monotonic() >= deadline:
            for _ in range(KILL_ROUNDS):
                send_signal(pid if ours else None, others, signal.SIGKILL)
                others = family(pid, mark) if ours else marked(mark)
                if not others:
                    break
            return True
        time.sleep(POLL_SECONDS)
    return False


def marked(mark: int, *, after: int = 0) -> set[int]:
    """Processes with this mark (`mark.py`), without zombies; `after` leaves out those started before that process."""
    if not mark:
        return set()
    shown = b" %d " % mark
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


def family(pid: int, mark: int = 0) -> set[int]:
    """Processes other than `pid` in its session, descended from it, or with its mark; without zombies."""
    parents: dict[int, int] = {}
    dead: set[int] = set()
    members = marked(mark)
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


def send_signal(group: int | None, others: set[int], number: int) -> None:
    """Signal a process group, if there is one, and single processes; those that are gone do not matter."""
    if group is not None and hasattr(os, "killpg"):
        with contextlib.suppress(OSError):
            os.killpg(group, number)
    for pid in others:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def _same_leader(pid: int, created: float) -> bool:
    """Whether the id still means our group: its leader is the same process, or gone with members left."""
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
    """(pid, state, parent, group, session) of every visible process; empty without /proc."""
    found: list[tuple[int, str, int, int, int]] = []
    for pid in _numbers():
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
            found.append((pid, fields[0], int(fields[1]), int(fields[2]), int(fields[3])))
    return found


def _numbers(after: int = 0) -> list[int]:
    """Ids of all visible processes, or of those started after one (the kernel gives ids in ascending order)."""
    try:
        numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        with open("/proc/loadavg", encoding="ascii") as file:
            newest = int(file.read().split()[4])
    except (OSError, ValueError, IndexError):
        return []
    return numbers if newest < after else [number for number in numbers if number > after]


if __name__ == "__main__":
    main()
