"""The start with a warm cache: how long an agent waits for its first `search_tools` (issue: at most 400 ms of it
are the gateway's own, the rest is Python importing the SDK).

Thirty backends and 2,820 tools are in the cache, and no backend ever answers: what is found comes from the cache.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from tests.benchmarks.client import Client, connected
from tests.benchmarks.contestants import PLAIN_SERVER
from tests.benchmarks.measure import Outcome, Ratio, Run, take_turns

BACKENDS = 30
MORE_TOOLS = 92
"""Of each backend, beside the two that every plain server has."""
ALL_TOOLS = BACKENDS * (MORE_TOOLS + 2)
MOST_MS = 400.0
LISTED_SECONDS = 60.0
"""Bounds the first start, in which all backends are listed and the cache is filled."""
LOOK_SECONDS = 0.2

IMPORTS = "import gatemini.direct_mode"
"""All that the gateway imports before it does anything: the SDK, wasmtime, pydantic."""


def warm(rounds: int) -> Outcome:
    """From the start of the process to the first answer of `search_tools`, beside its imports alone."""
    with tempfile.TemporaryDirectory() as folder:
        config, silence = Path(folder) / "config.yaml", Path(folder) / "silence"
        args = ["-P", str(PLAIN_SERVER), str(MORE_TOOLS), str(silence)]
        backends = {f"b{number:02d}": {"command": sys.executable, "args": args} for number in range(BACKENDS)}
        config.write_text(json.dumps({"cache_path": f"{folder}/cache.json", "backends": backends}))
        with _gateway(config) as client:
            _wait_until_listed(client)
        silence.touch()
        contestants: dict[str, Run] = {
            "imports alone": partial(run_python, IMPORTS),
            "first search_tools answered": partial(_first_search, config),
        }
        figures = take_turns("warm", contestants, rounds)
    imports, answered = (figures[name].median_ms for name in contestants)
    own = answered - imports
    meaning = (
        f"ms from the end of the imports ({imports:.0f} ms) to the first answer, {ALL_TOOLS} cached tools"
    )
    return Outcome(tuple(figures.values()), (Ratio("warm", meaning, round(own), "<= 400", own <= MOST_MS),))


def _gateway(config: Path) -> AbstractContextManager[Client]:
    return connected(["-m", "gatemini", "--direct", "-c", str(config)])


def run_python(code: str) -> None:
    """A new interpreter that runs the code and nothing else."""
    subprocess.run([sys.executable, "-P", "-c", code], check=True, timeout=LISTED_SECONDS)


def _first_search(config: Path) -> float:
    """Milliseconds until the answer; the end of the gateway is not counted."""
    started = time.perf_counter()
    with _gateway(config) as client:
        found = _search(client)
        spent = (time.perf_counter() - started) * 1000
        if any(backend["state"] == "healthy" for backend in _backends(client)):
            raise RuntimeError("a backend was connected: the answer need not be the cache's")
    if "invoice" not in json.dumps(found):
        raise RuntimeError(f"nothing was found: {found}")
    return spent


def _search(client: Client) -> object:
    result = client.call_tool("search_tools", {"task_description": "archive an invoice"})
    return orjson.loads(result["content"][0]["text"])


def _wait_until_listed(client: Client) -> None:
    ends = time.monotonic() + LISTED_SECONDS
    while time.monotonic() < ends:
        if sum(backend["tools"] for backend in _backends(client)) == ALL_TOOLS:
            return
        time.sleep(LOOK_SECONDS)
    raise RuntimeError(f"{ALL_TOOLS} tools were not listed within {LISTED_SECONDS:g} s")


def _backends(client: Client) -> list[dict[str, Any]]:
    read = client.request("resources/read", {"uri": "gatemini://backends"})
    backends: list[dict[str, Any]] = orjson.loads(read["contents"][0]["text"])["backends"]
    return backends
