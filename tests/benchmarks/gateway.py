"""The scenarios that go through the whole gateway: the hop, chains, and chains against FastMCP's code mode.

Above: `__main__.py`. Below: `contestants.py`, `measure.py`. Each scenario connects its contestants at the same
time and measures them in turns.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from mcp import Client
from tests.benchmarks.contestants import (
    PYTHON_BACKEND,
    STDIO_BACKEND,
    chain,
    direct,
    echo,
    execute,
    fastmcp,
    gatemini,
    json_call,
)
from tests.benchmarks.measure import Figure, Outcome, Ratio, Run, take_turns

EMPTY = "const n: number = 1;\nif (n) { return n + 1; }"
ONE = "const n: number = 1;\nconst r = await demo.echo({ n });\nif (r) { return r.n; }"


def sequential(calls: int) -> str:
    return (
        f"let sum = 0;\nfor (let n = 0; n < {calls}; n++) {{\n"
        "  const r = await demo.echo({ n });\n  sum += r.n;\n}\nreturn sum;"
    )


def parallel(calls: int) -> str:
    return (
        f"const all = await Promise.all(Array.from({{ length: {calls} }}, (_, n) => demo.echo({{ n }})));\n"
        "return all.reduce((sum, r) => sum + r.n, 0);"
    )


PYTHON_EMPTY = "n = 1\nreturn n + 1"
PYTHON_ONE = "n = 1\nr = await call_tool('echo', {'n': n})\nreturn r['n']"


def python_sequential(calls: int) -> str:
    return (
        f"total = 0\nfor n in range({calls}):\n"
        "    r = await call_tool('echo', {'n': n})\n    total += r['n']\nreturn total"
    )


def python_parallel(calls: int) -> str:
    return (
        f"import asyncio\nrs = await asyncio.gather(*[call_tool('echo', {{'n': n}}) for n in range({calls})])\n"
        "return sum([r['n'] for r in rs])"
    )


async def hop(rounds: int) -> Outcome:
    """What one JSON call pays for going through the gateway, beside what FastMCP's proxy adds."""
    async with direct() as straight, gatemini(STDIO_BACKEND) as gate, fastmcp("proxy") as proxy:
        figures = await take_turns(
            "hop",
            {
                "direct": partial(_each, echo, straight),
                "gatemini": partial(_each, json_call, gate),
                "fastmcp proxy": partial(_each, echo, proxy),
            },
            rounds,
        )
    per_call = {name: _divided(figure, _HOP_CALLS) for name, figure in figures.items()}
    base = per_call["direct"].median_ms
    ours, theirs = per_call["gatemini"].median_ms - base, per_call["fastmcp proxy"].median_ms - base
    ratio = ours / theirs if theirs > 0 else float("inf")
    meaning = f"time added by gatemini ({ours:.2f} ms) / by FastMCP's proxy ({theirs:.2f} ms)"
    return Outcome(
        tuple(per_call.values()), (Ratio("hop", meaning, round(ratio, 3), "<= 0.5", ratio <= 0.5),)
    )


_HOP_CALLS = 20
"""Calls in one timed turn of the hop, so that a timer's grain and one late wake-up do not show."""


async def _each(call: Callable[[Client, int], Awaitable[None]], client: Client) -> None:
    for n in range(_HOP_CALLS):
        await call(client, n)


def _divided(figure: Figure, by: int) -> Figure:
    return Figure(
        figure.scenario,
        figure.contestant,
        round(figure.median_ms / by, 4),
        round(figure.p95_ms / by, 4),
        figure.rounds,
    )


async def inprocess(rounds: int) -> Outcome:
    """Chains in the sandbox with 0, 1 and 100 calls to a backend in the gateway's own process."""
    async with gatemini(PYTHON_BACKEND) as gate:
        figures = await take_turns(
            "inprocess",
            {
                "empty chain": partial(chain, gate, EMPTY, 2),
                "1 call": partial(chain, gate, ONE, 1),
                "100 sequential": partial(chain, gate, sequential(100), 4950),
                "100 parallel": partial(chain, gate, parallel(100), 4950),
            },
            rounds,
        )
    return Outcome(tuple(figures.values()))


async def codemode(rounds: int) -> Outcome:
    """Whole programs over stdio against FastMCP's code mode, both on the same stdio backend."""
    programs: list[tuple[str, str, str, int, float]] = [
        ("empty", EMPTY, PYTHON_EMPTY, 2, 3),
        ("1 call", ONE, PYTHON_ONE, 1, 4),
        ("50 sequential", sequential(50), python_sequential(50), 1225, 5),
        ("50 parallel", parallel(50), python_parallel(50), 1225, 5),
        ("100 sequential", sequential(100), python_sequential(100), 4950, 5),
        ("100 parallel", parallel(100), python_parallel(100), 4950, 5),
    ]
    figures: list[Figure] = []
    ratios: list[Ratio] = []
    async with gatemini(STDIO_BACKEND) as gate, fastmcp("code") as rival:
        for name, ours, theirs, expected, factor in programs:
            contestants: dict[str, Run] = {
                "gatemini": partial(chain, gate, ours, expected),
                "fastmcp code mode": partial(execute, rival, theirs, expected),
            }
            pair = await take_turns(f"codemode: {name}", contestants, rounds)
            figures.extend(pair.values())
            ratio = pair["fastmcp code mode"].median_ms / pair["gatemini"].median_ms
            ratios.append(
                Ratio(
                    f"codemode: {name}",
                    "times faster than FastMCP",
                    round(ratio, 2),
                    f">= {factor:g}",
                    ratio >= factor,
                )
            )
    return Outcome(tuple(figures), tuple(ratios))
