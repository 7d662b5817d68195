"""Replicas are restarted in turn while clients call: no call is lost, and none is made twice."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from fixtures.daemons import until
from fixtures.direct import text_of
from fixtures.http_gateway import result, text
from fixtures.replicas import Cluster, cluster

pytestmark = pytest.mark.anyio

LONG = json.dumps({"tool": "ledger.look", "arguments": {"seconds": 3}})


@pytest.fixture
def draining(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path, http={"drain_delay": "1s"}, daemon={"client_drain_timeout": "60s"}) as found:
        yield found


@pytest.mark.long
async def test_a_rolling_restart_loses_no_call_of_a_client_without_affinity(draining: Cluster) -> None:
    made: list[str] = []
    over = anyio.Event()

    async def call(mode: str) -> None:
        async with draining.client(mode=mode) as client:
            while not over.is_set():
                made.append(f"{mode}-{len(made)}")
                code = json.dumps({"tool": "ledger.write", "arguments": {"key": made[-1]}})
                found = await client.call_tool("call_tool_chain", {"code": code})
                assert not found.is_error, text_of(found)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call, "legacy")
        tasks.start_soon(call, "2026-07-28")
        for replica in draining.replicas:
            async with draining.at(draining.replicas.index(replica)) as own:
                message, headers = own.modern_chain(LONG, session="long")
                answers = []

                async def long() -> None:
                    answers.append(result(await own.post(message, headers=headers)))  # noqa: B023

                async with anyio.create_task_group() as longer:
                    longer.start_soon(long)
                    await anyio.sleep(0.5)
                    replica.signal(signal.SIGTERM)
                    await anyio.to_thread.run_sync(lambda: until(lambda: not replica.ready(), "not ready"))  # noqa: B023
                assert text(answers[0]) == "xx"
            assert replica.process is not None
            assert await anyio.to_thread.run_sync(replica.process.wait, 60) == 0
            replica.start()
            await anyio.to_thread.run_sync(replica.wait)
            await anyio.to_thread.run_sync(lambda: until(draining.balanced, "all replicas are asked"))
        over.set()
    assert sorted(draining.writes()) == sorted(made)
