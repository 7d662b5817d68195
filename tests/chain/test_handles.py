"""`results.*` and media descriptors as a chain really passes them: wrong ones are told, none costs the answer."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fixtures.backend_bench import ODD
from fixtures.running import answer, running_app
from gatemini.app import App

TOOLS = {"tools": [{"name": "result", "inputSchema": {"type": "object"}}]}
ODD_BACKEND = {"odd": {"command": sys.executable, "args": ["-I", "-S", str(ODD), json.dumps(TOOLS)]}}
pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    folder: Path = tmp_path_factory.mktemp("handles")
    async with running_app(folder) as app:
        yield app


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("rows(h, { offset: NaN })", "offset must be a whole number from 0, not null"),
        ("rows(h, { offset: -1 })", "offset must be a whole number from 0, not -1"),
        ("rows(h, { limit: '5' })", 'limit must be a whole number from 0, not "5"'),
        ("rows(h, { offest: 5 })", 'results.rows has no option "offest"; it has: offset, limit'),
        ("rows(h, 5)", "results.rows takes its options as an object, not 5"),
        ("save([1], 'label')", 'results.save takes its options as an object, not "label"'),
        ("save()", "results.save takes a value first"),
        ("compact([{ a: 1 }], { budget: 5 })", 'results.compact has no option "budget"'),
        ("rows('')", "results.rows takes a handle first"),
        ("load(NaN)", "results.load takes a handle first"),
        ("info('res_' + 'x'.repeat(100000))", "... does not exist in this session"),
    ],
)
async def test_a_wrong_argument_is_told_and_never_passed_over(app: App, call: str, said: str) -> None:
    code = f"""const {{ handle: h }} = await results.save(Array.from({{ length: 100 }}, (_, id) => ({{ id }})));
        try {{ return await results.{call}; }} catch (e) {{ return [e.name, e.message]; }}"""
    text, failed, _ = await answer(app, code)
    assert not failed
    name, message = json.loads(text.split("\n")[0])
    assert name == "ToolError"
    assert said in message
    assert len(message) < 300


async def test_chunks_go_on_from_an_offset(app: App) -> None:
    code = """const { handle } = await results.save(Array.from({ length: 100 }, (_, id) => id)); const seen = [];
        for await (const rows of results.chunks(handle, { rows: 30, offset: 35 })) seen.push([rows[0], rows.length]);
        return seen;"""
    text, failed, _ = await answer(app, code)
    assert not failed
    assert json.loads(text) == [[35, 30], [65, 30], [95, 5]]


@pytest.mark.parametrize(
    "value",
    [
        '{ type: "image", ref: "figure-7", bytes: "many" }',
        '{ type: "image", ref: "res_00000000", bytes: "x" }',
        '{ type: "image", ref: (await results.save([1, 2])).handle, bytes: -5, mimeType: 7 }',
        '{ type: "audio", ref: (await demo.image({})).ref }',
        '[{ type: "image", ref: "res_zzzzzzzz", bytes: 1e999 }]',
    ],
)
async def test_what_only_looks_like_an_image_is_data_and_never_costs_the_answer(app: App, value: str) -> None:
    text, failed, _ = await answer(app, f"const found = {value}; return {{ found, n: 1 }};")
    assert not failed
    assert json.loads(text.split("\n")[0])["n"] == 1
    assert "<image>" not in text
    assert "<audio>" not in text
    # Somebody else's `ref` is no business of ours; a handle of ours without an image is told.
    assert ("is kept under this ref" in text) == ("figure-7" not in value and "zzz" not in value)


async def test_an_image_goes_out_with_its_own_size_and_type_whatever_the_code_says_of_it(app: App) -> None:
    code = "const image = await demo.image({}); return { ...image, bytes: 1e12, mimeType: 'image/fake' };"
    result = await app.call_meta_tool("call_tool_chain", {"code": code})
    (block,) = result["content"]
    assert (block["type"], block["mimeType"]) == ("image", "image/png")


@pytest.mark.parametrize("mime", ["image/PNG", "Image/png", "png", None])
async def test_an_image_of_an_odd_type_goes_out_all_the_same(tmp_path: Path, mime: str | None) -> None:
    block = {"type": "image", "data": "iVBORw0KGgo=", **({"mimeType": mime} if mime else {})}
    async with running_app(tmp_path, ODD_BACKEND) as app:
        code = f"return await odd.result({{ result: {json.dumps({'content': [block]})} }});"
        result = await app.call_meta_tool("call_tool_chain", {"code": code})
    assert result["content"][0]["type"] == "image"
    assert result["content"][0]["data"] == block["data"]
