"""Results that are not what their tool declares: the value arrives, and a note says what is amiss."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.backend_bench import ODD
from fixtures.running import answer, running_app
from gatemini.app import App
from gatemini.chain.values.outputs import mismatch
from gatemini.model import Tool

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TOOLS = [
    {"name": "result", "inputSchema": {"type": "object"}, "outputSchema": SCHEMA},
    {"name": "echo", "inputSchema": {"type": "object"}},
    {"name": "raw", "inputSchema": {"type": "object"}},
]


def odd(**keys: Any) -> dict[str, Any]:
    options = json.dumps({"tools": TOOLS, **keys.pop("options", {})})
    return {"command": sys.executable, "args": ["-I", "-S", str(ODD), options], **keys}


@pytest.fixture(scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    folder: Path = tmp_path_factory.mktemp("outputs")
    backends = {"odd": odd(), "dead": odd(options={"exit_code": 1}, fallback_chain=["odd"])}
    async with running_app(folder, backends) as running:
        yield running


@pytest.mark.parametrize(
    ("structured", "shown", "said"),
    [
        ({"n": "x"}, '{"n":"x"}', '"n" must be integer, got string "x"'),
        ({"m": 1}, '{"m":1}', 'the result lacks the required "n"'),
        ([1], "[1]", "the result must be object, got array"),
        ({"n": 5}, '{"n":5}', None),
    ],
)
async def test_a_mismatch_is_a_note_and_the_value_arrives(
    app: App, structured: Any, shown: str, said: str | None
) -> None:
    result = json.dumps({"content": [], "structuredContent": structured})
    for code in (
        json.dumps({"tool": "odd.result", "arguments": {"result": json.loads(result)}}),
        f"return await odd.result({{ result: {result} }});",
        f"const r = await odd.result({{ result: {result} }}); return r;",
    ):
        text, failed, _ = await answer(app, code)
        assert not failed
        assert text.startswith(shown)
        assert ("does not keep its output schema" in text) == (said is not None)
        assert said is None or said in text


READER = {"name": "echo", "inputSchema": {"type": "object", "required": ["query"]}}


async def test_the_schema_of_the_backend_counts_and_not_that_of_its_fallback(tmp_path: Path) -> None:
    reader = odd(options={"tools": [{**READER, "annotations": {"readOnlyHint": True}}]})
    writer = odd(lazy=True, fallback_chain=["reader"])
    dead = odd(options={"exit_code": 1}, lazy=True, fallback_chain=["reader"])
    async with running_app(tmp_path, {"reader": reader, "writer": writer, "dead": dead}) as app:
        held = "// @dry-run\nreturn await {}.echo({{ query: 1 }});"
        assert (await answer(app, held.format("reader")))[0].startswith('{"query":1}')
        for name in ("writer", "dead"):  # a backend that may start again is not known to be read-only
            assert f"would call {name}.echo" in (await answer(app, held.format(name)))[0]
        assert await answer_of(app, "writer") == '{"a":1}'
        assert '"query" is missing' in await answer_of(app, "dead")


async def answer_of(app: App, backend: str) -> str:
    return (await answer(app, f"return await {backend}.echo({{ a: 1 }});"))[0]


async def test_the_backend_that_answered_instead_is_named_in_meta(app: App) -> None:
    for code in (
        '{"tool": "dead.echo", "arguments": {"a": 1}}',
        "return await dead.echo({ a: 1 });",
        "const r = await dead.echo({ a: 1 }); return r;",
    ):
        text, failed, meta = await answer(app, code)
        assert not failed
        assert text.startswith('{"a":1}\nanswered by odd instead: dead is not running')
        assert [call["answered_by"] for call in meta["calls"]] == ["odd"]


async def test_an_address_that_must_be_visited_first_is_shown(app: App) -> None:
    asked = {"mode": "url", "url": "https://x.test/login", "elicitationId": "e", "message": "m"}
    error = {"code": -32042, "message": "log in first", "data": {"elicitations": [asked]}}
    line = json.dumps({"jsonrpc": "2.0", "id": 0, "error": error}).replace('"id": 0', '"id": ID') + "\n"
    text, failed, _ = await answer(app, f"return await odd.raw({json.dumps({'text': line})});")
    assert failed
    assert "log in first" in text
    assert "the user has to visit https://x.test/login first" in text
    caught = (
        f"try {{ await odd.raw({json.dumps({'text': line})}) }} catch (e) {{ return [e.code, e.structured] }}"
    )
    text, _, _ = await answer(app, caught)
    assert json.loads(text) == [-32042, error["data"]]


def test_a_long_integer_that_came_as_text_is_no_fault_of_the_tool() -> None:
    tool = Tool(backend="b", name="t", output_schema=SCHEMA)
    assert mismatch(tool, {"structuredContent": {"n": "12345678901234567890"}}) is None
    assert mismatch(tool, {"structuredContent": {"n": "1234"}}) is not None


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(values, st.dictionaries(st.sampled_from(["type", "properties", "required", "$ref", "anyOf"]), values))
def test_no_schema_and_no_result_can_raise(structured: Any, schema: dict[str, Any]) -> None:
    tool = Tool(backend="b", name="t", output_schema=schema)
    said = mismatch(tool, {"content": [], "structuredContent": structured})
    assert said is None or said.startswith("b.t does not keep its output schema")
