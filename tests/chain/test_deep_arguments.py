"""Arguments nested up to the limit reach a backend unchanged in every tier.

The backend reads its lines with the standard library: the parsers of most SDKs end some 200 levels deep.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fixtures.backend_bench import ODD
from fixtures.modes import MODES
from fixtures.running import answer, running_app

pytestmark = pytest.mark.anyio

BACKEND = {"demo": {"command": sys.executable, "args": ["-I", "-S", str(ODD)]}}
DEPTHS = (200, 254, 255, 256, 500, 990, 998)
"""Nested lists in the one argument; the object of arguments is one more level."""


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def counted(call: str) -> str:
    """Return code that counts the levels of the answer."""
    return f"const r = await {call}; let d = 0; for (let v = r.x; v !== undefined; v = v[0]) d++; return d"


@pytest.mark.long
@pytest.mark.parametrize("isolation", MODES)
async def test_deep_arguments_reach_a_backend_in_every_tier(tmp_path: Path, isolation: str) -> None:
    async with running_app(tmp_path, BACKEND, sandbox={"isolation": isolation}) as app:
        for depth in DEPTHS:
            built = f"let x = []; for (let i = 1; i < {depth}; i++) x = [x]; " + counted("demo.echo({ x })")
            assert (await answer(app, built))[:2] == (str(depth), False)
            called = f'{{"tool": "demo.echo", "arguments": {{"x": {nested(depth)}}}}}'
            text, failed, meta = await answer(app, called, max_output_size=100_000)
            assert not failed, text
            assert nested(depth) in text
            assert [call["outcome"] for call in meta["calls"]] == ["ok"]
            for code in (
                counted(f"demo.echo({{ x: {nested(depth)} }})"),
                f"return await demo.echo({{ x: {nested(depth)} }})",
            ):
                # Parsing a literal takes stack: the deepest ones may end with the error for that.
                text, failed, _ = await answer(app, code, max_output_size=100_000)
                right = text == str(depth) or nested(depth) in text
                assert right is not failed
                assert right or (depth > 500 and text.startswith("StackError")), text
