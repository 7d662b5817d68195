"""What each client takes, by the name it announces, and that answers keep within it (spec 1.1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.running import running_app
from gatemini.model import Tool
from gatemini.server.budgets import INLINE_META, UNKNOWN, budget_for
from gatemini.server.definitions import tool_definitions

LONG_TEXT = "return Array.from({ length: 20000 }, (_, i) => `line ${i} has words`).join('\\n');"
LONG_CONSOLE = "for (let i = 0; i < 3000; i++) console.log(`step ${i} is done`);\n"


@pytest.mark.parametrize(
    ("client", "chars"),
    [
        (None, 99_999),
        ("", 99_999),
        ("somebody new", 99_999),
        ("claude-code", 99_999),
        ("codex-mcp-client", 39_999),
        ("gemini-cli-mcp-client", 39_999),
        ("gemini-cli-mcp-client-gatemini", 39_999),
        ("qwen-cli-mcp-client-gatemini", 24_999),
        ("opencode", 51_199),
        ("Visual Studio Code", 8_191),
        ("Visual Studio Code - Insiders", 8_191),
        ("codex-mcp-clientele", 99_999),
    ],
)
def test_a_client_gets_what_is_documented_of_it_and_else_the_default(client: str | None, chars: int) -> None:
    assert budget_for(client).result_chars == chars
    assert budget_for(client).error_chars == min(UNKNOWN.error_chars, chars) < 10_000


def test_tools_with_long_answers_declare_how_long() -> None:
    declared = {d["name"]: d["_meta"][INLINE_META] for d in tool_definitions() if "_meta" in d}
    assert declared == dict.fromkeys(("search_tools", "tool_info", "call_tool_chain"), UNKNOWN.result_chars)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "client", ["Visual Studio Code", "qwen-code-mcp-client", "codex-mcp-client", "claude-code"]
)
async def test_chains_and_discovery_keep_within_the_clients_limit(tmp_path: Path, client: str) -> None:
    room = budget_for(client).result_chars
    async with running_app(tmp_path) as app:
        many = {"properties": {f"p{i}": {"type": "string", "description": "long " * 9} for i in range(3_000)}}
        app.registry.replace("big", [Tool("big", f"t{i}", "words of it " * 900, many) for i in range(60)])
        session = app.new_session()
        session.client = client
        for name, arguments in (
            ("call_tool_chain", {"code": "return await demo.rows({ n: 5000 });"}),
            ("call_tool_chain", {"code": LONG_TEXT}),
            ("call_tool_chain", {"code": LONG_CONSOLE + LONG_TEXT}),
            ("call_tool_chain", {"code": LONG_CONSOLE + "return [];"}),
            ("call_tool_chain", {"code": LONG_CONSOLE + "throw new Error('no');"}),
            ("call_tool_chain", {"code": LONG_TEXT, "intent": "line 777"}),
            ("search_tools", {"query": "words", "limit": 50, "brief": False}),
            ("tool_info", {"tool_name": "big.t1", "detail": "full"}),
            ("list_tools_meta", {"page_size": 500}),
            ("tool_info", {"tool_name": "x" * 50_000}),
        ):
            result = await app.call_meta_tool(name, arguments, session)
            assert sum(len(block["text"]) for block in result["content"]) <= room, name
            if arguments.get("code") == LONG_CONSOLE + LONG_TEXT:
                value, console, footer = (block["text"] for block in result["content"])
                assert value.startswith("line 0 has words\n")
                assert value.endswith("line 19999 has words")
                assert console.endswith("step 2999 is done")
                assert footer.startswith("[Output: ")
