"""Sessions of the handshake eras go on at any replica."""

from __future__ import annotations

import json
import time
from pathlib import Path

import anyio
import anyio.to_thread
import httpx2
import pytest

from fixtures.daemons import LEGACY, WAIT_SECONDS, until
from fixtures.direct import text_of
from fixtures.http_gateway import text
from fixtures.replicas import Cluster, cluster

pytestmark = pytest.mark.anyio

HEADERS = {
    "accept": "application/json, text/event-stream",
    "content-type": "application/json",
    "MCP-Protocol-Version": "2025-06-18",
}


async def test_twenty_calls_of_a_client_without_affinity_are_served(two: Cluster) -> None:
    writes, requests = len(two.writes()), two.requests()
    async with two.client(mode="legacy") as client:
        for number in range(20):
            code = f'{{"tool": "ledger.write", "arguments": {{"key": "n{number}"}}}}'
            result = await client.call_tool("call_tool_chain", {"code": code})
            assert not result.is_error, text_of(result)
    assert two.writes()[writes:] == [f"n{number}" for number in range(20)]
    assert min(after - before for before, after in zip(requests, two.requests(), strict=True)) > 8


async def opened(two: Cluster) -> dict[str, str]:
    """A session of the first replica; the headers of its requests."""
    async with httpx2.AsyncClient(timeout=60, trust_env=False, headers=HEADERS) as http:
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": LEGACY}
        answer = await http.post(two.replicas[0].url, json=body)
        session = {**HEADERS, "Mcp-Session-Id": answer.headers["mcp-session-id"]}
        done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await http.post(two.replicas[0].url, json=done, headers=session)).status_code == 202
        return session


def listed(url: str, session: dict[str, str]) -> int:
    """The status of a request in a session."""
    body = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    return httpx2.post(url, json=body, headers=session, trust_env=False, timeout=60).status_code


async def test_only_genuine_ids_of_sessions_are_known_and_an_ended_one_ends_everywhere(two: Cluster) -> None:
    first, second = (each.url for each in two.replicas)
    session = await opened(two)
    ident = session["Mcp-Session-Id"]
    uuid, replica, mac = ident.split(".")
    assert len(replica) == 8
    for forged in (
        f"{uuid}.{replica}.{mac[::-1]}",
        f"{'0' * 32}.{replica}.{mac}",
        f"{uuid}.{replica}",
        "x",
        "é.é.é",
    ):
        found = {**session, "Mcp-Session-Id": forged.encode("latin-1")}
        assert listed(second, found) == 404  # type: ignore[arg-type]
    assert listed(second, session) == 200
    assert httpx2.delete(second, headers=session, trust_env=False, timeout=60).status_code == 200
    until(lambda: listed(first, session) == 404, "the session has ended at the other replica")
    assert listed(second, session) == 404


async def test_a_session_that_begins_while_the_store_restarts_is_known_everywhere(two: Cluster) -> None:
    two.redis.stop()
    async with anyio.create_task_group() as tasks:

        async def back() -> None:
            await anyio.sleep(1)
            await anyio.to_thread.run_sync(two.redis.start)

        tasks.start_soon(back)
        session = await opened(two)
    for replica in two.replicas:
        until(lambda: listed(replica.url, session) != 503, "the store is reached again")  # noqa: B023
        assert listed(replica.url, session) == 200


@pytest.mark.long
@pytest.mark.proves("http.sessions.mode")
async def test_a_session_stays_at_its_replica_where_sessions_are_sticky(tmp_path: Path) -> None:
    with cluster(tmp_path, http={"sessions": {"mode": "sticky"}}) as sticky:
        session = await opened(sticky)
        assert len(session["Mcp-Session-Id"].split(".")) == 1
        own, other = (each.url for each in sticky.replicas)
        assert [listed(url, session) for url in (own, other, own)] == [200, 404, 200]
        async with sticky.at(0) as first, sticky.at(1) as second:
            saved = text(await first.chain('return await results.save("kept");', session="s"))
            code = f'return await results.load("{json.loads(saved)["handle"]}");'
            assert (
                text(await second.chain(code, session="s")) == "kept"
            )  # needs no handshake, and none is sticky
        assert httpx2.delete(other, headers=session, trust_env=False).status_code == 404
        assert httpx2.delete(own, headers=session, trust_env=False).status_code == 200
        assert listed(own, session) == 404


@pytest.mark.long
async def test_a_replica_drops_copies_before_it_has_too_many_sessions(tmp_path: Path) -> None:
    """Every session passes both replicas, of which each may have four at once; none is lost."""

    def served(url: str, session: dict[str, str]) -> bool:
        status = listed(url, session)
        assert status in {200, 503}
        return status == 200

    with cluster(tmp_path, http={"sessions": {"max": 4}}) as few:
        sessions = []
        for _ in range(8):
            sessions.append(await opened_when_there_is_room(few))
        for session in sessions:
            for replica in few.replicas:
                until(lambda: served(replica.url, session), "the session is served")  # noqa: B023


async def opened_when_there_is_room(two: Cluster) -> dict[str, str]:
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        try:
            return await opened(two)
        except KeyError:  # refused: no id
            await anyio.sleep(0.1)
    raise AssertionError("no room")
