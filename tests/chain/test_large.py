"""Large results are read in the compute process: the same text, and the same answer in every tier."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.gate_server import STATE
from fixtures.running import answer, running_app
from gatemini.app import App
from gatemini.output.json.javascript_json import loads, with_long_integers_quoted
from gatemini.protocol.sessions.client_session import Session

ROWS = 32_000
VALUES = st.recursive(
    st.none()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6)
    | st.sampled_from(
        [2**53 - 1, 2**53, -(2**53), "\\", '"', "1234567890123456789", '\\",1234567890123456789']
    ),
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.text(max_size=4), inner, max_size=9),
    max_leaves=40,
)


@given(VALUES, st.sampled_from([None, 1]))
def test_long_integers_are_quoted_where_reading_makes_strings_of_them(value: Any, indent: int | None) -> None:
    data = json.dumps(value, indent=indent).encode()
    text, kept = with_long_integers_quoted(data)
    assert (json.loads(text), kept) == loads(data)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    server = Path(__file__).parents[1] / "fixtures" / "demo_server.py"
    piped = {"command": sys.executable, "args": ["-P", str(server)]}
    plain = {"transport": "python", "module": "fixtures.demo_server:server"}
    gate = {"transport": "python", "module": "fixtures.gate_server:server"}
    async with running_app(
        tmp_path_factory.mktemp("large"), {"piped": piped, "plain": plain, "gate": gate}
    ) as running:
        yield running


def without_handles(text: str) -> str:
    return re.sub(r"res_[0-9a-f]{8}", "HANDLE", text)


@pytest.mark.anyio
@pytest.mark.parametrize("backend", ["piped", "plain"])
@pytest.mark.parametrize("call", [f"rows({{n: {ROWS}}})", "text({n: 1200000})", f"rows.raw({{n: {ROWS}}})"])
async def test_a_large_result_is_the_same_answer_in_every_tier(app: App, backend: str, call: str) -> None:
    direct, failed, meta = await answer(app, f"return await {backend}.{call}")
    scripted, failed_too, _ = await answer(app, f"const r = await {backend}.{call};\nif (r) {{ return r; }}")
    assert not failed
    assert not failed_too
    assert meta["tier"] == (3 if "raw" in call else 2)
    assert without_handles(direct) == without_handles(scripted)
    assert "HANDLE" in without_handles(direct)


@pytest.mark.anyio
@pytest.mark.parametrize("backend", ["piped", "plain"])
async def test_an_array_of_calls_keeps_large_and_small_values_in_order(app: App, backend: str) -> None:
    calls = [
        {"tool": f"{backend}.rows", "arguments": {"n": ROWS}},
        {"tool": f"{backend}.fail", "arguments": {"message": "boom"}},
        {"tool": f"{backend}.rows", "arguments": {"n": 1}},
    ]
    session = app.new_session()
    text = await _said(app, session, json.dumps(calls))
    handle = re.search(r"res_[0-9a-f]{8}", text)
    assert handle is not None
    code = f"""const all = await results.load("{handle[0]}");
return [all[0].ok, all[0].value.length, all[0].value.at(-1).id, all[1].ok, all[2].value[0].id];"""
    assert await _said(app, session, code) == f"[true,{ROWS},{ROWS - 1},false,0]"


async def _said(app: App, session: Session, code: str) -> str:
    result = await app.call_meta_tool("call_tool_chain", {"code": code}, session)
    return "\n".join(block["text"] for block in result["content"])


@pytest.mark.anyio
async def test_a_large_result_is_given_again_to_a_chain_that_is_resumed(app: App) -> None:
    session = app.new_session()
    code = f"""const rows = await piped.rows({{ n: {ROWS} }});
await gate.read({{ tag: "go" }});
return rows.length;"""
    STATE.clear()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_said, app, session, code)
        await STATE.arrived("go")
        tasks.cancel_scope.cancel()
    ident = next(reversed(session.journals.kept))
    STATE.open("go")
    result = await app.call_meta_tool("call_tool_chain", {"code": f"// @resume {ident}\n{code}"}, session)
    assert result["content"][0]["text"] == str(ROWS)
    calls = result["_meta"]["gatemini/chain"]["calls"]
    assert [call["outcome"] for call in calls] == ["ok (from the journal)", "ok"]
