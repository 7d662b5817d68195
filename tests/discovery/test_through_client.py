"""Discovery through the official client, in both protocol eras: templates, completion, prompts, ready calls."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    Implementation,
    ResourceTemplateReference,
    TextContent,
    TextResourceContents,
)

from fixtures.direct import chain_value, gateway, text_of

pytestmark = pytest.mark.anyio

DEMO: dict[str, dict[str, Any]] = {
    "demo-eu": {"transport": "python", "module": "fixtures.demo_server:server"}
}
READY_SECONDS = 60.0
"""Bounds how long the demo backend may take to list its tools."""


@pytest.fixture(scope="module", params=["legacy", "auto"])
async def client(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Client]:
    async with gateway(tmp_path_factory.mktemp("discovery"), DEMO, mode=request.param) as connected:
        with anyio.fail_after(READY_SECONDS):
            # A chain waits for a backend that is still starting: afterwards its tools are listed.
            assert await chain_value(connected, 'return await __backends["demo-eu"].echo({ n: 1 })') == {
                "n": 1
            }
        yield connected


async def read(client: Client, uri: str) -> tuple[str, str]:
    (content,) = (await client.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    return content.mime_type or "", content.text


async def answer(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    assert result.structured_content is None
    return json.loads(text_of(result))


async def test_the_four_steps_end_in_a_call_that_works(client: Client) -> None:
    found = await answer(client, "search_tools", task_description="add two numbers")
    name = found["results"][0]["name"]
    assert name == "demo-eu.add"
    brief = await answer(client, "tool_info", tool_name=name)
    assert brief["parameters"] == ["a", "b"]
    assert brief["call"] == "await demo_eu.add({a, b})"
    full = await answer(client, "tool_info", tool_name=name, detail="full")
    assert "declare const demo_eu: {" in full["declaration"]
    assert await chain_value(client, f"const a = 2, b = 3;\nreturn {brief['call']};") == {"sum": 5}


async def test_discovery_works_inside_a_chain(client: Client) -> None:
    code = "const r = await gatemini.search_tools({ query: 'echo' }); return r.results[0].name;"
    assert await chain_value(client, code) == "demo-eu.echo"


async def test_every_template_is_listed_and_reads(client: Client) -> None:
    listed = (await client.list_resource_templates()).resource_templates
    assert {t.uri_template.removeprefix("gatemini://") for t in listed} == {
        "tool/{tool_name}", "backend/{backend_name}", "backend/{backend_name}/tools", "recent/{limit}",
        "guide/{topic}", "result/{handle}", "result/{handle}/{offset}", "types/{backend_name}",
    }  # fmt: skip
    for path, mime in (("tool/demo-eu.add", "application/json"), ("guide/results", "text/markdown")):
        found, text = await read(client, f"gatemini://{path}")
        assert found == mime
        assert text
    assert "declare const demo_eu: {" in (await read(client, "gatemini://types/demo-eu"))[1]


async def test_a_stored_result_is_read_by_handle_and_row(client: Client) -> None:
    handle = await chain_value(client, "return await results.save([...Array(100).keys()]);")
    handle = handle["handle"] if isinstance(handle, dict) else handle
    assert "99" in (await read(client, f"gatemini://result/{handle}/90"))[1]
    reference = ResourceTemplateReference(type="ref/resource", uri="gatemini://result/{handle}")
    offered = await client.complete(reference, {"name": "handle", "value": "res_"})
    assert handle in offered.completion.values


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("file:///etc/passwd", "begin with gatemini://"),
        ("gatemini://tool/demo-eu.ad", "demo-eu.add"),
        ("gatemini://result/res_00000000", "does not exist in this session"),
    ],
)
async def test_an_unknown_address_is_answered_with_what_exists(client: Client, uri: str, says: str) -> None:
    with pytest.raises(MCPError) as caught:
        await client.read_resource(uri)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("template", "argument", "value", "offered"),
    [
        ("tool/{tool_name}", "tool_name", "demo-eu.ad", "demo-eu.add"),
        ("backend/{backend_name}", "backend_name", "", "demo-eu"),
        ("guide/{topic}", "topic", "disc", "discovery"),
    ],
)
async def test_arguments_of_templates_are_completed(
    client: Client, template: str, argument: str, value: str, offered: str
) -> None:
    reference = ResourceTemplateReference(type="ref/resource", uri=f"gatemini://{template}")
    found = await client.complete(reference, {"name": argument, "value": value})
    assert offered in found.completion.values


async def prompt(client: Client, name: str, **arguments: str) -> str:
    (message,) = (await client.get_prompt(name, arguments)).messages
    assert isinstance(message.content, TextContent)
    return message.content.text


async def test_prompts_show_the_present_backends_and_tools(client: Client) -> None:
    assert "tools of 1 backend right now" in await prompt(client, "discover")
    assert "| 1 | demo-eu.add |" in await prompt(client, "find_tool", task="add two numbers")
    assert "| demo-eu | healthy | yes |" in await prompt(client, "backend_status")


async def test_the_example_of_find_tool_runs_unchanged(client: Client) -> None:
    text = await prompt(client, "find_tool", task="add two numbers")
    code = text.rpartition("```ts\n")[2].partition("```")[0]
    assert "const a = 1;" in code
    assert await chain_value(client, code) == {"sum": 2}


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_is_kept_within_its_own_limit_by_the_name_it_announces(
    tmp_path: Path, mode: str
) -> None:
    name = Implementation(name="Visual Studio Code", version="1.130")
    async with gateway(tmp_path, DEMO, mode=mode, client_info=name) as connected:
        code = 'return await __backends["demo-eu"].rows({ n: 5000 })'
        for _ in range(2):  # the second call takes the shortcut past the SDK
            result = await connected.call_tool("call_tool_chain", {"code": code})
            assert sum(len(b.text) for b in result.content if b.type == "text") <= 8_191


@pytest.mark.parametrize(("name", "says"), [("nothing", "backend_status"), ("find_tool", "needs 'task'")])
async def test_a_prompt_that_cannot_be_given_says_why(client: Client, name: str, says: str) -> None:
    with pytest.raises(MCPError) as caught:
        await client.get_prompt(name, {})
    assert says in str(caught.value)
