"""What a result has beside its structured content reaches the code and the client, without a second call."""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.backend_bench import ODD
from fixtures.running import answer, running_app
from gatemini.app import App

pytestmark = pytest.mark.anyio

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(60)).decode()
PAGE = {
    "content": [
        {"type": "text", "text": "the whole page"},
        {"type": "image", "data": PNG, "mimeType": "image/png"},
    ],
    "structuredContent": {"source": "a", "share_id": 5},
}
CALL = f"odd.result({json.dumps({'result': PAGE})})"
SINGLE = f"return await {CALL};"
SCRIPT = f"const page = await {CALL}; return page;"
PART = f"const page = await {CALL}; return page.source;"


@pytest.fixture(scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    folder: Path = tmp_path_factory.mktemp("beside")
    backends: dict[str, dict[str, Any]] = {
        "odd": {"command": sys.executable, "args": ["-I", "-S", str(ODD), "{}"]}
    }
    async with running_app(folder, backends) as app:
        yield app


def handles(text: str) -> list[str]:
    return re.findall(r"(?:text|image) \([^)]*\) as (res_[0-9a-f]{8})", text)


@pytest.mark.parametrize("code", [SINGLE, SCRIPT, PART])
async def test_text_and_image_beside_the_value_are_named_with_handles_that_load_them(
    app: App, code: str
) -> None:
    session = app.new_session()
    result = await app.surface(session).call_tool("call_tool_chain", {"code": code})
    kinds = [block["type"] for block in result["content"]]
    assert kinds == (["text", "text"] if code == PART else ["text", "image", "text"])
    note = result["content"][-1]["text"]
    assert "beside its structured content odd.result sent text (14 characters) as res_" in note
    assert "image (image/png, 68 bytes) as res_" in note
    text, image = handles(note)
    load = f'return [await results.load("{text}"), await results.load("{image}")];'
    again = await app.surface(session).call_tool("call_tool_chain", {"code": load})
    assert again["content"][1] == {"type": "image", "data": PNG, "mimeType": "image/png"}
    page, shown = json.loads(again["content"][0]["text"])
    assert page == "the whole page"
    assert shown == {"type": "image", "mimeType": "image/png", "bytes": 68, "ref": image}


async def test_a_loop_over_such_results_makes_one_note(app: App) -> None:
    text, failed, _ = await answer(app, f"for (let n = 0; n < 30; n++) await {CALL}; return 1;")
    assert not failed, text
    assert text.count("beside its structured content") == 1
    assert "and 55 more" in text


LARGE = """
const row = JSON.stringify({ text: "x".repeat(1000) });
const text = `[${Array(1500).fill(row)}, NaN, {"big": 1e999}]`;
const rows = await odd.result({ result: { content: [{ type: "text", text }] } });
return [rows.length, rows.at(-2), rows.at(-1)];
"""


async def test_a_large_text_with_nan_is_read_like_a_small_one(app: App) -> None:
    text, failed, _ = await answer(app, LARGE)
    assert not failed, text
    assert text.startswith('[1502,null,{"big":null}]')
    assert "2 numbers are NaN, Infinity or beyond 1.8e308: read as null" in text


async def test_a_number_beyond_a_double_in_structured_content_is_null_with_a_note(app: App) -> None:
    raw = '{"jsonrpc": "2.0", "id": ID, "result": {"content": [], "structuredContent": {"x": 1e400}}}\n'
    text, failed, _ = await answer(app, f"return await odd.raw({json.dumps({'text': raw})});")
    assert not failed, text
    assert text == '{"x":null}\na number beyond 1.8e308 was read as null'
