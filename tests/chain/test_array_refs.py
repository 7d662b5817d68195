"""A long typed array that a chain returned, read by the next chain of the session and given to a tool."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from fixtures.running import running_app

pytestmark = pytest.mark.anyio


async def test_the_ref_of_a_returned_typed_array_gives_its_items_and_its_bytes(tmp_path: Path) -> None:
    async with running_app(tmp_path) as app:
        session = app.new_session()

        async def value(code: str) -> object:
            result = await app.call_meta_tool("call_tool_chain", {"code": code}, session)
            assert not result["isError"], result
            return json.loads(result["content"][0]["text"])

        made = await value("return new Uint16Array(1500).fill(258)")
        assert isinstance(made, dict)
        ref = made.pop("ref")
        assert made == {"type": "Uint16Array", "length": 1500}
        data = base64.b64encode(b"\x02\x01" * 1500).decode()
        read = await value(
            f"const items = await results.load('{ref}');\n"
            f"const sent = await demo.echo({{ data: await results.base64('{ref}'), ref: '{ref}' }});\n"
            f"return [items.length, items[1499], sent.ref, sent.data === '{data}'];"
        )
        assert read == [1500, 258, ref, True]
        app.end_session(session)
