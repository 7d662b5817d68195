"""CPU time of commands that start nothing (help, a typing error, a missing file, bad JSON) against `python -c pass`."""

from __future__ import annotations

import resource
import subprocess
import sys
from functools import partial

from tests.benchmarks.measure import Outcome, Ratio, Run, take_turns

MOST_TIMES = 12.0
"""The largest ratio allowed."""
EMPTY = "python -c pass"
COMMANDS: dict[str, list[str]] = {
    "help": ["tools", "--help"],
    "typing error": ["tools", "--nope"],
    "missing file": ["run", "/no/such/file.ts"],
    "bad JSON": ["call", "clock.now", "{bad"],
}


def command_line(rounds: int) -> Outcome:
    """Milliseconds of CPU time, not of the clock: other processes of the machine do not count."""
    contestants: dict[str, Run] = {EMPTY: partial(_cpu_ms, [sys.executable, "-c", "pass"])}
    for name, words in COMMANDS.items():
        contestants[name] = partial(_cpu_ms, [sys.executable, "-P", "-m", "gatemini", *words])
    figures = take_turns("command_line", contestants, rounds)
    empty = figures[EMPTY].median_ms
    ratios = []
    for name in COMMANDS:
        times = figures[name].median_ms / empty
        meaning = f"CPU time of {name}, in that of {EMPTY}"
        ratios.append(Ratio("command_line", meaning, times, f"≤ {MOST_TIMES:g}", times <= MOST_TIMES))
    return Outcome(tuple(figures.values()), tuple(ratios))


def _cpu_ms(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000
