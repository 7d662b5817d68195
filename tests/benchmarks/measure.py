"""Interleaved timing and the table it ends in.

Two noisy cores drift within a minute, so contestants take turns: every round runs each of them once, and what
is compared are medians over the rounds of one run.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table

WARM_UP_ROUNDS = 3
"""Rounds thrown away: imports on first use, caches, the first connection to a backend."""

Run = Callable[[], object]
"""One operation. It may give back its milliseconds itself, where what it does besides is not to be counted."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of a result: a contestant in a scenario. Times are milliseconds of one operation.

    Comparisons use the median; the best of all rounds tells how much of it is the machine's other work.
    """

    scenario: str
    contestant: str
    median_ms: float
    best_ms: float
    p95_ms: float
    rounds: int


@dataclass(frozen=True, slots=True)
class Ratio:
    """What the scenario is about: `value` beside the `expected` bound, in words of `meaning`."""

    scenario: str
    meaning: str
    value: float
    expected: str
    met: bool | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """All that one scenario measured."""

    figures: tuple[Figure, ...]
    ratios: tuple[Ratio, ...] = ()

    def as_json(self) -> dict[str, list[dict[str, object]]]:
        return {"figures": [asdict(f) for f in self.figures], "ratios": [asdict(r) for r in self.ratios]}


def take_turns(
    scenario: str, contestants: dict[str, Run], rounds: int, *, repeat: int = 1
) -> dict[str, Figure]:
    """Time each contestant once per round, in rotating order so that none always follows the same one.

    A turn is `repeat` operations in a row, so that short ones are not measured by how fast a process wakes up.
    """
    names = list(contestants)
    times: dict[str, list[float]] = {name: [] for name in names}
    for round_ in range(-WARM_UP_ROUNDS, rounds):
        gc.collect()
        first = round_ % len(names)
        for name in names[first:] + names[:first]:
            run = contestants[name]
            started = time.perf_counter()
            own = 0.0
            for _ in range(repeat):
                told = run()
                own += told if isinstance(told, float) else 0.0
            spent = (own or (time.perf_counter() - started) * 1000) / repeat
            if round_ >= 0:
                times[name].append(spent)
    return {name: _figure(scenario, name, values) for name, values in times.items()}


def _figure(scenario: str, contestant: str, times: list[float]) -> Figure:
    ordered = sorted(times)
    p95 = ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))]
    median = statistics.median(ordered)
    return Figure(scenario, contestant, round(median, 3), round(ordered[0], 3), round(p95, 3), len(ordered))


def show(outcomes: list[Outcome], console: Console) -> None:
    """Print figures and ratios as two tables."""
    table = Table("scenario", "contestant", "median ms", "best ms", "p95 ms", "rounds")
    for outcome in outcomes:
        for f in outcome.figures:
            table.add_row(
                f.scenario,
                f.contestant,
                f"{f.median_ms:.2f}",
                f"{f.best_ms:.2f}",
                f"{f.p95_ms:.2f}",
                str(f.rounds),
            )
        table.add_section()
    console.print(table)
    table = Table("scenario", "ratio", "value", "expected", "")
    for outcome in outcomes:
        for r in outcome.ratios:
            met = {True: "met", False: "not met", None: ""}[r.met]
            table.add_row(r.scenario, r.meaning, f"{r.value:.2f}", r.expected, met)
    console.print(table)
