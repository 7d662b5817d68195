"""Limits of what crosses the border of a chain, from the configuration file to the error: nothing is lost unseen."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest

from fixtures.modes import MODES
from fixtures.running import answer, running_app
from gatemini.app import App
from gatemini.chain.conversation import STARTED_AT_ONCE
from gatemini.model import Json
from gatemini.policy.visibility import Listing

pytestmark = pytest.mark.anyio

ISOLATION = pytest.mark.parametrize("isolation", MODES)


@ISOLATION
async def test_a_result_too_large_for_the_code_is_kept_under_the_handle_its_error_names(
    tmp_path: Path, isolation: str
) -> None:
    async with running_app(tmp_path, sandbox={"isolation": isolation, "max_result_bytes": 3000}) as app:
        session = app.new_session()

        async def run(code: str) -> Json:
            return await app.call_meta_tool("call_tool_chain", {"code": code}, session)

        failed = await run("return (await demo.rows({ n: 1000 })).length")
        text = failed["content"][0]["text"]
        assert failed["isError"], text
        assert text.startswith("LimitError: the result of demo.rows has ")
        assert "code takes 3000 at a time (limit.result: sandbox.max_result_bytes)" in text
        assert "demo.rows: ok" in text
        read = await run(
            "try { await demo.rows({ n: 1000 }) } catch (e) {\n"
            "  const handle = /res_[0-9a-f]{8}/.exec(e.message)[0]; let n = 0;\n"
            "  for await (const rows of results.chunks(handle, { rows: 40 })) n += rows.length;\n"
            "  return [e.name, e.code, e.tool, n];\n"
            "}"
        )
        assert json.loads(read["content"][0]["text"]) == ["LimitError", "limit.result", "demo.rows", 1000]
        app.end_session(session)


async def test_a_text_too_large_for_the_code_is_stored_and_both_sizes_are_named(tmp_path: Path) -> None:
    """Each end of a line takes two bytes in JSON."""
    backends = {"cli": {"tools": {"lines": {"command": ["sh", "-c", "yes '' | head -c 2001"]}}}}
    async with running_app(tmp_path, backends, sandbox={"max_result_bytes": 3000}) as app:
        session = app.new_session()
        code = "try { await cli.lines({}) } catch (e) { return e.message }"
        result = await app.call_meta_tool("call_tool_chain", {"code": code}, session)
        message = result["content"][0]["text"]
        assert "has 2000 bytes (4002 as JSON) and code takes 3000" in message
        assert session.results.text(message[message.index("res_") :]) == "\n" * 2000
        app.end_session(session)


@ISOLATION
@pytest.mark.parametrize(
    ("code", "says"),
    [
        (
            "return demo.echo({ a: Array.from({ length: 60 }).reduce((a) => [a], 1) })",
            "LimitError: the arguments of demo.echo are nested deeper than 50 levels",
        ),
        (
            "return demo.echo({ a: new Uint8Array(3000) })",
            "LimitError: the arguments of demo.echo are larger than 2000 bytes",
        ),
    ],
)
async def test_arguments_beyond_a_limit_are_an_error_and_never_sent_changed(
    tmp_path: Path, isolation: str, code: str, says: str
) -> None:
    limits = {"isolation": isolation, "max_depth": 50, "max_argument_bytes": 2000}
    async with running_app(tmp_path, sandbox=limits) as app:
        text, failed, meta = await answer(app, code)
    assert failed
    assert text.startswith(says)
    assert meta["calls"] == []


async def test_the_limit_of_arguments_holds_for_a_single_call_too(tmp_path: Path) -> None:
    async with running_app(tmp_path, sandbox={"max_argument_bytes": 2000}) as app:
        text, failed, meta = await answer(app, f'return demo.echo({{ s: "{"x" * 2000}" }})')
    assert failed
    assert text.startswith("LimitError: the arguments of demo.echo are larger than 2000 bytes")
    assert "HINT: pass less data in one call" in text
    assert meta["calls"] == []


@ISOLATION
async def test_an_endless_wait_lasts_as_long_as_the_chain(tmp_path: Path, isolation: str) -> None:
    async with running_app(tmp_path, sandbox={"isolation": isolation}) as app:
        text, failed, _ = await answer(app, "return Promise.race([demo.echo({ n: 1 }), sleep(Infinity)])")
        assert (text.splitlines()[0], failed) == ('{"n":1}', False)
        text, failed, _ = await answer(app, "await sleep(1e300)", timeout=300)
        assert text.startswith("ChainTimeout: the chain did not end within its timeout of 300 ms")


@pytest.mark.long
@ISOLATION
@pytest.mark.parametrize(
    ("code", "timeout", "computing"),
    [
        # Long enough to come to the loop within three quarters of the time on a busy machine too.
        ("await demo.echo({});\nfor (;;) {}", 3000, True),
        ("for (;;) await null;", 3000, True),
        ("await sleep(60000);", 700, False),
        ("await demo.sleep({ ms: 60000 });", 700, False),
        ("await demo.sleep({ ms: 600 });\nfor (;;) {}", 700, False),
        ("await sleep(600);\nfor (;;) {}", 700, False),
    ],
)
async def test_a_timeout_says_whether_the_code_computed_or_waited(
    tmp_path: Path, isolation: str, code: str, timeout: int, computing: bool
) -> None:
    async with running_app(tmp_path, sandbox={"isolation": isolation}) as app:
        assert (await answer(app, "return [1];"))[0] == "[1]"  # a worker is there
        text, failed, _ = await answer(app, code, timeout=timeout)
    assert failed
    assert text.startswith(
        f"ChainTimeout: the chain did not end within its timeout of {timeout:,} ms (limit.time)"
    )
    assert ("the code was computing, not waiting" in text) is computing


@pytest.mark.long
async def test_a_call_that_the_end_of_the_chains_time_cuts_off_is_listed_in_one_form(tmp_path: Path) -> None:
    codes = (
        "await demo.sleep({ ms: 60000 }); return 1;",
        "return await Promise.all([demo.sleep({ ms: 60000 }), sleep(60000)]);",
        '{"tool": "demo.sleep", "arguments": {"ms": 60000}}',
    )
    listed: dict[str, str] = {}

    async def run(app: App, code: str) -> None:
        text, _, _ = await answer(app, code, timeout=3000)
        calls = text.partition("Calls made before the error:\n")[2]
        listed[code] = calls.partition(" (")[0].strip()

    async with running_app(tmp_path) as app:
        assert (await answer(app, "return 'a worker is there'"))[0] == "a worker is there"
        async with anyio.create_task_group() as tasks:
            for code in codes:
                tasks.start_soon(run, app, code)
    assert listed == dict.fromkeys(codes, "1. demo.sleep: cancelled")


async def test_a_caught_error_is_listed_with_its_second_line_after_a_colon(
    tmp_path: Path,
) -> None:
    code = """try { await demo.fail({ message: "it wrote:\\n  disk full\\n  giving up" }) } catch {}
throw new Error("no");"""
    async with running_app(tmp_path) as app:
        text, _, _ = await answer(app, code)
    assert "1. demo.fail: error: it wrote: disk full giving up" in text


async def test_thousands_of_calls_issued_together_leave_the_event_loop_to_others(tmp_path: Path) -> None:
    turns = 0
    served: Counter[int] = Counter()

    async def discovery(_name: str, _arguments: Json, _listing: Listing) -> Any:
        served[turns] += 1
        return []

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with running_app(tmp_path) as app, anyio.create_task_group() as tasks:
        app.chain.discovery = discovery
        tasks.start_soon(others)
        code = "const all = []; for (let i = 0; i < 2000; i++) all.push(gatemini.list_tools_meta({}));\n"
        text, _, _ = await answer(app, code + "return (await Promise.all(all)).length")
        tasks.cancel_scope.cancel()
    assert text == "2000"
    assert served.total() == 2000
    assert max(served.values()) <= STARTED_AT_ONCE
