"""docs/getting-started.md is held to what it says: each program in it runs and returns the JSON below it."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from mcp import Client

from fixtures.direct import chain_value
from fixtures.running import gateway_in_process
from gatemini.config.model.schema import BackendConfig
from gatemini.demo import backends

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parents[2] / "docs" / "getting-started.md"
EXAMPLE = re.compile(r"```ts\n(.*?)```.*?```json\n(.*?)```", re.DOTALL)
EXAMPLES = EXAMPLE.findall(PAGE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
async def client(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Client]:
    named = {b.name: entry(b) for b in backends()}
    async with gateway_in_process(tmp_path_factory.mktemp("demo"), named) as connected:
        yield connected


def entry(backend: BackendConfig) -> dict[str, str]:
    assert backend.module is not None
    return {"transport": "python", "module": backend.module}


@pytest.mark.parametrize(("program", "answer"), EXAMPLES)
async def test_a_program_of_the_page_returns_what_the_page_says(
    client: Client, program: str, answer: str
) -> None:
    assert await chain_value(client, program) == json.loads(answer)


def test_the_page_has_programs() -> None:
    assert len(EXAMPLES) == PAGE.read_text(encoding="utf-8").count("```ts\n") >= 4


async def test_the_tools_the_page_names_are_the_tools_there_are(client: Client) -> None:
    page = PAGE.read_text(encoding="utf-8")
    table = {
        row[0]: set(re.findall(r"`(\w+)`", row[1]))
        for row in re.findall(r"^\| `(\w+)` \|.*\|(.*)\|$", page, re.M)
    }
    listed = await chain_value(
        client,
        "return Object.fromEntries(Object.keys(__backends).map((b) => [b, Object.keys(__backends[b])]));",
    )
    assert {name: set(tools) for name, tools in listed.items()} == table
