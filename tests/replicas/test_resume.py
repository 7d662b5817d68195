"""A chain goes on at another replica when its own is killed: from its journal, and no write is made twice."""

from __future__ import annotations

import anyio
import anyio.to_thread
import httpx2
import pytest

from fixtures.daemons import until
from fixtures.http_gateway import result, text
from fixtures.replicas import Cluster

pytestmark = pytest.mark.anyio


async def test_a_chain_is_resumed_at_another_replica_after_its_own_was_killed(own_two: Cluster) -> None:
    code = """await ledger.write({key: "one"});
await ledger.look({seconds: 3});
await ledger.write({key: "two"});
return "done";"""
    async with own_two.at(0) as first, own_two.at(1) as second:
        message, headers = first.modern_chain(code, session="a")

        async def lost() -> None:
            with pytest.raises(httpx2.HTTPError):
                await first.post(message, headers=headers)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lost)
            await anyio.to_thread.run_sync(lambda: until(own_two.writes, "the first write"))
            own_two.replicas[0].kill()
        answer = result(await second.post(message, headers=headers))
    assert text(answer) == "done"
    assert own_two.writes() == ["one", "two"]
