"""The scenarios that go through the whole gateway: the hop, chains, and chains against FastMCP's code mode.

Each scenario connects its contestants at the same time and measures them in turns.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tests.benchmarks.contestants import (
    PLAIN_SERVER,
    PYTHON_BACKEND,
    SDK_SERVER,
    chain,
    direct,
    echo,
    execute,
    fastmcp,
    gatemini,
    json_call,
    stdio_backend,
)
from tests.benchmarks.measure import Figure, Outcome, Ratio, Run, take_turns

SHORT = 20
"""Operations to a turn where one takes a few milliseconds."""

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


def hop(rounds: int) -> Outcome:
    """What one JSON call pays for going through the gateway, beside what FastMCP's proxy adds."""
    return _hop("hop", PLAIN_SERVER, rounds)


def hop_sdk(rounds: int) -> Outcome:
    """The same to a backend that the SDK serves."""
    return _hop("hop_sdk", SDK_SERVER, rounds)


def _hop(scenario: str, server: Path, rounds: int) -> Outcome:
    with (
        direct(server) as straight,
        gatemini(stdio_backend(server)) as gate,
        fastmcp("proxy", server) as proxy,
    ):
        contestants: dict[str, Run] = {
            "direct": partial(echo, straight, 1),
            "gatemini": partial(json_call, gate, 1),
            "fastmcp proxy": partial(echo, proxy, 1),
        }
        figures = take_turns(scenario, contestants, rounds, repeat=SHORT)
    base = figures["direct"].median_ms
    ours, theirs = figures["gatemini"].median_ms - base, figures["fastmcp proxy"].median_ms - base
    ratio = ours / theirs if theirs > 0 else float("inf")
    meaning = f"time added by gatemini ({ours:.2f} ms) / by FastMCP's proxy ({theirs:.2f} ms)"
    return Outcome(
        tuple(figures.values()), (Ratio(scenario, meaning, round(ratio, 3), "<= 0.4", ratio <= 0.4),)
    )


def inprocess(rounds: int) -> Outcome:
    """Chains in the sandbox with 0, 1 and 100 calls to a backend in the gateway's own process."""
    with gatemini(PYTHON_BACKEND) as gate:
        short: dict[str, Run] = {
            "empty chain": partial(chain, gate, EMPTY, 2),
            "1 call": partial(chain, gate, ONE, 1),
        }
        long: dict[str, Run] = {
            "100 sequential": partial(chain, gate, sequential(100), 4950),
            "100 parallel": partial(chain, gate, parallel(100), 4950),
        }
        figures = take_turns("inprocess", short, rounds, repeat=SHORT)
        figures |= take_turns("inprocess", long, rounds)
    return Outcome(tuple(figures.values()))


def codemode(rounds: int) -> Outcome:
    """Whole programs over stdio against FastMCP's code mode, both on the same stdio backend."""
    return _codemode("codemode", PLAIN_SERVER, rounds)


def codemode_sdk(rounds: int) -> Outcome:
    """The same with a backend on the SDK; both contestants include its time."""
    return _codemode("codemode_sdk", SDK_SERVER, rounds)


def _codemode(name: str, server: Path, rounds: int) -> Outcome:
    programs: list[tuple[str, str, str, int, float, int]] = [
        ("empty", EMPTY, PYTHON_EMPTY, 2, 4, SHORT),
        ("1 call", ONE, PYTHON_ONE, 1, 3.5, SHORT),
        ("50 sequential", sequential(50), python_sequential(50), 1225, 4, 1),
        ("50 parallel", parallel(50), python_parallel(50), 1225, 9, 1),
        ("100 sequential", sequential(100), python_sequential(100), 4950, 5, 1),
        ("100 parallel", parallel(100), python_parallel(100), 4950, 5, 1),
    ]
    figures: list[Figure] = []
    ratios: list[Ratio] = []
    with gatemini(stdio_backend(server)) as gate, fastmcp("code", server) as rival:
        for program, ours, theirs, expected, factor, repeat in programs:
            scenario = f"{name}: {program}"
            contestants: dict[str, Run] = {
                "gatemini": partial(chain, gate, ours, expected),
                "fastmcp code mode": partial(execute, rival, theirs, expected),
            }
            pair = take_turns(scenario, contestants, rounds, repeat=repeat)
            figures.extend(pair.values())
            ratio = pair["fastmcp code mode"].median_ms / pair["gatemini"].median_ms
            ratios.append(
                Ratio(
                    scenario, "times faster than FastMCP", round(ratio, 2), f">= {factor:g}", ratio >= factor
                )
            )
    return Outcome(tuple(figures), tuple(ratios))
