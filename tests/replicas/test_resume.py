"""A chain goes on at another replica when its own is killed: from its journal, and no write is made twice."""

from __future__ import annotations

import json

import httpx2
import pytest

from fixtures.http_gateway import BOTH, result, text
from fixtures.replicas import Cluster

pytestmark = pytest.mark.anyio


@pytest.mark.long
async def test_a_chain_is_resumed_at_another_replica_after_its_own_was_killed(own_two: Cluster) -> None:
    code = """await ledger.write({key: "one"});
await ledger.look({seconds: 3});
await ledger.write({key: "two"});
return "done";"""
    async with own_two.at(0) as first, own_two.at(1) as second:
        message, headers = first.modern_chain(code, session="a")

        message["params"]["_meta"]["progressToken"] = "p"
        sent = {"accept": BOTH, "content-type": "application/json", **headers}

        async def kill_after_the_first_write() -> None:
            content = json.dumps(message)
            async with first.http.stream("POST", first.url, content=content, headers=sent) as stream:
                async for line in stream.aiter_lines():
                    if "ledger.write: ok" in line:
                        own_two.replicas[0].kill()

        with pytest.raises(httpx2.HTTPError):
            await kill_after_the_first_write()
        answer = result(await second.post(message, headers=headers))
    assert text(answer) == "done"
    assert own_two.writes() == ["one", "two"]
