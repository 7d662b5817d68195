"""What backends have beside tools, through a real client: instructions, resources, prompts; learnt types; keys."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import TextContent, TextResourceContents

from fixtures.direct import chain_value, run_chain, text_of
from fixtures.running import DEMO, gateway_in_process

pytestmark = pytest.mark.anyio

OFF = {
    "off": {"command": "x", "env": {"T": "${UNSET_1}"}},
    "resting": {"command": "x", "disabled": True},
}


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with gateway_in_process(tmp_path, {**DEMO, **OFF}) as connected:
        yield connected


async def asked(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    return json.loads(text_of(result))


async def read(client: Client, uri: str) -> str:
    (content,) = (await client.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    return content.text


async def found(client: Client, query: str, kind: str) -> dict[str, Any]:
    """The first row of this kind: a backend lists resources and prompts soon after its tools."""
    with anyio.fail_after(60):
        while True:
            rows = (await asked(client, "search_tools", task_description=query))["results"]
            fitting = [row for row in rows if row.get("kind") == kind]
            if fitting:
                return dict(fitting[0])
            await anyio.sleep(0.02)


async def test_a_resource_is_found_by_search_listed_and_read(client: Client) -> None:
    row = await found(client, "greeting", "resource")
    assert row["uri"] == "demo://greeting"
    assert await chain_value(client, f"return {row['call']}") == "hello"
    listed = await chain_value(client, "return await demo.listResources()")
    assert [r["uri"] for r in listed] == ["demo://greeting"]
    about = json.loads(await read(client, "gatemini://backend/demo"))
    assert about["resources"] == [{"name": "greeting", "uri": "demo://greeting", "description": ""}]
    assert about["instructions"] == "A tool for each kind of answer."


async def test_a_prompt_is_found_by_search_listed_and_filled_in(client: Client) -> None:
    row = await found(client, "welcome somebody", "prompt")
    assert row["call"] == 'await demo.getPrompt("welcome", {name})'
    made = await chain_value(client, 'return await demo.getPrompt("welcome", {name: "Ada"})')
    assert made["messages"][0]["content"]["text"] == "Welcome, Ada."
    about = json.loads(await read(client, "gatemini://backend/demo"))
    assert about["prompts"][0]["arguments"] == ["name"]
    refused = await run_chain(client, "return await demo.getPrompt()")
    assert 'HINT: write demo.getPrompt("name", {…})' in text_of(refused)


async def test_instructions_of_a_backend_reach_the_agent(client: Client) -> None:
    answer = await asked(client, "search_tools", task_description="add numbers")
    assert answer["results"][0]["instructions"] == "A tool for each kind of answer."
    assert (await asked(client, "tool_info", tool_name="demo.add", detail="full"))["instructions"]


async def test_the_type_of_a_result_is_learnt_from_a_call_and_kept_for_the_next_run(tmp_path: Path) -> None:
    asked_for = {"task_description": "echo the arguments"}
    async with gateway_in_process(tmp_path, DEMO) as client:
        before = text_of(await client.call_tool("search_tools", asked_for))
        assert "seen" not in before
        await chain_value(client, "return await demo.stats({})")
        told = await asked(client, "tool_info", tool_name="demo.stats")
    async with gateway_in_process(tmp_path, DEMO) as client:
        again = await asked(client, "tool_info", tool_name="demo.stats")
    assert "/* seen */" in told["signature"]
    assert again["signature"] == told["signature"]


async def test_keys_of_a_backend_that_lacks_one_are_named_although_its_tools_are_not_known(
    client: Client,
) -> None:
    for name in ("off.x", "off"):
        answer = await asked(client, "get_required_keys_for_tool", tool_name=name)
        assert (answer["backend"], answer["missing"]) == ("off", ["UNSET_1"])
        assert "UNSET_1 is not set" in answer["note"]


async def test_a_tool_of_a_backend_that_does_not_run_is_not_taken_for_another_backends(
    client: Client,
) -> None:
    told = text_of(await client.call_tool("tool_info", {"tool_name": "off.add"}))
    assert "the tools of 'off' are not known" in told
    assert "demo" not in told


async def test_disabled_backends_are_listed_with_the_reason(client: Client) -> None:
    assert await chain_value(client, "return await demo.add({a: 1, b: 2})")
    rows = {row["name"]: row for row in json.loads(await read(client, "gatemini://backends"))["backends"]}
    assert rows["demo"]["state"] == "healthy"
    assert (rows["off"]["state"], rows["off"]["available"]) == ("disabled", False)
    assert "UNSET_1 is not set" in rows["off"]["error"]
    assert rows["resting"]["error"] == "disabled: true in the configuration"
    assert "- resting: 0 tools (disabled)" in await read(client, "gatemini://overview")
    message = (await client.get_prompt("backend_status", {})).messages[0].content
    assert isinstance(message, TextContent)
    assert "| off | disabled | no | 0 |" in message.text
    assert json.loads(await read(client, "gatemini://backend/off"))["state"] == "disabled"
    assert json.loads(await read(client, "gatemini://health"))["backends"]["off"]["state"] == "disabled"


async def test_an_agent_that_reads_no_resources_gets_the_guides_from_tool_info(client: Client) -> None:
    told = await asked(client, "tool_info", tool_name="call_tool_chain", detail="full")
    assert "return one result and look before using its members" in told["guide"]
    assert "await results.load(handle)" in told["guide"]
    assert 'tool_info({tool_name: "call_tool_chain", detail: "full"})' in (client.instructions or "")


async def test_a_note_on_a_shortened_answer_loads_the_whole_by_its_handle(client: Client) -> None:
    code = "return Array.from({length: 5000}, (_, id) => ({id, name: 'n'.repeat(80)}))"
    note = text_of(await run_chain(client, code), 1)
    (call,) = re.findall(r'await results\.load\("res_[0-9a-f]{8}"\)', note)
    assert await chain_value(client, f"return ({call}).length") == 5000
