"""What a client sets or has read at one replica holds at the others, and what changes at one is told through any."""

from __future__ import annotations

import json
from collections.abc import Iterator

import anyio
import httpx2
import pytest

from fixtures.http_gateway import text
from fixtures.replicas import Cluster, cluster

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    policy = {"flow": "deny", "labels": {"untrusted": ["ledger.look"]}}
    with cluster(tmp_path_factory.mktemp("guarded"), policy=policy) as found:
        yield found


@pytest.mark.long
async def test_a_session_keeps_the_labels_of_what_it_has_read_at_another_replica(guarded: Cluster) -> None:
    write = 'await ledger.write({key: "k"}); return 1;'
    async with guarded.at(0) as first, guarded.at(1) as second:
        assert "xx" in text(await first.chain("return await ledger.look({});", session="a"))
        refused = await second.chain(write, session="a")
        assert refused["isError"]
        assert "ledger.look" in text(refused)
        assert text(await second.chain(write, session="b")) == "1"


@pytest.mark.long
async def test_the_log_level_of_a_session_holds_at_every_replica(two: Cluster) -> None:
    code = 'return await ask.log({lines: [["info", "quiet"], ["error", "loud"]]});'
    async with two.at(0) as first, two.at(1) as second:
        session = await first.handshake()
        assert "quiet" in (await second.post(second.legacy_chain(code), headers=session)).text
        level = {"jsonrpc": "2.0", "id": 50, "method": "logging/setLevel", "params": {"level": "error"}}
        assert (await first.post(level, headers=session)).status_code == 200
        with anyio.fail_after(60):
            while True:
                message = second.legacy_chain(code)
                message["id"] += 1000
                said = (await second.post(message, headers=session)).text
                if '"quiet"' not in said.partition('"gatemini/chain"')[0]:
                    break
        assert "loud" in said


@pytest.mark.long
async def test_what_changes_at_one_replica_is_told_on_the_stream_that_another_has(own_two: Cluster) -> None:
    async with own_two.at(0) as first, own_two.at(1) as second:
        session = await first.handshake()
        uri = {"uri": "gatemini://backend/extra"}
        subscribe = {"jsonrpc": "2.0", "id": 60, "method": "resources/subscribe", "params": uri}
        assert (await first.post(subscribe, headers=session)).status_code == 200
        headers = {**session, "accept": "text/event-stream"}
        async with (
            httpx2.AsyncClient(timeout=60, trust_env=False) as http,
            http.stream("GET", second.url, headers=headers) as stream,
        ):
            assert stream.status_code == 200
            own_two.replicas[0].change(backends={"extra": {"url": "http://127.0.0.1:9/mcp"}})
            async for line in stream.aiter_lines():
                if line.startswith("data:") and "notifications/" in line:
                    said = json.loads(line[5:])
                    break
    assert said["method"] in ("notifications/resources/updated", "notifications/resources/list_changed")
