"""Measure the first chain of a new process with the compiled guest in the cache: the wait after the handshake.

The gateway warms its sandbox while the client says hello; whatever of that is left counts here, and so does all that
the first chain is the first to meet: the parser, TypeScript, a worker thread.
"""

from __future__ import annotations

import json
import tempfile
import time
from functools import partial
from pathlib import Path

from tests.benchmarks.client import connected
from tests.benchmarks.contestants import PLAIN_SERVER, stdio_backend
from tests.benchmarks.measure import Outcome, Ratio, Run, take_turns
from tests.benchmarks.warm import IMPORTS, run_python

MOST_MS = 150.0
CODE = "const wanted: number = 7;\nif (wanted) { return wanted; }"


def cold(rounds: int) -> Outcome:
    """From the answer of `initialize` to the answer of the first chain, in a new process each time."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.yaml"
        backends = {"demo": stdio_backend(PLAIN_SERVER)}
        config.write_text(json.dumps({"cache_path": f"{folder}/cache.json", "backends": backends}))
        _first_chain(config)  # fills the cache
        contestants: dict[str, Run] = {
            "imports alone": partial(run_python, IMPORTS),
            "first chain after the handshake": partial(_first_chain, config),
        }
        figures = take_turns("cold", contestants, rounds)
    imports, answered = (figures[name].median_ms for name in contestants)
    meaning = (
        f"ms from the server's first answer to that of the first chain (imports before it: {imports:.0f} ms)"
    )
    return Outcome(
        tuple(figures.values()), (Ratio("cold", meaning, round(answered), "<= 150", answered <= MOST_MS),)
    )


def _first_chain(config: Path) -> float:
    """Milliseconds of the chain; the start of the process is not counted."""
    with connected(["-m", "gatemini", "--direct", "-c", str(config)]) as client:
        started = time.perf_counter()
        result = client.call_tool("call_tool_chain", {"code": CODE})
        spent = (time.perf_counter() - started) * 1000
    if result["content"][0]["text"] != "7":
        raise RuntimeError(f"wrong answer: {result}")
    return spent
