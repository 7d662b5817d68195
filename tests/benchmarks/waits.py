"""How long others wait while a large result passes: a task on the event loop that wakes every 2 ms, and `search_tools`.

A wake that comes late because other processes had the machine says nothing of the gateway, so a gap counts only as far
as this process used the processor meanwhile.
"""

from __future__ import annotations

import gc
import json
import tempfile
import time
from pathlib import Path

import anyio
from tests.benchmarks.contestants import PLAIN_SERVER, stdio_backend
from tests.benchmarks.guests import at_most, figure, running_app
from tests.benchmarks.measure import Figure, Outcome, Ratio

from gatemini.app import App

SHAPES = ("rows", "text", "structured", "numbers", "objects")
SIZES = (10, 40)
MB = 1_000_000
WAKE_SECONDS = 0.002
MOST_MS = 20.0
MOST_ROUNDS = 5
"""Of each size and shape: one takes seconds."""
TIMEOUT_MS = 300_000


class Watch:
    """The gaps, in ms, between two wakes of a task, each no longer than the CPU time the process used in it."""

    def __init__(self) -> None:
        self.gaps: list[float] = []

    async def run(self) -> None:
        woke, used = time.perf_counter(), time.process_time()
        while True:
            await anyio.sleep(WAKE_SECONDS)
            now, cpu = time.perf_counter(), time.process_time()
            self.gaps.append(min(now - woke, cpu - used) * 1000)
            woke, used = now, cpu

    def longest(self) -> float:
        """The longest gap since the last call, in milliseconds."""
        gaps, self.gaps = self.gaps, []
        return max(gaps, default=0.0)


def waits(rounds: int) -> Outcome:
    """The longest gap for each shape and size, and the 99th percentile of searches while they pass."""
    return anyio.run(_waits, min(rounds, MOST_ROUNDS))


async def _waits(rounds: int) -> Outcome:
    figures: list[Figure] = []
    ratios: list[Ratio] = []
    with tempfile.TemporaryDirectory() as folder:
        async with (
            running_app(Path(folder), {**stdio_backend(PLAIN_SERVER), "timeout": "300s"}) as app,
            anyio.create_task_group() as group,
        ):
            gc.collect()
            watch = Watch()
            group.start_soon(watch.run)
            for size in SIZES:
                for shape in SHAPES:
                    gaps = await _passing(app, watch, shape, size, rounds)
                    made = figure("waits: JSON call", f"{size} MB of {shape}", gaps)
                    figures.append(made)
                    meaning = f"longest gap, ms of CPU time: {made.contestant}"
                    ratios.append(at_most(made.scenario, meaning, max(gaps), MOST_MS))
                searches = await _searches(app, size)
                made = figure("waits: search_tools", f"beside {size} MB", searches)
                figures.append(made)
                p99 = sorted(searches)[round(0.99 * (len(searches) - 1))]
                ratios.append(at_most(made.scenario, f"p99 ms beside {size} MB", p99, MOST_MS))
            group.cancel_scope.cancel()
    return Outcome(tuple(figures), tuple(ratios))


async def _passing(app: App, watch: Watch, shape: str, size: int, rounds: int) -> list[float]:
    gaps = []
    for round_ in range(-1, rounds):  # the server makes the result in the first, which does not count
        watch.longest()
        await _result(app, shape, size)
        if round_ >= 0:
            gaps.append(watch.longest())
    return gaps


async def _result(app: App, shape: str, size: int) -> None:
    code = json.dumps({"tool": "demo.rows", "arguments": {"bytes": size * MB, "shape": shape}})
    result = await app.call_meta_tool("call_tool_chain", {"code": code, "timeout": TIMEOUT_MS})
    text = "\n".join(block.get("text", "") for block in result["content"])
    if result["isError"] or "full result: res_" not in text:
        raise SystemExit(f"no reduced result: {text[:200]}")


async def _searches(app: App, size: int) -> list[float]:
    """Milliseconds of searches, one after the other, while one result of every shape passes."""
    times: list[float] = []

    async def search() -> None:
        while True:
            started = time.perf_counter()
            await app.call_meta_tool("search_tools", {"task_description": f"rows {len(times)}"})
            times.append((time.perf_counter() - started) * 1000)
            await anyio.sleep(WAKE_SECONDS)

    async with anyio.create_task_group() as group:
        group.start_soon(search)
        for shape in SHAPES:
            await _result(app, shape, size)
        group.cancel_scope.cancel()
    return times
