"""Output reduction on twelve payloads: bytes in and out, what can still be answered, and speed.

    python tests/benchmarks/output.py            # the payload table and the speeds
    python tests/benchmarks/output.py --show 3   # also the first characters an agent sees of payload 3

No thresholds here: the numbers are for docs/benchmarks.md; what must hold is in `tests/output`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from data.payloads.shapes import WORDS, Payload, Seen, payloads
from gatemini.output.pipeline import OutputOptions, Reduced, reduce_output
from gatemini.output.results import ResultStore

DEFAULT_CLIENT = OutputOptions(max_chars=100_000)
"""What an unknown client gets: under 25,000 tokens."""
REPEATS = 7


def answered(payload: Payload, answer: Reduced, store: ResultStore) -> tuple[int, int]:
    """(questions answered from the visible text, questions answered with one step more)."""
    seen = Seen(answer.text)
    if payload.is_json:
        seen.json = json.loads(answer.text)
    at_once = with_step = 0
    for question in payload.questions:
        try:
            found = question.visible(seen)
        except (KeyError, IndexError, TypeError):
            found = None
        if found == question.expected:
            at_once += 1
            with_step += 1
        elif answer.handle is not None:
            with_step += question.stored(store.load(answer.handle)) == question.expected
    return at_once, with_step


def table(show: int | None) -> None:
    print(f"{'payload':24}{'KB in':>9}{'KB out':>9}{'less':>8}   answered at once / with one step, of 3")
    shares = []
    for number, payload in enumerate(payloads(), 1):
        store = ResultStore()
        answer = reduce_output(payload.text, is_json=payload.is_json, options=DEFAULT_CLIENT, store=store)
        at_once, with_step = answered(payload, answer, store)
        share = 100 * (1 - answer.bytes_out / answer.bytes_in)
        shares.append(share)
        print(
            f"{payload.name:24}{answer.bytes_in / 1024:9.1f}{answer.bytes_out / 1024:9.1f}{share:7.1f}%   "
            f"{at_once} / {with_step}"
        )
        if show == number:
            print(answer.text[:6000], *answer.notes, answer.footer, sep="\n")
    print(f"{'median':42}{statistics.median(shares):7.1f}%\n")


def rows_of(size: int) -> list[dict[str, Any]]:
    row = {
        "id": 0,
        "name": "user number 0",
        "score": 0.37,
        "active": True,
        "city": "Rome",
        "at": "2026-01-01T10:00:00Z",
    }
    count = size // len(json.dumps(row, separators=(",", ":")))
    return [
        {**row, "id": n, "name": f"user number {n}", "score": n * 0.37, "active": n % 3 == 0}
        for n in range(count)
    ]


def map_of(size: int) -> dict[str, Any]:
    """Like the metadata of a package: one object of many objects, and no long array in it."""
    return {
        f"package-{n}": {
            "version": f"1.{n}.0",
            "dist": {"shasum": f"{n:040x}", "tarball": f"https://packages.example/package-{n}.tgz"},
            "dependencies": {"left": "^1.0.0", "right": "^2.0.0"},
        }
        for n in range(size // 193)
    }


def speeds() -> None:
    text_100k = "\n\n".join(" ".join(WORDS[(n + k) % len(WORDS)] for k in range(60)) for n in range(280))
    ten_mb = json.dumps(rows_of(10 << 20), separators=(",", ":"))
    cases: list[tuple[str, str, bool, OutputOptions]] = [
        ("10 MB of JSON rows", ten_mb, True, DEFAULT_CLIENT),
        (
            "10 MB, wrapped in an object",
            '{"meta":{"a":1},"items":' + ten_mb + ',"total":1}',
            True,
            DEFAULT_CLIENT,
        ),
        ("10 MB with an intent", ten_mb, True, OutputOptions(max_chars=100_000, intent="user number 4711")),
        (
            "10 MB, one object of objects",
            json.dumps(map_of(10 << 20), separators=(",", ":")),
            True,
            DEFAULT_CLIENT,
        ),
        (
            "1 MB, one object of objects",
            json.dumps(map_of(1 << 20), separators=(",", ":")),
            True,
            DEFAULT_CLIENT,
        ),
        (
            "10 MB of numbers",
            json.dumps([n * 13 for n in range(1_250_000)], separators=(",", ":")),
            True,
            DEFAULT_CLIENT,
        ),
        (
            "1 MB of numbers",
            json.dumps([n * 13 for n in range(145_000)], separators=(",", ":")),
            True,
            DEFAULT_CLIENT,
        ),
        ("1 MB of JSON rows", json.dumps(rows_of(1 << 20), separators=(",", ":")), True, DEFAULT_CLIENT),
        ("100 KB of JSON rows", json.dumps(rows_of(100 << 10), separators=(",", ":")), True, DEFAULT_CLIENT),
        (
            "100 KB of text, with an intent",
            text_100k,
            False,
            OutputOptions(intent="token retry budget rollout"),
        ),
        (
            "1 KB of JSON (untouched)",
            json.dumps(rows_of(1 << 10), separators=(",", ":")),
            True,
            DEFAULT_CLIENT,
        ),
    ]
    print(f"{'speed':34}{'median CPU ms':>15}{'best':>9}{'peak memory':>14}")
    for name, text, is_json, options in cases:
        times = []
        for _ in range(REPEATS):
            store = ResultStore()
            began = time.thread_time()  # no other thread works for it: on an idle machine the elapsed time
            reduce_output(text, is_json=is_json, options=options, store=store)
            times.append((time.thread_time() - began) * 1000)
        tracemalloc.start()
        reduce_output(text, is_json=is_json, options=options, store=ResultStore())
        peak = tracemalloc.get_traced_memory()[1] / len(text)
        tracemalloc.stop()
        print(f"{name:34}{statistics.median(times):15.2f}{min(times):9.2f}{peak:13.2f}x")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--show", type=int, help="print what is seen of payload N")
    table(parser.parse_args().show)
    speeds()


if __name__ == "__main__":
    main()
