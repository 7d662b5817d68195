"""Sixty-four clients of three revisions on four replicas, while replicas and Redis are ended under them.

`LOAD_SECONDS=300 python -m pytest -s -m load tests/load` is the full run; LOAD_CLIENTS and LOAD_REPLICAS may differ too.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest
from rich.console import Console
from rich.table import Table
from tests.benchmarks.contestants import PLAIN_SERVER, stdio_backend
from tests.benchmarks.gateway import ONE, PYTHON_ONE
from tests.benchmarks.http import RIVALS, listening_process

from fixtures.daemons import WAIT_SECONDS
from fixtures.load_clients import REVISIONS, PlainClient, Tally, Writer, clients_at_work
from fixtures.ports import free_port
from fixtures.replicas import Cluster, Replica, cluster

pytestmark = pytest.mark.load

SECONDS = float(os.environ.get("LOAD_SECONDS", "30"))
CLIENTS = int(os.environ.get("LOAD_CLIENTS", "64"))
REPLICAS = int(os.environ.get("LOAD_REPLICAS", "4"))
MOST_ERRORS = 3
"""Chains of each client that may end with an error: a kill, a restart and Redis each cut off what is in flight."""
TURNS = 3
"""Times that the gateway and its rival are measured, in turn."""


def restart(replica: Replica) -> None:
    """End it as an update does, and start it again."""
    replica.signal(signal.SIGTERM)
    assert replica.process is not None
    replica.process.wait(WAIT_SECONDS)
    replica.start()
    replica.wait()


def disturb(found: Cluster, until: Callable[[float], None]) -> None:
    """Kill one, restart all in turn, restart Redis; `until` waits for a part of the run."""
    until(0.15)
    found.replicas[0].kill()
    until(0.25)
    found.replicas[0].start()
    found.replicas[0].wait()
    for number, replica in enumerate(found.replicas):
        until(0.3 + 0.4 * number / len(found.replicas))
        restart(replica)
    until(0.8)
    found.redis.stop()
    found.redis.start()
    until(1.0)


def test_nothing_is_lost_crossed_or_written_twice(tmp_path: Path) -> None:
    tally = Tally()
    began = time.monotonic()

    def until(part: float) -> None:
        time.sleep(max(0.0, began + part * SECONDS - time.monotonic()))

    with cluster(tmp_path, REPLICAS) as found:

        def run(number: int, stop: threading.Event) -> None:
            client = PlainClient(found.url, REVISIONS[number % len(REVISIONS)], f"c{number}")
            writer, numbers = Writer(client, tally), itertools.count()
            try:
                while not stop.is_set():
                    writer.write(next(numbers))
            finally:
                tally.repeated.append(client.repeated)
                client.close()

        began = time.monotonic()
        with clients_at_work(run, CLIENTS):
            disturb(found, until)
        seconds = time.monotonic() - began
        ledger = Counter(found.writes())
    lost = [key for key in tally.done if not ledger[key]]
    twice = [key for key, times in ledger.items() if times > 1]
    show(
        {
            "clients, replicas, seconds": f"{CLIENTS}, {REPLICAS}, {seconds:.0f}",
            "chains answered as done": len(tally.done),
            "… a second": round(len(tally.done) / seconds, 1),
            "requests sent again": sum(tally.repeated),
            "chains resumed": len(tally.resumed),
            "answered by an error": dict(tally.reasons()),
            "lost, crossed, written twice": f"{len(lost)}, {len(tally.crossed)}, {len(twice)}",
        }
    )
    assert len(tally.done) > CLIENTS
    assert len(tally.untold) <= MOST_ERRORS * CLIENTS
    assert (lost, tally.crossed, twice) == ([], [], [])


def test_a_gateway_runs_three_times_the_chains_of_fastmcps_code_mode(tmp_path: Path) -> None:
    """Replicas are measured in the same run; what they gain or lose depends on the number of cores."""
    config, ports = tmp_path / "config.yaml", (free_port(), free_port())
    backends = {"demo": stdio_backend(PLAIN_SERVER)}
    config.write_text(json.dumps({"cache_path": f"{tmp_path}/cache.json", "backends": backends}))
    one = ["-m", "gatemini", "serve", "--http", f"127.0.0.1:{ports[0]}", "-c", str(config)]
    rival = [str(RIVALS), "code", str(ports[1]), str(PLAIN_SERVER)]
    with (
        cluster(tmp_path, REPLICAS, backends) as found,
        listening_process(one, ports[0]),
        listening_process(rival, ports[1]),
    ):
        alone, theirs = (f"http://127.0.0.1:{port}/mcp" for port in ports)
        ours = ("call_tool_chain", ONE)
        contestants = {
            "one gateway": (opened(alone, REVISIONS), *ours),
            f"{REPLICAS} replicas with Redis": (opened(found.url, REVISIONS), *ours),
            "FastMCP's code mode": (opened(theirs, REVISIONS[1:2]), "execute", PYTHON_ONE),
        }
        # In the first turn every replica meets every session.
        turns = [
            {name: chains_a_second(*each) for name, each in contestants.items()} for _ in range(1 + TURNS)
        ]
        for clients, *_ in contestants.values():
            for client in clients:
                client.close()
    medians = {name: median(turn[name] for turn in turns[1:]) for name in contestants}
    slowest = medians["FastMCP's code mode"]
    show({name: f"{value} chains a second, × {value / slowest:.2f}" for name, value in medians.items()})
    assert medians["one gateway"] >= 3 * slowest


def opened(url: str, revisions: tuple[str, ...]) -> list[PlainClient]:
    """All clients with a session each."""
    return [PlainClient(url, revisions[number % len(revisions)], f"c{number}") for number in range(CLIENTS)]


def chains_a_second(clients: list[PlainClient], tool: str, code: str) -> float:
    """How many chains of one call all clients together get answered in a second."""
    answered: list[int] = []

    def run(number: int, stop: threading.Event) -> None:
        count = 0
        while not stop.is_set():
            result = clients[number].call(tool, {"code": code})
            assert str(result["content"][0]["text"]).strip() == "1", result
            count += 1
        answered.append(count)

    began = time.monotonic()
    with clients_at_work(run, CLIENTS):
        time.sleep(SECONDS / 2 / TURNS)
    return round(sum(answered) / (time.monotonic() - began), 1)


def show(rows: dict[str, object]) -> None:
    table = Table("what", "figure")
    for name, value in rows.items():
        table.add_row(name, str(value))
    Console(file=sys.stdout, width=120).print(table)
