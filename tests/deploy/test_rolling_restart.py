"""Replicas behind HAProxy as deploy/ configures it are restarted one after the other, while clients go on working."""

from __future__ import annotations

import functools
import signal
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from fixtures.balancer import balancer, configured, needs_haproxy
from fixtures.certificates import self_signed
from fixtures.daemons import LEDGER, until
from fixtures.redis_server import redis_running
from fixtures.replicas import Replica, free_port

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
            yield replicas
        finally:
            for each in replicas:
                each.stop()


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
                (self.failed if answer.is_error or text != key else self.done).append(key)


async def restarted(replica: Replica, work: Work) -> None:
    """Stop a replica as an orchestrator does, start it again, and let clients use it."""
    process = replica.process
    assert process is not None
    replica.signal(signal.SIGTERM)
    assert await anyio.to_thread.run_sync(functools.partial(process.wait, STOP_SECONDS)) == 0
    replica.start()
    await anyio.to_thread.run_sync(replica.wait)
    before = len(work.done)
    await anyio.to_thread.run_sync(until, lambda: len(work.done) > before + 20, "clients go on")


async def test_a_rolling_restart_loses_no_request_and_makes_no_call_twice(tmp_path: Path) -> None:
    pem, port = self_signed(tmp_path / "tls.pem"), free_port()
    with three_replicas(tmp_path) as replicas:
        addresses = {
            name: each.base.removeprefix("http://") for name, each in zip(NAMES, replicas, strict=True)
        }
        with balancer(configured(tmp_path, pem, port, addresses)):
            work = Work(f"https://127.0.0.1:{port}/mcp", pem)
            await anyio.to_thread.run_sync(until, lambda: served(work), "HAProxy serves")
            async with anyio.create_task_group() as tasks:
                for mode in ("legacy", "2026-07-28"):
                    for number in (1, 2):
                        tasks.start_soon(work.client, mode, f"{mode}-{number}")
                for each in replicas:
                    await restarted(each, work)
                work.enough = True
    assert work.failed == []
    written = (tmp_path / "ledger").read_text().split()
    assert sorted(written) == sorted(work.done)


def served(work: Work) -> bool:
    try:
        found = httpx2.get(
            work.url.replace("/mcp", "/.well-known/oauth-protected-resource"),
            verify=work.context,
            trust_env=False,
        )
    except httpx2.HTTPError:
        return False
    return found.status_code == 404  # of a replica without a login; HAProxy's own answer is 503
