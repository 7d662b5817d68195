"""Backends whose names share an identifier or a namespace: every call that discovery shows reaches its tool."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fixtures.running import answer, running_app

pytestmark = pytest.mark.anyio

SERVER = {"transport": "python", "module": "fixtures.demo_server:server"}


async def ask(app: Any, name: str, **arguments: Any) -> dict[str, Any]:
    result = await app.call_meta_tool(name, arguments)
    assert not result["isError"], result
    found: dict[str, Any] = json.loads(result["content"][0]["text"])
    return found


@pytest.mark.parametrize("names", [("demo-eu-x", "demo-eu_x"), ("demo-eu", "demo_eu"), ("JSON", "JSON_")])
async def test_the_call_of_each_backend_reaches_that_backend(tmp_path: Path, names: tuple[str, str]) -> None:
    async with running_app(tmp_path, dict.fromkeys(names, SERVER)) as app:
        for name in names:
            told = await ask(app, "tool_info", tool_name=f"{name}.add")
            call: str = told["call"]
            whole = await ask(app, "tool_info", tool_name=f"{name}.add", detail="full")
            reached = call.removeprefix("await ").partition(".add")[0].partition("[")[0]
            assert told["signature"].startswith(f"declare const {reached}: {{")
            assert whole["declaration"].startswith(f"declare const {reached}: {{")
            for code in (
                call.replace("{a, b}", "{ a: 1, b: 2 }"),
                f'await __backends["{name}"].add({{ a: 1, b: 2 }})',
            ):
                text, failed, meta = await answer(app, code)
                assert (text, failed) == ('{"sum":3}', False), text
                assert meta["calls"][0]["tool"] == f"{name}.add"
        text, _, _ = await answer(app, "return Object.keys(__backends)")
        assert sorted(json.loads(text)) == sorted(names)


async def test_a_name_that_two_backends_of_a_namespace_share_is_shown_once_and_is_not_ambiguous(
    tmp_path: Path,
) -> None:
    shared = {name: {**SERVER, "namespace": "both"} for name in ("first", "second")}
    async with running_app(tmp_path, shared) as app:
        found = await ask(app, "search_tools", task_description="echo", limit=50)
        names = [row["name"] for row in found["results"]]
        assert len(names) == len(set(names))
        assert (await ask(app, "tool_info", tool_name="echo"))["name"] == "both.echo"


async def test_an_alias_in_code_is_answered_with_the_tool_it_means(tmp_path: Path) -> None:
    async with running_app(tmp_path, {"demo": SERVER}, aliases={"say": "demo.echo"}) as app:
        text, failed, _ = await answer(app, "return await say({ x: 1 })")
        assert failed
        assert "demo.echo({…})" in text
