"""Results and labels of a session are the same at every replica, and of no other principal."""

from __future__ import annotations

import json

import pytest

from fixtures.http_gateway import text
from fixtures.replicas import Cluster

pytestmark = pytest.mark.anyio


async def test_a_result_is_read_at_another_replica_and_by_its_session_only(two: Cluster) -> None:
    async with two.at(0) as first, two.at(1) as second:
        saved = await first.chain('return await results.save({secret: "s3kr3t-of-a"});', session="owner")
        handle = json.loads(text(saved))["handle"]
        for gateway in (second, first):
            code = f'return (await results.load("{handle}")).secret;'
            assert text(await gateway.chain(code, session="owner")) == "s3kr3t-of-a"
            other = await gateway.chain(code, session="other")
            assert other["isError"]
            assert "s3kr3t" not in json.dumps(other)
        listed = json.loads(text(await second.chain("return await results.list();", session="owner")))
        assert [each["handle"] for each in listed] == [handle]
        uri = {"uri": f"gatemini://result/{handle}"}
        message, headers = second.modern("resources/read", uri, session="owner")
        assert "s3kr3t-of-a" in (await second.post(message, headers={**headers, "Mcp-Name": uri["uri"]})).text
        message, headers = second.modern("resources/read", uri, session="other")
        assert (
            "s3kr3t-of-a"
            not in (await second.post(message, headers={**headers, "Mcp-Name": uri["uri"]})).text
        )


async def test_a_dropped_result_is_gone_everywhere(two: Cluster) -> None:
    async with two.at(0) as first, two.at(1) as second:
        saved = await first.chain("return await results.save([1, 2]);", session="drop")
        handle = json.loads(text(saved))["handle"]
        assert text(await second.chain(f'return await results.load("{handle}");', session="drop")) == "[1,2]"
        await second.chain(f'return await results.drop("{handle}");', session="drop")
        assert text(await first.chain("return await results.list();", session="drop")) == "[]"


async def test_what_an_answer_left_out_is_read_on_at_another_replica(two: Cluster) -> None:
    async with two.at(0) as first, two.at(1) as second:
        code = "return Array.from({length: 5000}, (_, n) => ({n, name: `row ${n}`}));"
        answer = text(await first.chain(code, session="long"))
        handle = answer.partition("res_")[2][:8]
        found = await second.chain(f'return (await results.load("res_{handle}")).length;', session="long")
        assert text(found) == "5000"


async def test_what_lies_in_the_store_is_sealed(two: Cluster) -> None:
    async with two.at(0) as first:
        await first.chain('return await results.save("plain-words-of-a-result");', session="sealed")
    two.redis.cli("SAVE")
    stored = b"".join(path.read_bytes() for path in two.redis.folder.rglob("*") if path.is_file())
    assert b"plain-words-of-a-result" not in stored
