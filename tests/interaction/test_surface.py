"""The MCP surface through a real client of either era: seven tools, instructions, errors as tool errors, notes."""

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import ResourceTemplateReference

from fixtures.backend_bench import ODD
from fixtures.direct import chain_value, gateway, run_chain, text_of
from fixtures.running import DEMO, gateway_in_process

pytestmark = pytest.mark.anyio

SEVEN = [
    "search_tools",
    "list_tools_meta",
    "tool_info",
    "get_required_keys_for_tool",
    "call_tool_chain",
    "register_manual",
    "deregister_manual",
]
ADD = {"name": "add", "description": "Add two numbers.", "inputSchema": {"type": "object"}}
SLOW_TO_LIST = {
    "command": sys.executable,
    "args": ["-I", "-S", str(ODD), json.dumps({"tools": [ADD], "delay": 0.1})],
}
"""A backend that has not listed its tools when a client's first call comes, and lists them in a tenth of a second."""


@pytest.fixture(scope="module", params=["legacy", "auto"])
async def client(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Client]:
    async with gateway(tmp_path_factory.mktemp("surface"), DEMO, mode=request.param) as connected:
        assert (connected.protocol_version == "2026-07-28") is (request.param == "auto")
        yield connected


async def test_the_seven_tools_are_listed_with_flat_schemas(client: Client) -> None:
    tools = (await client.list_tools()).tools
    assert [t.name for t in tools] == SEVEN
    for tool in tools:
        assert tool.input_schema["type"] == "object"
        assert not {"anyOf", "oneOf", "allOf", "$ref"} & set(tool.input_schema)
        assert len(tool.description or "") <= 2048
    size = sum(len(t.model_dump_json(by_alias=True, exclude_none=True)) for t in tools)
    assert size / 4 < 1500


async def _called_by_its_name_alone(client: Client) -> Any:
    assert await chain_value(client, '{"tool": "add", "arguments": {"a": 1}}') == {"a": 1}
    return "demo.add"


async def _searched_in_a_chain(client: Client) -> Any:
    return await chain_value(client, "return await gatemini.search_tools({ task_description: 'add' })")


async def _interfaces_in_a_chain(client: Client) -> Any:
    return [
        await chain_value(client, "return __getToolInterface('add')"),
        await chain_value(client, "const all = __interfaces; return all.demo.add"),
    ]


async def _described_without_a_guest(client: Client) -> Any:
    return await chain_value(client, "__getToolInterface('add')")


async def _read(client: Client) -> Any:
    return (await client.read_resource("gatemini://tools")).contents


async def _prompted(client: Client) -> Any:
    return (await client.get_prompt("find_tool", {"task": "add two numbers"})).messages


async def _completed(client: Client) -> Any:
    reference = ResourceTemplateReference(type="ref/resource", uri="gatemini://tool/{tool_name}")
    return (await client.complete(reference, {"name": "tool_name", "value": "ad"})).completion.values


@pytest.mark.parametrize(
    "look",
    [
        _called_by_its_name_alone, _searched_in_a_chain, _interfaces_in_a_chain, _described_without_a_guest, _read, _prompted, _completed,
    ],
)  # fmt: skip
async def test_the_first_look_for_tools_waits_for_a_backend_that_has_not_listed_any(
    look: Callable[[Client], Awaitable[Any]], tmp_path: Path
) -> None:
    async with gateway_in_process(tmp_path, {"demo": SLOW_TO_LIST}) as client:
        assert "demo.add" in str(await look(client))


HINTS_FOR_META_TOOLS = [
    ("return await search_tools({ task_description: 'add' })", "write `await gatemini.search_tools("),
    ("return await tool_info({ tool_name: 'demo.add' })", "write `await gatemini.tool_info("),
    ("return await callTool('demo.add', { a: 1, b: 2 })", "write `await backend.tool({…})`"),
    ("return await call_tool_chain({ code: 'return 1' })", "this is the chain"),
]


async def test_a_chain_that_calls_a_meta_tool_gets_a_hint_how_to_call_it_there(
    client: Client, subtests: pytest.Subtests
) -> None:
    for code, hint in HINTS_FOR_META_TOOLS:
        with subtests.test(code):
            assert f"HINT: {hint}" in text_of(await run_chain(client, code)).replace("inside a chain ", "")


