"""Soak and isolation, run by hand or in CI: `PYTHONPATH=tests python -P tests/backends/soak.py [seconds]`.

Thirty mixed backends, 64 clients at full speed, random kills and configuration changes: every answer must
carry its request's nonce, memory must stay flat after the warm-up, and nothing may be left running. Then the
latency of a healthy backend is measured while others misbehave. Prints a report; exit code 1 on a failure.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import random
import signal
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import psutil

from fixtures.backend_bench import odd_config
from gatemini.backends.manager import Manager
from gatemini.config.schema import BackendConfig, HealthConfig
from gatemini.errors import BackendError

CLIENTS = 64
WARM_UP_SHARE = 0.3
ALLOWED_GROWTH = 1.15
"""Resident size at the end over that after the warm-up."""


@dataclass
class Score:
    answers: int = 0
    crossed: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    kills: int = 0
    reloads: int = 0
    sizes: list[int] = field(default_factory=list)


def configs(number_of_reload: int) -> dict[str, BackendConfig]:
    """Thirty backends: processes of both eras and habits, in-process servers, commands."""
    found: list[BackendConfig] = []
    for number in range(18):
        options = [{}, {"on_discover": "modern"}, {"ids": "string", "ending": "\r\n"}, {"batch": True}][
            number % 4
        ]
        tags = (f"v{number_of_reload}",) if number == number_of_reload % 18 else ()
        found.append(odd_config(f"p{number}", options=options, tags=tags))
    for number in range(6):
        found.append(BackendConfig(name=f"m{number}", module="fixtures.demo_server:server"))
    for number in range(6):
        tool = {"command": ["echo", "{{nonce}}"], "output": "text"}
        found.append(BackendConfig.model_validate({"name": f"c{number}", "tools": {"echo": tool}}))
    return {c.name: c for c in found}


async def client(manager: Manager, score: Score, ends: float) -> None:
    names = list(configs(0))
    while time.monotonic() < ends:
        name, nonce = random.choice(names), os.urandom(8).hex()
        argument = {"x": nonce} if name[0] == "m" else {"nonce": nonce}
        try:
            outcome = await manager.call_tool(name, "echo", argument, timeout=20)
        except BackendError as error:
            score.errors[error.kind] = score.errors.get(error.kind, 0) + 1
            continue
        score.answers += 1
        if nonce not in json.dumps(outcome.result):
            score.crossed += 1


async def trouble(manager: Manager, score: Score, ends: float) -> None:
    process = psutil.Process()
    while time.monotonic() < ends:
        await anyio.sleep(1.0)
        pids = [s.pid for s in manager.statuses() if s.pid is not None]
        with contextlib.suppress(ProcessLookupError, IndexError):
            os.kill(random.choice(pids), signal.SIGKILL)
            score.kills += 1
        if score.kills % 5 == 0:
            score.reloads += 1
            await manager.apply(configs(score.reloads))
        gc.collect()
        score.sizes.append(process.memory_info().rss)


async def isolation(manager: Manager) -> tuple[float, float]:
    """p95 in ms of one healthy backend alone, and while another floods, dies and hangs."""

    async def p95(seconds: float) -> float:
        times = []
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            began = time.perf_counter()
            await manager.call_tool("p0", "echo", {"n": 1}, timeout=10)
            times.append((time.perf_counter() - began) * 1000)
            await anyio.sleep(0.005)
        return statistics.quantiles(times, n=20)[-1]

    async def nuisance(tool: str, name: str, **arguments: int) -> None:
        while True:
            with contextlib.suppress(BackendError):
                await manager.call_tool(name, tool, arguments, timeout=0.5)
            await anyio.sleep(0.1)

    before = await p95(5.0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(nuisance, "die", "p4")
        tasks.start_soon(nuisance, "hang", "p8")
        tasks.start_soon(lambda: nuisance("flood", "p12", times=20))
        tasks.start_soon(lambda: nuisance("stderr", "p16", lines=500))
        during = await p95(10.0)
        tasks.cancel_scope.cancel()
    return before, during


async def main(seconds: float) -> bool:
    score = Score()
    health = HealthConfig(max_restarts=1000, backoff_initial=0.1, interval=5)
    with TemporaryDirectory() as folder:
        manager = Manager(on_tools=lambda _n, _t: None, health=health, record_dir=Path(folder))
        async with anyio.create_task_group() as root:
            await root.start(manager.run)
            await manager.apply(configs(0))
            for name in manager.names():
                await manager.wait_ready(name, 60)
            began = time.monotonic()
            async with anyio.create_task_group() as tasks:
                for _ in range(CLIENTS):
                    tasks.start_soon(client, manager, score, began + seconds)
                tasks.start_soon(trouble, manager, score, began + seconds)
            fds = psutil.Process().num_fds()
            before, during = await isolation(manager)
            root.cancel_scope.cancel()
    left = [p for p in psutil.Process().children(recursive=True) if p.status() != psutil.STATUS_ZOMBIE]
    zombies = [p for p in psutil.Process().children(recursive=True) if p.status() == psutil.STATUS_ZOMBIE]
    warm = score.sizes[int(len(score.sizes) * WARM_UP_SHARE)] if score.sizes else 0
    growth = score.sizes[-1] / warm if warm else 1.0
    print(f"{score.answers} answers ({score.answers / seconds:.0f}/s), {score.crossed} crossed")
    print(f"errors by kind: {score.errors or 'none'}; {score.kills} kills, {score.reloads} reloads")
    print(f"memory {warm >> 20} MB after warm-up, x{growth:.2f} at the end; {fds} descriptors at the end")
    print(f"left running: {len(left)}, zombies: {len(zombies)}")
    print(
        f"p95 of a healthy backend: {before:.2f} ms alone, {during:.2f} ms beside trouble (x{during / before:.2f})"
    )
    allowed = {"BackendCrashed", "BackendStopped"}
    return (
        not score.crossed
        and not left
        and not zombies
        and growth < ALLOWED_GROWTH
        and set(score.errors) <= allowed
    )


if __name__ == "__main__":
    sys.exit(0 if anyio.run(main, float(sys.argv[1]) if len(sys.argv) > 1 else 120.0) else 1)
