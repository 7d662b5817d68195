"""A request that a balancer sends again, to another replica, while the first still runs."""

from __future__ import annotations

import json
from typing import Any

import anyio
import httpx2
import pytest

from fixtures.http_gateway import BOTH, Served, messages, result, text
from fixtures.replicas import Cluster

pytestmark = pytest.mark.anyio

WRITTEN = "ledger.write: ok"


def chain(gateway: Served, key: str) -> tuple[dict[str, Any], dict[str, str]]:
    """A chain that shows when it has written, and then takes long enough for a second request to find it."""
    code = f"""await ledger.write({{key: "{key}-1"}});
await ledger.look({{seconds: 2}});
await ledger.write({{key: "{key}-2"}});
await ledger.look({{seconds: 0.5}});
return "{key}";"""
    message, headers = gateway.modern_chain(code, session=key)
    message["params"]["_meta"]["progressToken"] = key
    return message, {"accept": BOTH, "content-type": "application/json", **headers}


async def test_it_joins_the_chain_at_the_other_replica_and_gets_its_progress_and_answer(two: Cluster) -> None:
    async with two.at(0) as first, two.at(1) as second:
        message, headers = chain(first, "joined")
        lines: list[str] = []
        async with first.http.stream(
            "POST", first.url, content=json.dumps(message), headers=headers
        ) as stream:
            answers: list[httpx2.Response] = []

            async def repeat() -> None:
                answers.append(await second.post(message, headers=headers))

            async with anyio.create_task_group() as tasks:
                async for line in stream.aiter_lines():
                    if WRITTEN in line and not lines:
                        tasks.start_soon(repeat)
                    lines.append(line) if line.startswith("data:") else None
    own = [json.loads(line[5:]) for line in lines if len(line) > 6]
    [answer] = answers
    assert text(result(answer)) == "joined"
    assert [each["result"] for each in own if "result" in each] == [result(answer)]
    said = [each["params"] for each in messages(answer) if each.get("method")]
    assert [each["progress"] for each in said] == [1, 3]
    assert all(WRITTEN in each["message"] for each in said)
    assert [key for key in two.writes() if key.startswith("joined")] == ["joined-1", "joined-2"]


async def test_its_chain_is_run_once_though_the_first_client_hangs_up(two: Cluster) -> None:
    async with two.at(0) as first, two.at(1) as second:
        message, headers = chain(first, "left")
        answers: list[httpx2.Response] = []

        async def repeat() -> None:
            answers.append(await second.post(message, headers=headers))

        async with (
            anyio.create_task_group() as tasks,
            first.http.stream("POST", first.url, content=json.dumps(message), headers=headers) as stream,
        ):
            async for line in stream.aiter_lines():
                if WRITTEN in line:
                    tasks.start_soon(repeat)
                    break
        [answer] = answers
    assert text(result(answer)) == "left"
    assert [key for key in two.writes() if key.startswith("left")] == ["left-1", "left-2"]
