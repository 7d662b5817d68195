"""One large result, from the backend through the gateway to the client's answer: 5, 10, 20 and 40 MB.

The gateway answers with a reduced result and keeps the whole under a handle; the rival passes all of it on.
"""

from __future__ import annotations

import json
from functools import partial

from tests.benchmarks.client import Client
from tests.benchmarks.contestants import PLAIN_SERVER, direct, fastmcp, gatemini, stdio_backend
from tests.benchmarks.measure import Figure, Outcome, Ratio, Run, take_turns

SIZES = (5, 10, 20, 40)
RIVAL_SIZES = (5, 10)
"""The rival's time grows with the square of the size: 40 MB would take it most of a minute."""
MOST_MS = 1200.0
LINEAR = 1.3
"""Eight times the size may take so many times eight times as long."""
MB = 1_000_000


def large(rounds: int) -> Outcome:
    """A JSON call with a result of this size, and the same through FastMCP's proxy and without anything between."""
    figures: list[Figure] = []
    with (
        direct(PLAIN_SERVER) as straight,
        gatemini(stdio_backend(PLAIN_SERVER)) as gate,
        fastmcp("proxy", PLAIN_SERVER) as proxy,
    ):
        medians: dict[int, dict[str, float]] = {}
        for size in SIZES:
            contestants: dict[str, Run] = {
                "direct": partial(_rows, straight, size * MB),
                "gatemini": partial(_reduced, gate, size * MB),
            }
            if size in RIVAL_SIZES:
                contestants["fastmcp proxy"] = partial(_rows, proxy, size * MB)
            turns = take_turns(f"large: {size} MB", contestants, rounds)
            figures.extend(turns.values())
            medians[size] = {name: figure.median_ms for name, figure in turns.items()}
    small, big = medians[SIZES[0]]["gatemini"], medians[SIZES[-1]]["gatemini"]
    growth = big / small / (SIZES[-1] / SIZES[0])
    theirs = medians[RIVAL_SIZES[-1]]
    return Outcome(
        tuple(figures),
        (
            Ratio("large", "ms for 40 MB, end to end", round(big), f"<= {MOST_MS:.0f}", big <= MOST_MS),
            Ratio(
                "large",
                "time of 40 MB / (8 x time of 5 MB)",
                round(growth, 2),
                f"<= {LINEAR}",
                growth <= LINEAR,
            ),
            Ratio(
                "large: 10 MB",
                "times faster than FastMCP's proxy",
                round(theirs["fastmcp proxy"] / theirs["gatemini"], 2),
                "reported",
                None,
            ),
        ),
    )


def _rows(client: Client, size: int) -> None:
    result = client.call_tool("rows", {"bytes": size})
    if len(result["content"][0]["text"]) < size * 0.99:
        raise RuntimeError("the result is not all there")


def _reduced(client: Client, size: int) -> None:
    code = json.dumps({"tool": "demo.rows", "arguments": {"bytes": size}})
    result = client.call_tool("call_tool_chain", {"code": code})
    text = "".join(block.get("text", "") for block in result["content"])
    if result["isError"] or '"total_rows":' not in text:
        raise RuntimeError(f"no reduced result: {text[:200]}")
