"""A chain that waits for its user: the answer comes to any replica, and reaches the chain; or its journal, where that is gone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp.client import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult

from fixtures.direct import text_of
from fixtures.http_gateway import Served, messages, result, text
from fixtures.replicas import QUESTION, Cluster

pytestmark = pytest.mark.anyio

CODE = f"""await ledger.write({{key: "before"}});
const said = await ask.ask({json.dumps(QUESTION)});
await ledger.look({{}});
await ledger.write({{key: "after"}});
return said.content.name;"""
CAN_ASK = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}


def asked(gateway: Served, code: str = CODE, session: str = "a") -> tuple[dict[str, Any], dict[str, str]]:
    message, headers = gateway.modern_chain(code, session=session)
    message["params"]["_meta"] |= CAN_ASK
    return message, headers


def answered(message: dict[str, Any], first: dict[str, Any]) -> dict[str, Any]:
    """The call that is sent again, with what the user has answered."""
    [key] = first["inputRequests"]
    given = {key: {"action": "accept", "content": {"name": "Ada"}}}
    again = {**message["params"], "requestState": first["requestState"], "inputResponses": given}
    return {**message, "id": message["id"] + 100, "params": again}


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_the_user_of_a_client_without_affinity_is_asked(two: Cluster, mode: str) -> None:
    async def answer(_: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="accept", content={"name": "Ada"})

    before = len(two.writes())
    async with two.client(mode=mode, elicitation_callback=answer) as client:
        for _ in range(6):
            found = await client.call_tool("call_tool_chain", {"code": CODE})
            assert text_of(found) == "Ada"
    assert two.writes()[before:] == ["before", "after"] * 6


async def test_the_second_call_reaches_the_chain_at_its_own_replica_with_progress(two: Cluster) -> None:
    async with two.at(0) as first, two.at(1) as second:
        message, headers = asked(first, CODE.replace("look({})", "look({seconds: 0.5})"))
        message["params"]["_meta"]["progressToken"] = "p"
        parked = result(await first.post(message, headers=headers))
        assert parked["resultType"] == "input_required"
        answer = await second.post(answered(message, parked), headers=headers)
        assert text(result(answer)) == "Ada"
        progress = [each for each in messages(answer) if each.get("method") == "notifications/progress"]
        assert [each["params"]["progressToken"] for each in progress] == ["p"]
        assert "ask.ask: ok" in progress[0]["params"]["message"]
        again = await second.post(answered(message, parked), headers=headers)
        assert "no longer waiting" in again.text
        stranger = await second.post(
            asked(second, session="b")[0] | {"params": answered(message, parked)["params"]}, headers=headers
        )
        assert "no longer waiting" in stranger.text


@pytest.mark.long
async def test_a_parked_chain_whose_replica_was_killed_goes_on_from_its_journal(own_two: Cluster) -> None:
    repeatable = CODE.replace("ask.ask(", "ask.ask_only(")
    async with own_two.at(0) as first, own_two.at(1) as second:
        calls = [asked(first, repeatable, "a"), asked(first, CODE, "b")]
        parked = [result(await first.post(message, headers=headers)) for message, headers in calls]
        own_two.replicas[0].kill()
        answers = [
            result(await second.post(answered(message, found), headers=headers))
            for (message, headers), found in zip(calls, parked, strict=True)
        ]
    assert text(answers[0]) == "Ada"  # asked once: the answer was for the same question
    # Of the other chain the call that asked was in flight, and may not be made twice.
    assert answers[1]["isError"]
    assert "never answered" in text(answers[1])
    assert own_two.writes() == ["before", "before", "after"]