async def test_tool_info_of_a_meta_tool_says_that_it_is_the_gateways_own(client: Client) -> None:
    told = text_of(await client.call_tool("tool_info", {"tool_name": "search_tools"}))
    assert "HINT: search_tools is a tool of this gateway itself" in told


async def test_code_that_a_client_sends_as_parsed_json_is_taken_as_a_json_call(client: Client) -> None:
    call = {"tool": "demo.add", "arguments": {"a": 1, "b": 2}}
    one = await client.call_tool("call_tool_chain", {"code": call})
    many = await client.call_tool("call_tool_chain", {"code": [call]})
    assert json.loads(text_of(one)) == {"sum": 3}
    assert json.loads(text_of(many)) == [{"ok": True, "value": {"sum": 3}}]


async def test_a_registration_that_failed_promises_no_restart(tmp_path: Path) -> None:
    template = {"name": "nobody", "url": "http://127.0.0.1:9/"}
    top = {"registration": {"http": "allow", "allow_hosts": ["127.0.0.1"]}}
    async with gateway_in_process(tmp_path, DEMO, top=top) as client:
        told = text_of(await client.call_tool("register_manual", {"manual_call_template": template}))
    assert "cannot be reached" in told
    assert "check that the server runs" in told
    assert "starts it again" not in told


async def test_backends_that_do_not_run_are_named_where_a_tool_is_looked_for(tmp_path: Path) -> None:
    backends = {
        **DEMO,
        "gone": {"command": "no-such-program"},
        "off": {"command": "x", "env": {"T": "${UNSET_1}"}},
    }
    async with gateway_in_process(tmp_path, backends) as client:
        for name in ("search_tools", "list_tools_meta"):
            told = await client.call_tool(name, {"task_description": "add"} if name == "search_tools" else {})
            assert (
                "not running, tools unknown: off, gone (see gatemini://health or `gatemini doctor`)"
                in json.loads(text_of(told))["note"]
            )
        assert "note" not in json.loads(
            text_of(await client.call_tool("tool_info", {"tool_name": "demo.add"}))
        )
        for tool, why in (
            ("gone.x", "command not found: 'no-such-program'"),
            ("off.x", "UNSET_1 is not set"),
        ):
            refused = await client.call_tool("tool_info", {"tool_name": tool})
            assert refused.is_error
            assert f"HINT: {tool.partition('.')[0]} is not running: {why}" in text_of(refused)
        inside = await run_chain(client, "return await gatemini.tool_info({ tool_name: 'gone.x' })")
        assert "HINT: gone is not running: command not found" in text_of(inside)
        with pytest.raises(MCPError, match="gone is stopped: command not found"):
            await client.read_resource("gatemini://types/gone")
        missing = await run_chain(client, '{"tool": "frobnicate"}')
        assert "Not running, tools unknown: off, gone" in text_of(missing)


async def test_annotations_separate_tools_that_read_from_those_that_act(client: Client) -> None:
    hints = {t.name: t.annotations for t in (await client.list_tools()).tools}
    for name in SEVEN[:4]:
        assert hints[name] is not None
        assert hints[name].read_only_hint is True  # type: ignore[union-attr]
    for name in SEVEN[4:]:
        assert hints[name].destructive_hint is True  # type: ignore[union-attr]
        assert hints[name].open_world_hint is True  # type: ignore[union-attr]


async def test_instructions_come_in_either_handshake_within_what_clients_keep(client: Client) -> None:
    assert client.instructions is not None
    assert "call_tool_chain" in client.instructions
    assert len(client.instructions) <= 2048


async def test_discovery_answers_are_compact_json_without_a_second_copy(client: Client) -> None:
    result = await client.call_tool("search_tools", {"task_description": "add two numbers"})
    assert result.structured_content is None
    assert len(result.content) == 1
    answer = json.loads(text_of(result))
    assert text_of(result) == json.dumps(answer, separators=(",", ":"), ensure_ascii=False)
    assert answer["results"][0]["name"] == "demo.add"
    assert answer["results"][0]["call"] == "await demo.add({a, b})"


