"""What one more client costs: its proxy's start, its memory, its first answer, and the time added to a request.

FastMCP's proxy and `gatemini --direct` are measured in the same run. CPU times are those of the client's own process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.benchmarks.measure import Outcome, Ratio, Run, take_turns
from tests.fixtures.daemons import LEDGER, LEGACY, Home, home

import gatemini

EMPTY = "python -I -S -c pass"
MIB = 1 << 20
SOURCE = Path(gatemini.__file__).parents[1]
SCRIPT = Path(sys.executable).with_name("gatemini")
RIVALS = Path(__file__).with_name("rivals.py")


class Line:
    """A client that writes and reads one line at a time."""

    def __init__(self, command: list[str], environ: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environ
        )
        self.number = 0

    def ask(self, method: str, params: object = None) -> dict[str, object]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.number += 1
        request = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params or {}}
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        while True:
            message: dict[str, object] = json.loads(self.process.stdout.readline())
            if message.get("id") == self.number and "method" not in message:
                return message

    def greet(self) -> None:
        self.ask("initialize", LEGACY)
        assert self.process.stdin is not None
        self.process.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    def end(self) -> float:
        """Close stdin; the CPU milliseconds of the process."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        _, status, used = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return (used.ru_utime + used.ru_stime) * 1000


def clients(rounds: int) -> Outcome:
    with home() as place:
        place.write_config(daemon={"idle_timeout": "60s"})
        return _measured(place, rounds)


def _measured(place: Home, rounds: int) -> Outcome:
    bare = [sys.executable, "-I", "-S", "-c"]
    code = f"import sys; sys.path.insert(0, {str(SOURCE)!r}); from gatemini.proxy.stdio import main; main({str(place.config)!r})"
    script = [str(SCRIPT), "-c", str(place.config)]
    direct = [str(SCRIPT), "--direct", "-c", str(place.config)]
    environ = place.environ
    warm = Line(script, environ)
    warm.greet()
    ledger = {"name": "call_tool_chain", "arguments": {"code": '{"tool": "ledger.look", "arguments": {}}'}}
    warm.ask("tools/call", ledger)

    def first(command: list[str], *, cold: bool = False) -> float:
        if cold:
            place.run("stop", "-c", str(place.config))
        before = time.perf_counter()
        line = Line(command, environ)
        line.greet()
        line.ask("tools/list")
        took = (time.perf_counter() - before) * 1000
        line.end()
        return took

    def start(command: list[str]) -> float:
        line = Line(command, environ)
        line.ask("initialize", LEGACY)
        return line.end()

    starts = take_turns(
        "client start (CPU)",
        {
            EMPTY: lambda: Line([*bare, "pass"], environ).end(),
            "proxy": partial(start, [*bare, code]),
            "console script": partial(start, script),
        },
        max(15, rounds),
    )
    memory, hops = _memory(script, environ), _hops(place, script, direct, ledger, rounds)
    warm.end()
    firsts = take_turns(
        "first tools/list",
        {
            "daemon up": lambda: first(script),
            "--direct": lambda: first(direct),
        },
        5,
    )
    cold = take_turns("first tools/list", {"no daemon, cache warm": lambda: first(script, cold=True)}, 5)
    figures = (*starts.values(), *firsts.values(), *cold.values(), *hops.values())
    return Outcome(
        figures, (*_start_ratios(starts), *memory, *_first_ratios({**firsts, **cold}), *_hop_ratio(hops))
    )


def _start_ratios(starts: dict[str, object]) -> list[Ratio]:
    empty = starts[EMPTY].median_ms  # type: ignore[attr-defined]
    found = []
    for name, most in (("proxy", 1.3), ("console script", 2.8)):
        times = starts[name].median_ms / empty  # type: ignore[attr-defined]
        found.append(
            Ratio(
                "clients",
                f"CPU from spawn to first answer: {name} / {EMPTY}",
                times,
                f"≤ {most}",
                times <= most,
            )
        )
    return found


def _first_ratios(firsts: dict[str, object]) -> list[Ratio]:
    none, up, direct = (firsts[n].median_ms for n in ("no daemon, cache warm", "daemon up", "--direct"))  # type: ignore[attr-defined]
    return [
        Ratio("clients", "first tools/list: no daemon / daemon up", none / up, "≤ 2", none <= 2 * up),
        Ratio(
            "clients", "first tools/list: no daemon / --direct", none / direct, "≤ 0.1", none <= direct / 10
        ),
    ]


def _memory(script: list[str], environ: dict[str, str]) -> list[Ratio]:
    """PSS of one more client, with ten connected."""
    lines = [Line(script, environ) for _ in range(10)]
    for line in lines:
        line.greet()
    sizes = sorted(_pss(line.process.pid) for line in lines)
    for line in lines:
        line.end()
    size = sizes[5] / MIB
    return [Ratio("clients", "PSS of one more client, MiB", size, "≤ 5", size <= 5)]


def _pss(pid: int) -> int:
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("Pss:"))


def _hops(
    place: Home, script: list[str], direct: list[str], ledger: dict[str, object], rounds: int
) -> dict[str, object]:
    server = [sys.executable, "-I", "-S", str(LEDGER), str(place.ledger)]
    rival = [sys.executable, "-P", str(RIVALS), "proxy", str(LEDGER)]
    plain = {"name": "look", "arguments": {}}
    lines = {
        "server alone": (Line(server, place.environ), plain),
        "FastMCP's proxy": (Line(rival, place.environ), plain),
        "--direct": (Line(direct, place.environ), ledger),
        "daemon": (Line(script, place.environ), ledger),
    }
    runs: dict[str, Run] = {}
    for name, (line, call) in lines.items():
        line.greet()
        runs[name] = _calls(line, call)
    figures = take_turns("hop with a client's proxy", runs, rounds)
    for line, _ in lines.values():
        line.end()
    return dict(figures)


def _calls(line: Line, call: object) -> Callable[[], float]:
    def run() -> float:
        before = time.perf_counter()
        for _ in range(20):
            line.ask("tools/call", call)
        return (time.perf_counter() - before) * 1000 / 20

    return run


def _hop_ratio(hops: dict[str, object]) -> list[Ratio]:
    alone, rival, direct, daemon = (
        hops[n].median_ms for n in ("server alone", "FastMCP's proxy", "--direct", "daemon")
    )  # type: ignore[attr-defined]
    share = (daemon - direct) / (rival - alone)
    meaning = "added by proxy and socket / added by FastMCP's proxy"
    return [Ratio("clients", meaning, share, "≤ 0.25", share <= 0.25)]
