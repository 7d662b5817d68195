"""Composite tools: found, called and limited like any other tool."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.running import answer, running_app
from gatemini.app import App
from gatemini.config.model.schema import CompositeTool

pytestmark = pytest.mark.anyio

SUM = {
    "description": "Add up three numbers, in two steps.",
    "input_schema": {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}, "c": {"type": "number"}},
        "required": ["a", "b", "c"],
    },
    "code": """const { sum } = await demo.add({ a: args.a, b: args.b });
const total: number = (await demo.add({ a: sum, b: args.c })).sum;
return { total };""",
}
TOOLS: dict[str, dict[str, Any]] = {
    "sum-three": SUM,
    "text": {"code": "return `hello ${args.who ?? 'you'}`;"},
    "nothing": {"code": "console.log('did it');"},
    "broken": {"code": "const x = 1;\nreturn x.y.z;"},
    "unreadable": {"code": "return (;"},
    "fails": {"code": "return await demo.fail({ message: 'no such row' });"},
    "defaults": {
        "input_schema": {
            "type": "object",
            "properties": {
                "repo": {"type": "string", "default": "hello"},
                "page": {"type": "object", "properties": {"size": {"type": "integer", "default": 5}}},
                "tags": {"type": "array", "default": ["x"]},
            },
        },
        "code": "args.tags.push('own'); return args;",
    },
    "outer": {"code": "await demo.echo({});\nreturn await composite.broken({});"},
    "wrong": {"code": "return await demo.add({ a: 1 });"},
    "a": {"code": "return await composite.b({});"},
    "b": {"code": "return await composite.a({});"},
    "d1": {"code": "return await composite.d2({});"},
    "d2": {"code": "return await composite.d3({});"},
    "d3": {"code": "return await composite.d4({});"},
    "d4": {"code": "return await demo.add({ a: 1, b: 1 });"},
    "d0": {"code": "return await composite.d1({});"},
    "many": {"code": "for (let i = 0; i < args.n; i++) await demo.add({ a: i, b: 1 }); return args.n;"},
}


@pytest.fixture(scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    folder: Path = tmp_path_factory.mktemp("composite")
    async with running_app(folder, sandbox={"max_calls": 20}) as running:
        running.set_composite_tools({name: CompositeTool(**tool) for name, tool in TOOLS.items()})
        yield running


FORMS = [
    '{"tool": "composite.sum-three", "arguments": {"a": 1, "b": 2, "c": 3}}',
    'await composite["sum-three"]({ a: 1, b: 2, c: 3 })',
    "return await composite.sum_three({ a: 1, b: 2, c: 3 });",
    "const x = await composite.sum_three({ a: 1, b: 2, c: 3 }); return { total: x.total };",
    "return (await __backends['__composite'].sum_three({ a: 1, b: 2, c: 3 }));",
]


@pytest.mark.parametrize("code", FORMS)
async def test_a_composite_tool_answers_in_every_tier(app: App, code: str) -> None:
    text, failed, meta = await answer(app, code)
    assert not failed, text
    assert json.loads(text) == {"total": 6}
    assert [c["tool"] for c in meta["calls"]] == ["__composite.sum-three", "demo.add", "demo.add"]


async def test_search_finds_a_composite_tool_and_shows_how_to_call_it(app: App) -> None:
    result = await app.call_meta_tool("search_tools", {"task_description": "add up three numbers"})
    found = json.loads(result["content"][0]["text"])["results"]
    entry = next(r for r in found if r["name"] == "__composite.sum-three")
    assert entry["call"] == 'await composite["sum-three"]({a, b, c})'


async def test_arguments_are_checked_before_its_code_runs(app: App) -> None:
    text, failed, meta = await answer(app, "return await composite.sum_three({ a: 1, b: 'x' });")
    assert failed
    assert "ArgumentsInvalid" in text or "required" in text
    assert "c" in text
    assert [c["tool"] for c in meta["calls"]] == ["__composite.sum-three"]


async def test_a_composite_tool_may_return_a_string_or_nothing(app: App) -> None:
    text, failed, _ = await answer(app, "return [await composite.text({}), await composite.nothing({})];")
    assert not failed
    lines = text.splitlines()
    assert json.loads(lines[0]) == ["hello you", None]
    assert "composite.nothing [console]: did it" in text


async def test_raw_gives_an_mcp_result_also_of_a_failure_of_the_code(app: App) -> None:
    code = "return [await composite.sum_three.raw({ a: 1, b: 2, c: 3 }), await composite.broken.raw({})];"
    good, bad = json.loads((await answer(app, code))[0])
    assert (good["structuredContent"], good["isError"], bad["isError"]) == ({"total": 6}, False, True)
    assert bad["content"][0]["text"].startswith("composite.broken failed: TypeError")


async def test_an_error_in_its_code_names_the_tool_and_the_place_in_it(app: App) -> None:
    text, failed, _ = await answer(app, "const r = 1;\nreturn await composite.broken({});")
    assert failed
    assert "composite.broken failed: TypeError" in text
    assert "(line 2, column" in text.splitlines()[0]
    caught, failed, _ = await answer(
        app, "try { await composite.fails({}); } catch (e) { return [e.name, e.tool, e.message]; }"
    )
    assert not failed
    assert json.loads(caught)[:2] == ["ToolError", "__composite.fails"]
    assert "no such row" in caught


async def test_code_that_cannot_be_read_fails_that_call_only(app: App) -> None:
    text, failed, _ = await answer(
        app, "try { await composite.unreadable({}); } catch (e) { return 'caught ' + e.message; }"
    )
    assert not failed
    assert "composite.unreadable failed: SyntaxError" in text


@pytest.mark.parametrize(
    ("tool", "failed", "said"),
    [
        ("a", True, "composite.a → composite.b → composite.a"),
        ("d1", False, '{"sum":2}'),
        ("d0", True, "nested deeper than 4: composite.d0 → composite.d1 → composite.d2 → composite.d3 → composite.d4"),
    ],
)  # fmt: skip
async def test_recursion_and_more_than_four_levels_are_errors_that_name_the_path(
    app: App, tool: str, failed: bool, said: str
) -> None:
    text, is_error, _ = await answer(app, f"return await composite.{tool}({{}});")
    assert is_error is failed
    assert said in text


async def test_many_parallel_composite_calls_do_not_deadlock(app: App) -> None:
    code = "return await Promise.all([1, 2, 3, 4].map(() => composite.d1({})));"
    text, failed, _ = await answer(app, code, timeout=20000)
    assert not failed, text
    assert len(json.loads(text)) == 4


async def test_its_calls_count_towards_the_limit_of_the_chain(app: App) -> None:
    text, failed, meta = await answer(app, "return await composite.many({ n: 50 });")
    assert failed
    assert "a chain may make 20 calls" in text
    assert len(meta["calls"]) == 21


async def test_composite_tools_are_replaced_while_the_gateway_runs(tmp_path: Path) -> None:
    async with running_app(tmp_path) as app:
        app.set_composite_tools({"old": CompositeTool(code="return 1;")})
        app.set_composite_tools({"new": CompositeTool(code="return 2;")})
        text, failed, _ = await answer(app, "return await composite.new({});")
        assert (text, failed) == ("2", False)
        text, failed, _ = await answer(app, "return await composite.old({});")
        assert failed
        assert "removed" in text
        app.set_composite_tools({})
        text, failed, _ = await answer(app, "return typeof composite;")
        assert (text, failed) == ("undefined", False)


async def test_arguments_left_out_get_the_default_of_the_schema(app: App) -> None:
    for _ in range(2):  # what the code does to them does not stay
        text, failed, _meta = await answer(app, "return await composite.defaults({ page: {} });")
        assert not failed, text
        assert json.loads(text) == {"page": {"size": 5}, "repo": "hello", "tags": ["x", "own"]}
    text, _, _ = await answer(app, '{"tool": "composite.defaults", "arguments": {"repo": "r", "tags": []}}')
    assert json.loads(text) == {"repo": "r", "tags": ["own"]}


async def test_an_error_inside_names_each_composite_tool_its_place_and_its_line(app: App) -> None:
    text, failed, _ = await answer(app, "return [await composite.outer({})];")
    assert failed
    assert text.splitlines()[0] == (
        "ToolError: composite.outer failed: ToolError: composite.broken failed: TypeError: "
        "cannot read property 'z' of undefined (line 2, column 12 of composite.broken: `return x.y.z;`) "
        "(line 2, column 24 of composite.outer: `return await composite.broken({});`) (line 1, column 25)"
    )
    assert (
        "HINT: this is in the code of composite.broken (composite_tools.broken in the configuration)" in text
    )
    assert "__composite" not in text


async def test_a_wrong_call_inside_a_composite_tool_is_not_blamed_on_the_caller(app: App) -> None:
    text, failed, _ = await answer(app, "return await composite.wrong({});")
    assert failed
    assert 'composite.wrong failed: ToolError: demo.add was not called: required "b" is missing' in text
    assert "HINT: this is in the code of composite.wrong" in text


async def test_a_faulty_composite_tool_names_its_line_and_works_after_repair(tmp_path: Path) -> None:
    faulty = {"bad": {"code": "const a = 1;\nconst b = ;\nreturn b;"}}
    async with running_app(tmp_path, composite_tools=faulty) as app:
        for code in (
            "return await composite.bad({});",
            '{"tool": "composite.bad", "arguments": {}}',
            "return [await gatemini.tool_info({ tool_name: 'composite.bad' })];",
        ):
            text, failed, _ = await answer(app, code)
            assert failed, code
            assert "composite.bad cannot be called, its code is faulty" in text, code
            assert "(line 2, column 11: `const b = ;`)" in text, code
            assert "in the configuration" in text, code
        app.set_composite_tools({"bad": CompositeTool(code="return 2;")})
        text, failed, _ = await answer(app, "return await composite.bad({});")
        assert (text, failed) == ("2", False)
