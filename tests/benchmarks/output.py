"""Output reduction on nineteen payloads: bytes in and out, what can still be answered, and speed.

    python tests/benchmarks/output.py            # the payload table and the speeds
    python tests/benchmarks/output.py --show 3   # also the first characters an agent sees of payload 3

The bars are printed beside the numbers, which are for docs/benchmarks.md; what must hold is in `tests/output`.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from data.payloads.services import services
from data.payloads.shapes import WORDS, Payload, Seen, payloads
from gatemini.output.options import OutputOptions
from gatemini.output.pipeline import Reduced, reduce_output
from gatemini.output.store.results import ResultStore

DEFAULT_CLIENT = OutputOptions(max_chars=100_000)
"""What an unknown client gets: under 25,000 tokens."""
REPEATS = 7
MOST_MS = {"rows": 100, "rows of forty shapes": 150, "objects in objects in objects": 120}
"""CPU milliseconds that 10 MB of these may take without an intent."""


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
    for number, payload in enumerate([*payloads(), *services()], 1):
        store = ResultStore()
        answer = reduce_output(payload.text, options=DEFAULT_CLIENT, store=store)
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


def issues_of(size: int) -> list[dict[str, Any]]:
    """Rows with objects and arrays of objects in them, and texts with escapes."""
    return [
        {
            "id": n,
            "user": {"login": f"u{n % 97}", "id": n % 97, "avatar": f"https://x.example/{n % 97}.png"},
            "labels": [{"id": k, "name": f"label {k}", "color": "ff0000"} for k in range(n % 4)],
            "title": f"Issue number {n} about the retry budget",
            "body": 'The token budget is "exhausted"\nwhen rollout starts. ' * (n % 5),
            "comments": n % 13,
        }
        for n in range(size // 355)
    ]


def ragged_of(size: int) -> list[dict[str, Any]]:
    """Rows of forty shapes."""
    return [
        {**{f"f{(n * 7 + k) % 40}": n * k for k in range(6)}, "kind": f"k{n % 3}"} for n in range(size // 84)
    ]


def groups_of(size: int) -> dict[str, Any]:
    """Objects in objects in objects."""
    return {
        f"group-{n}": {
            "meta": {"n": n},
            "items": {
                f"item-{n}-{k}": {
                    "spec": {"image": f"img:{k}", "env": {"A": "1", "B": str(n)}, "ports": [80, 443]},
                    "status": {"phase": "Running", "restarts": k},
                }
                for k in range(40)
            },
        }
        for n in range(size // 4930)
    }


def tree_of(depth: int, number: int) -> dict[str, Any]:
    children = [tree_of(depth - 1, number * 4 + k) for k in range(4)] if depth else []
    return {"name": f"n{number}", "value": number / 8, "children": children}


def trees_of(size: int) -> dict[str, Any]:
    """Trees six levels deep: a bracket every ten bytes."""
    return {"root": {"tree": [tree_of(5, n) for n in range(size // 69_000)], "ok": True}}


def paragraphs_of(size: int) -> str:
    count = size // 366
    return "\n\n".join(" ".join(WORDS[(n + k) % len(WORDS)] for k in range(60)) for n in range(count))


SHAPES: dict[str, tuple[Any, str, str]] = {
    "rows": (rows_of, "4711", "user number 4711"),
    "rows with objects, arrays, escapes": (issues_of, "4711", "issue number 4711"),
    "rows of forty shapes": (ragged_of, "2478", "kind k2 f7"),
    "one object of objects": (map_of, "1.471.0", "package 471"),
    "objects in objects in objects": (groups_of, "group 171", "item phase"),
    "trees, six levels deep": (trees_of, "n77", "children name value"),
    "numbers": (lambda size: [n * 13 for n in range(size // 8)], "4719", "4719"),
    "strings": (lambda size: [f"name {n:06} of things" for n in range(size // 25)], "004711", "name 004711"),
    "text": (paragraphs_of, "retry", "token retry budget rollout"),
}
"""Shape → (how it is made, an intent that few parts match, one that nearly all match: the slowest case)."""


def speeds() -> None:
    print(f"{'median CPU ms / peak memory':40}{'no intent':>20}{'few match':>20}{'nearly all match':>20}")
    for size, label in ((10 << 20, "10 MB"), (1 << 20, "1 MB"), (100 << 10, "100 KB")):
        for name, (make, few, most) in SHAPES.items():
            made = make(size)
            text = made if isinstance(made, str) else json.dumps(made, separators=(",", ":"))
            del made
            cells = [measured(text, intent) for intent in (None, few, most)]
            bar = f"  <= {MOST_MS[name]} ms" if size == 10 << 20 and name in MOST_MS else ""
            print(f"{f'{label} {name}':40}" + "".join(f"{ms:12.1f} {peak:6.1f}x" for ms, peak in cells) + bar)


def measured(text: str, intent: str | None) -> tuple[float, float]:
    """(median CPU milliseconds, peak memory in sizes of the text)."""
    options = OutputOptions(max_chars=DEFAULT_CLIENT.max_chars, intent=intent)
    times = []
    gc.disable()  # as in the compute process
    for _ in range(REPEATS):
        store = ResultStore()
        began = time.thread_time()  # no other thread works for it: on an idle machine the elapsed time
        reduce_output(text, options=options, store=store)
        times.append((time.thread_time() - began) * 1000)
    gc.enable()
    tracemalloc.start()
    reduce_output(text, options=options, store=ResultStore())
    peak = tracemalloc.get_traced_memory()[1] / len(text)
    tracemalloc.stop()
    return statistics.median(times), peak


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--show", type=int, help="print what is seen of payload N")
    table(parser.parse_args().show)
    speeds()


if __name__ == "__main__":
    main()