async def test_a_number_that_javascript_rounds_is_named_in_a_note(client: Client) -> None:
    result = await run_chain(client, "return await demo.echo({ id: 9007199254740993 });")
    assert "9007199254740993 on line 1 became 9007199254740992" in text_of(result, -1)
    assert (await chain_value(client, "return await demo.echo({ id: '9007199254740993' });")) == {
        "id": "9007199254740993"
    }


async def test_a_chain_runs_and_its_meta_tells_tier_and_calls(client: Client) -> None:
    result = await run_chain(client, "const { sum } = await demo.add({ a: 1, b: 2 });\nreturn sum * 2;")
    assert text_of(result) == "6"
    assert result.meta is not None
    told = result.meta["gatemini/chain"]
    assert told["tier"] == 3
    assert [(c["tool"], c["outcome"]) for c in told["calls"]] == [("demo.add", "ok")]


BAD_INPUT: list[tuple[str, dict[str, Any], str]] = [
    ("call_tool_chain", {"code": ""}, "there is no code to run"),
    ("call_tool_chain", {}, "needs 'code'"),
    ("call_tool_chain", {"code": 5}, "code"),
    ("call_tool_chain", {"code": "return 1", "timeoutt": 1}, "timeout"),
    ("call_tool_chain", {"code": "\x00\x01\x02"}, "not text"),
    ("call_tool_chain", {"code": "def f(x):\n    return x\n"}, "Python"),
    ("call_tool_chain", {"code": "x" * (1 << 20)}, "limit"),
    ("search_tools", {}, "needs 'task_description'"),
    ("tool_info", {"tool_name": "demo.ad"}, "demo.add"),
    ("tool_info", {"tool_name": "demo.add", "detail": "all"}, "brief"),
    ("get_required_keys_for_tool", {"tool_name": "nope"}, "nope"),
    ("register_manual", {"manual_call_template": {}}, "name"),
    ("register_manual", {"manual_call_template": {"name": "x"}}, "command"),
    (
        "register_manual",
        {"manual_call_template": {"name": "x", "command": "true"}},
        "registration.stdio: allow",
    ),
    ("deregister_manual", {"manual_name": "demo"}, "configured"),
    ("no_such_tool", {}, "search_tools"),
]


async def test_bad_input_is_a_tool_error_that_says_what_would_be_right(
    client: Client, subtests: pytest.Subtests
) -> None:
    for tool, arguments, said in BAD_INPUT:
        with subtests.test(f"{tool} {arguments}"[:80]):
            result = await client.call_tool(tool, arguments)
            assert result.is_error is True
            assert said in text_of(result)
    assert await chain_value(client, "return 1 + 1;") == 2  # the server still answers


async def test_resources_and_prompts_answer(client: Client) -> None:
    uris = {str(r.uri) for r in (await client.list_resources()).resources}
    assert {"gatemini://overview", "gatemini://tools", "gatemini://stats"} <= uris
    for uri in sorted(uris):
        (content,) = (await client.read_resource(uri)).contents
        assert content.text  # type: ignore[union-attr]
    names = {p.name for p in (await client.list_prompts()).prompts}
    assert names == {"discover", "find_tool", "backend_status"}


async def test_a_budget_too_small_to_show_anything_is_raised_with_a_note(
    client: Client, subtests: pytest.Subtests
) -> None:
    code = "return Array.from({ length: 500 }, (_, id) => ({ id, name: 'row ' + id }));"
    for size in (-1, 0, 1, 99, "7"):
        with subtests.test(str(size)):
            result = await run_chain(client, code, max_output_size=size)
            assert json.loads(text_of(result)) == {"$reduced": "array of 500 items, 13.5KB"}
            notes = text_of(result, -1).split("\n")
            assert notes[0] == f"max_output_size {size} is below 100; 100 was used"
            assert "full result: res_" in notes[1]


async def test_a_timeout_out_of_range_is_named_in_the_error_it_leads_to(client: Client) -> None:
    result = await run_chain(client, "await sleep(5000);", timeout=-3)
    assert result.is_error
    assert "timeout -3 is below 1; 1 was used" in text_of(result)
