"""The reference servers from npm behind a real gateway: independent servers on another SDK."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from mcp import Client
from mcp_types import ElicitResult, ImageContent

from fixtures.direct import chain_value, gateway, run_chain, text_of
from fixtures.npm import missing, script

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.npm,
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]

BACKENDS = {"everything": 13, "filesystem": 14, "memory": 9, "thinking": 1}
"""The pinned servers and how many tools each lists; everything lists more to a client that supports elicitation."""


@pytest.fixture(scope="module")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("npm") / "shared"
    folder.mkdir()
    (folder / "numbers.txt").write_text("3\n4\n5\n")
    return folder


@pytest.fixture(scope="module")
async def client(shared_folder: Path) -> AsyncIterator[Client]:
    backends = {
        "everything": {"command": "node", "args": [script("mcp-server-everything")]},
        "filesystem": {"command": "node", "args": [script("mcp-server-filesystem"), str(shared_folder)]},
        "memory": {
            "command": "node",
            "args": [script("mcp-server-memory")],
            "env": {"MEMORY_FILE_PATH": str(shared_folder.parent / "memory.json")},
        },
        "thinking": {"command": "node", "args": [script("mcp-server-sequential-thinking")]},
    }
    async with gateway(shared_folder.parent, backends) as connected:
        # One call each waits until that backend is there.
        await chain_value(
            connected,
            """
            await Promise.all([
              everything.echo({ message: "ready" }),
              filesystem.list_allowed_directories({}),
              memory.read_graph({}),
              thinking.sequentialthinking({ thought: "x", nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1 }),
            ]);
            return "ready";
            """,
        )
        yield connected


async def test_all_tools_of_all_servers_are_listed_with_their_own_names(client: Client) -> None:
    page = json.loads(text_of(await client.call_tool("list_tools_meta", {"page_size": 500})))
    counted = {name: sum(tool.startswith(f"{name}.") for tool in page["tools"]) for name in BACKENDS}
    assert counted == BACKENDS
    assert "everything.get-structured-content" in page["tools"]


async def test_a_tool_is_found_by_what_it_does_and_its_call_can_be_pasted(client: Client) -> None:
    found = json.loads(
        text_of(await client.call_tool("search_tools", {"task_description": "list a directory"}))
    )
    names = [row["name"] for row in found["results"]]
    assert "filesystem.list_directory" in names[:3]
    info = json.loads(text_of(await client.call_tool("tool_info", {"tool_name": "everything.get-sum"})))
    assert "everything" in info["call"]
    assert "get-sum" in info["call"] or "get_sum" in info["call"]


async def test_a_text_answer_is_a_string(client: Client) -> None:
    assert await chain_value(client, 'return await everything.echo({ message: "hi" });') == "Echo: hi"


async def test_a_json_call_needs_no_code(client: Client) -> None:
    call = json.dumps({"tool": "everything.get-sum", "arguments": {"a": 2, "b": 3}})
    assert await chain_value(client, call) == "The sum of 2 and 3 is 5."


async def test_a_structured_answer_is_an_object(client: Client) -> None:
    value = await chain_value(
        client, 'const w = await everything["get-structured-content"]({ location: "Chicago" }); return w;'
    )
    assert set(value) == {"temperature", "conditions", "humidity"}


async def test_an_image_is_small_inside_the_chain_and_real_outside(client: Client) -> None:
    result = await run_chain(
        client,
        """
        const [text, image] = await everything["get-tiny-image"]({});
        console.log(JSON.stringify(image).length < 400, typeof text);
        return image;
        """,
    )
    assert not result.is_error, text_of(result)
    [image] = [block for block in result.content if isinstance(block, ImageContent)]
    assert image.mime_type == "image/png"
    assert any("true string" in getattr(block, "text", "") for block in result.content)


async def test_a_resource_link_can_be_followed(client: Client) -> None:
    value = await chain_value(
        client,
        """
        const blocks = await everything["get-resource-links"]({ count: 2 });
        const link = blocks.find((b) => b.type === "resource_link" && b.uri.includes("/text/"));
        const read = await everything.readResource(link.uri);
        return { uri: link.uri, read };
        """,
    )
    assert value["uri"].startswith("demo://resource/dynamic/text/")
    assert "plaintext resource" in json.dumps(value["read"])


async def test_an_embedded_resource_arrives_among_its_texts(client: Client) -> None:
    value = await chain_value(
        client, 'return await everything["get-resource-reference"]({ resourceType: "Text", resourceId: 1 });'
    )
    [embedded] = [block for block in value if isinstance(block, dict)]
    assert "demo://resource/dynamic/text/1" in json.dumps(embedded)


async def test_the_servers_own_error_reaches_the_code_and_the_agent(client: Client) -> None:
    caught = await chain_value(
        client,
        """
        try {
          await filesystem.read_text_file({ path: "/etc/passwd" });
        } catch (e: any) {
          return [e.name, e.tool, e.message.includes("outside allowed directories")];
        }
        """,
    )
    assert caught == ["ToolError", "filesystem.read_text_file", True]
    uncaught = await run_chain(client, 'return await filesystem.read_text_file({ path: "/etc/passwd" });')
    assert uncaught.is_error
    assert "outside allowed directories" in text_of(uncaught)


async def test_wrong_arguments_never_reach_the_server(client: Client) -> None:
    result = await run_chain(client, 'return await everything["get-sum"]({ a: "x" });')
    assert result.is_error
    assert "b" in text_of(result)
    assert "everything.get-sum" in text_of(result)


async def test_a_long_running_call_reports_progress_to_the_client(client: Client) -> None:
    seen: list[float] = []

    async def note(progress: float, _total: float | None, _message: str | None) -> None:
        seen.append(progress)

    code = 'return await everything["trigger-long-running-operation"]({ duration: 0.4, steps: 4 });'
    result = await client.call_tool("call_tool_chain", {"code": code}, progress_callback=note)
    assert "completed" in text_of(result)
    assert seen
    assert seen == sorted(seen)


async def test_one_chain_works_over_all_four(client: Client, shared_folder: Path) -> None:
    value = await chain_value(
        client,
        f"""
        interface File {{ content: string }}
        const file: File = await filesystem.read_text_file({{ path: "{shared_folder}/numbers.txt" }});
        const numbers = file.content.trim().split("\\n").map(Number);
        let sum = 0;
        for (const n of numbers) {{
          const said: string = await everything["get-sum"]({{ a: sum, b: n }});
          sum = Number(/is (\\d+)/.exec(said)![1]);
        }}
        const [, thought] = await Promise.all([
          memory.create_entities({{ entities: [{{ name: "sum", entityType: "number", observations: [String(sum)] }}] }}),
          thinking.sequentialthinking({{
            thought: `the sum is ${{sum}}`, nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1,
          }}),
        ]);
        const found = await memory.open_nodes({{ names: ["sum"] }});
        await filesystem.write_file({{ path: "{shared_folder}/sum.txt", content: String(sum) }});
        return {{ sum, stored: found.entities[0].observations, last: thought.nextThoughtNeeded }};
        """,
    )
    assert value == {"sum": 12, "stored": ["12"], "last": False}
    assert (shared_folder / "sum.txt").read_text() == "12"


async def test_a_server_lists_tools_for_client_capabilities_through_the_gateway(
    tmp_path: Path,
) -> None:
    async def decline(_context: object, _params: object) -> ElicitResult:
        return ElicitResult(action="decline")

    backends = {"everything": {"command": "node", "args": [script("mcp-server-everything")]}}
    async with gateway(tmp_path, backends, elicitation_callback=decline) as connected:
        await chain_value(connected, 'return await everything.echo({ message: "ready" });')
        page = json.loads(text_of(await connected.call_tool("list_tools_meta", {"page_size": 500})))
    assert "everything.trigger-elicitation-request" in page["tools"]
