"""Every client has its documented limit, and answers stay within it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from fixtures.running import running_app
from gatemini.app import App
from gatemini.model import Tool
from gatemini.protocol.definitions import tool_definitions
from gatemini.protocol.sessions.budgets import INLINE_META, budget_for
from gatemini.text.size_limit import SizeLimit

LONG_TEXT = "return Array.from({ length: 20000 }, (_, i) => `line ${i} has words`).join('\\n');"
LONG_CONSOLE = "for (let i = 0; i < 3000; i++) console.log(`step ${i} is done`);\n"


def of_other_scripts(text: str, console: str) -> list[str]:
    """Return the same programs with words that take two to four bytes a letter."""
    found = []
    for words in ("結果の行です", "строка отчёта", "😀😀😀"):
        said, told = text.replace("has words", words), console.replace("is done", words)
        rows = said.replace("`line ${i}", "({ id: i, text: `line ${i}").replace("`)", "` }))")
        found += [
            said,
            told + said,
            rows.replace(".join('\\n')", ""),
            f"{told}throw new Error('{words}'.repeat(9000));",
        ]
    return found


@pytest.fixture(scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    async with running_app(tmp_path_factory.mktemp("budgets")) as running:
        yield running


MOST_PAGES = 500
TOKENS = SizeLimit(bytes=99_999)
EIGHT_KB = SizeLimit(bytes=8_191)


@pytest.mark.parametrize(
    ("client", "result"),
    [
        (None, TOKENS),
        ("somebody new", TOKENS),
        ("claude-code", TOKENS),
        ("codex-mcp-client", SizeLimit(bytes=39_999)),
        ("gemini-cli-mcp-client-gatemini", SizeLimit(chars=39_999)),
        ("qwen-cli-mcp-client-gatemini", SizeLimit(chars=24_999)),
        ("opencode", SizeLimit(bytes=51_199)),
        ("goose-cli", SizeLimit(chars=199_999)),
        ("Visual Studio Code - Insiders", EIGHT_KB),
        ("codex-mcp-clientele", TOKENS),
    ],
)
def test_a_client_gets_what_is_documented_of_it_and_else_the_default(
    client: str | None, result: SizeLimit
) -> None:
    assert budget_for(client).result == result
    assert budget_for(client).error == (EIGHT_KB if result == EIGHT_KB else SizeLimit(chars=9_999))


def test_tools_with_long_answers_declare_how_long() -> None:
    declared = {d["name"]: d["_meta"][INLINE_META] for d in tool_definitions() if "_meta" in d}
    assert declared == dict.fromkeys(("search_tools", "tool_info", "call_tool_chain"), 99_999)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "client", ["Visual Studio Code", "qwen-code-mcp-client", "codex-mcp-client", "claude-code"]
)
async def test_chains_and_discovery_keep_within_the_clients_limit(app: App, client: str) -> None:
    budget = budget_for(client)
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
        *(("call_tool_chain", {"code": code}) for code in of_other_scripts(LONG_TEXT, LONG_CONSOLE)),
        ("search_tools", {"query": "words", "limit": 50, "brief": False}),
        ("tool_info", {"tool_name": "big.t1", "detail": "full"}),
        ("list_tools_meta", {"page_size": 500}),
        ("tool_info", {"tool_name": "x" * 50_000}),
    ):
        result = await app.call_meta_tool(name, arguments, session)
        room = budget.error if result["isError"] else budget.result
        assert room.holds("".join(block["text"] for block in result["content"])), name
        if arguments.get("code") == LONG_CONSOLE + LONG_TEXT:
            value, console, footer = (block["text"] for block in result["content"])
            assert value.startswith("line 0 has words\n")
            assert value.endswith("line 19999 has words")
            assert console.endswith("step 2999 is done")
            assert footer.startswith("[Output: ")


@pytest.mark.anyio
@pytest.mark.parametrize("client", ["Visual Studio Code", "qwen-code-mcp-client", None])
@pytest.mark.parametrize("word", ["plain", "結果", 'quo"ted \\\\ ', "\x1b[31m\x00"])
async def test_each_page_of_a_stored_result_keeps_within_the_clients_limit(
    app: App, client: str | None, word: str
) -> None:
    session = app.new_session()
    session.client = client
    surface = app.surface(session)
    wide = {f"{word} {n}": n for n in range(900)}
    for value in (
        [{"id": n, "text": word * 60} for n in range(90)],
        [wide] * 3,
        [word * 9_000, "short"],
        {word * 400: {word * 400: [{"id": n, "text": word} for n in range(400)]}},
        word * 9_000,
        "\n".join(word * (n % 90) for n in range(200)),
    ):
        handle = session.results.save(value)
        offset: int | str | None = ""
        pages = 0
        while offset is not None and pages < MOST_PAGES:
            mime, text = await surface.read_resource(f"gatemini://result/{handle}/{offset}".rstrip("/"))
            page = json.loads(text)
            assert (mime, page["handle"]) == ("application/json", handle)
            assert budget_for(client).result.holds(text)
            assert len(text) <= 20_000
            assert page["rows"] or pages == 0
            offset = page["next_offset"]
            pages += 1
        assert offset is None
