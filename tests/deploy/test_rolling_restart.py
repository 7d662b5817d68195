"""Replicas behind HAProxy as deploy/ configures it are restarted one after the other, while clients go on working."""

from __future__ import annotations

import contextlib
import functools
import signal
import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from fixtures.balancer import balancer, configured, needs_haproxy, up
from fixtures.certificates import self_signed
from fixtures.daemons import LEDGER, MODERN, until
from fixtures.http_gateway import BOTH, MODERN_HEADERS, result
from fixtures.ports import free_port
from fixtures.redis_server import redis_running
from fixtures.replicas import Replica

pytestmark = [pytest.mark.anyio, pytest.mark.long, needs_haproxy]

NAMES = ("gatemini-1", "gatemini-2", "gatemini-3")
STOP_SECONDS = 60.0


@contextmanager
def three_replicas(folder: Path) -> Iterator[list[Replica]]:
    ledger = {"command": sys.executable, "args": ["-I", "-S", str(LEDGER), str(folder / "ledger")]}
    with redis_running() as redis:
        config = {
            "semantic": {"model": "none"},
            "backends": {"ledger": ledger},
            "state": redis.config,
            "http": {"drain_delay": "5s"},
        }
        replicas = [Replica(folder / name, free_port(), config) for name in NAMES]
        try:
            for each in replicas:
                each.start()
            for each in replicas:
                each.wait()
                until(lambda url=each.url: chains(url), "its backend and its sandbox have started")
            yield replicas
        finally:
            for each in replicas:
                each.stop()


def chains(url: str) -> bool:
    """Whether a replica runs a chain."""
    params = {
        "name": "call_tool_chain",
        "arguments": {"code": "await ledger.look({}); return 1;"},
        "_meta": MODERN,
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"accept": BOTH, **MODERN_HEADERS, "Mcp-Method": "tools/call", "Mcp-Name": "call_tool_chain"}
    found = result(httpx2.post(url, json=message, headers=headers, timeout=60, trust_env=False))
    return not found.get("isError")


class Work:
    """What clients have called, and what came of it."""

    def __init__(self, url: str, pem: Path) -> None:
        self.url, self.context = url, ssl.create_default_context(cafile=pem)
        self.done: list[str] = []
        self.failed: list[str] = []
        self.enough = False

    async def client(self, mode: str, name: str) -> None:
        """Write and read without a pause, each request with a key of its own."""
        async with (
            httpx2.AsyncClient(verify=self.context, timeout=60, trust_env=False) as http,
            Client(streamable_http_client(self.url, http_client=http), mode=mode) as client,
        ):
            number = 0
            while not self.enough:
                number += 1
                key = f"{name}-{number}"
                code = f'await ledger.write({{key: "{key}"}}); await ledger.look({{seconds: 0.2}}); return "{key}";'
                try:
                    answer = await client.call_tool("call_tool_chain", {"code": code})
                except Exception as error:  # noqa: BLE001 - whatever it is, the request is lost
                    self.failed.append(f"{key}: {error!r}")
                    continue
                text = getattr(answer.content[0], "text", "")
                if answer.is_error or text != key:
                    self.failed.append(f"{key}: {text}")
                else:
                    self.done.append(key)


async def restarted(replica: Replica, work: Work, metrics: int) -> None:
    """Stop a replica as an orchestrator does, start it again, and let clients use it."""
    process, name = replica.process, replica.folder.name
    assert process is not None
    replica.signal(signal.SIGTERM)
    await waited(lambda: name not in up(metrics), "HAProxy sends it nothing more")
    assert process.poll() is None, "it serves until HAProxy has noticed"
    assert await anyio.to_thread.run_sync(functools.partial(process.wait, STOP_SECONDS)) == 0
    replica.start()
    await waited(lambda: name in up(metrics), "HAProxy sends it requests again")
    before = len(work.done)
    await waited(lambda: len(work.done) > before + 20, "clients go on")


async def waited(holds: Callable[[], object], what: str) -> None:
    await anyio.to_thread.run_sync(until, holds, what)


async def test_a_rolling_restart_loses_no_request_and_makes_no_call_twice(tmp_path: Path) -> None:
    pem, port, metrics = self_signed(tmp_path / "tls.pem"), free_port(), free_port()
    with three_replicas(tmp_path) as replicas:
        addresses = {each.folder.name: each.base.removeprefix("http://") for each in replicas}
        with balancer(configured(tmp_path, pem, port, metrics, addresses)):
            work = Work(f"https://127.0.0.1:{port}/mcp", pem)
            await waited(lambda: answers(metrics) and up(metrics) == set(NAMES), "HAProxy serves")
            async with anyio.create_task_group() as tasks:
                for mode in ("legacy", "2026-07-28"):
                    for number in (1, 2):
                        tasks.start_soon(work.client, mode, f"{mode}-{number}")
                for each in replicas:
                    await restarted(each, work, metrics)
                work.enough = True
    assert work.failed == []
    written = (tmp_path / "ledger").read_text().split()
    assert sorted(written) == sorted(work.done)


def answers(metrics: int) -> bool:
    with contextlib.suppress(httpx2.HTTPError):
        return bool(up(metrics))
    return False
