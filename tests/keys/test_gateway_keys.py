"""Keys of the gateway as a whole: registration, search, results, files, what is logged and what is kept."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from fixtures.config_keys import changed_app
from fixtures.direct import DEMO_SERVER
from fixtures.running import answer, running_app
from gatemini.app import App
from gatemini.backends.mcp_session import McpSession

pytestmark = [pytest.mark.anyio, pytest.mark.long]

NOWHERE = {"name": "far", "url": "http://127.0.0.1:9/mcp"}
PROGRAM = {"name": "near", "command": sys.executable, "args": ["-P", str(DEMO_SERVER)]}
COMMANDS = {
    "name": "cmd",
    "transport": "cli-adapter",
    "tools": {"hi": {"description": "x", "command": ["true"]}},
}


CLASSIC = {"search": {"ranking": "classic"}}


async def registered(app: App, template: dict[str, Any]) -> str:
    result = await app.call_meta_tool("register_manual", {"manual_call_template": template})
    return str(result["content"][0]["text"])


@pytest.mark.parametrize(
    ("key", "value", "template", "before", "after"),
    [
        pytest.param("registration.http", "deny", NOWHERE, "this machine", "denied", id="http"),
        pytest.param("registration.stdio", "allow", PROGRAM, "consent", "lists none", id="stdio"),
        pytest.param("registration.cli", "allow", COMMANDS, "consent", "lists none", id="cli"),
        pytest.param(
            "registration.allow_hosts",
            ["*.org"],
            NOWHERE,
            "this machine",
            "*.org",
            id="allow_hosts",
        ),
        pytest.param("max_dynamic_backends", 0, NOWHERE, "this machine", "max_dynamic_backends", id="max"),
    ],
)
@pytest.mark.proves(
    "registration.http",
    "registration.stdio",
    "registration.cli",
    "registration.allow_hosts",
    "max_dynamic_backends",
)
async def test_an_agent_may_register_what_the_registration_keys_allow(
    tmp_path: Path, key: str, value: Any, template: dict[str, Any], before: str, after: str
) -> None:
    async with changed_app(tmp_path, "log_level", "error") as app:
        assert before in await registered(app, template)
    async with changed_app(tmp_path, key, value) as app:
        assert after in await registered(app, template)


@pytest.mark.proves("registration.allow_commands")
async def test_an_agent_may_register_only_allowed_commands(tmp_path: Path) -> None:
    base = {"registration": {"stdio": "allow"}}
    async with changed_app(tmp_path, "registration.allow_commands", ["other"], base) as app:
        assert "allow_commands" in await registered(app, PROGRAM)
    async with changed_app(tmp_path, "registration.allow_commands", [sys.executable], base) as app:
        assert '"tools":' in await registered(app, PROGRAM)


async def scores(app: App) -> dict[str, float]:
    found = app.index.search("give back the arguments of a row with a name")
    return {hit.tool.name: hit.score for hit in found.hits}


@pytest.mark.parametrize(
    ("key", "value", "base"),
    [
        pytest.param("search.ranking", "classic", {}, id="ranking"),
        pytest.param("search.k1", 0.1, CLASSIC, id="k1"),
        pytest.param("search.b", 0.0, CLASSIC, id="b"),
        pytest.param("search.name_weight", 20, CLASSIC, id="name_weight"),
    ],
)
@pytest.mark.proves("search.ranking", "search.k1", "search.b", "search.name_weight")
async def test_search_ranks_by_the_configured_ranking(
    tmp_path: Path, key: str, value: Any, base: dict[str, Any]
) -> None:
    async with changed_app(tmp_path, "log_level", "error", base) as app:
        shipped = await scores(app)
    async with changed_app(tmp_path, key, value, base) as app:
        changed = await scores(app)
    assert shipped
    assert shipped != changed


@pytest.mark.proves("search.history", "cache_path")
async def test_searches_are_kept_in_the_configured_file(tmp_path: Path) -> None:
    for history in (True, False):
        folder = tmp_path / str(history)
        top: dict[str, Any] = {"search": {"history": history}, "cache_path": str(folder / "own" / "c.json")}
        folder.mkdir()
        async with running_app(folder, **top) as app:
            await app.call_meta_tool("search_tools", {"task_description": "echo"})
        assert (folder / "own" / "c.json").exists()
        assert (folder / "own" / "searches.jsonl").exists() is history


@pytest.mark.proves("semantic.model")
async def test_the_configured_model_is_loaded(tmp_path: Path) -> None:
    for model, says in (("none", None), (str(tmp_path), str(tmp_path)), ("bundled", None)):
        async with changed_app(tmp_path, "semantic.model", model) as app:
            with anyio.fail_after(60):
                await app.embedding.ready()
            assert (app.embedding.loaded is not None) is (model == "bundled")
            assert says is None or says in (app.embedding.problem or "")


@pytest.mark.proves("log_level")
async def test_logs_have_the_configured_level(tmp_path: Path) -> None:
    async with changed_app(tmp_path, "log_level", "error") as app:
        await app.reconfigure(app.loaded)
        assert not logging.getLogger("gatemini").isEnabledFor(logging.WARNING)
    async with changed_app(tmp_path, "log_level", "debug") as app:
        await app.reconfigure(app.loaded)
        assert logging.getLogger("gatemini").isEnabledFor(logging.DEBUG)


@pytest.fixture(autouse=True)
def same_log_level() -> Any:
    root = logging.getLogger()
    before = root.level
    yield
    root.setLevel(before)


@pytest.mark.proves("aliases")
async def test_aliases_are_resolved_to_their_tools(tmp_path: Path) -> None:
    async with changed_app(tmp_path, "aliases", {"plus": "demo.add"}) as app:
        text, failed, _ = await answer(app, json.dumps({"tool": "plus", "arguments": {"a": 1, "b": 2}}))
    assert (failed, json.loads(text)) == (False, {"sum": 3})


@pytest.mark.proves(
    "composite_tools.*.description", "composite_tools.*.input_schema", "composite_tools.*.code"
)
async def test_a_composite_tool_is_described_and_run_by_its_keys(tmp_path: Path) -> None:
    tool = {
        "description": "Doubles carefully.",
        "input_schema": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
        "code": "return (await demo.add({ a: args.x, b: args.x })).sum;",
    }
    async with changed_app(tmp_path, "composite_tools", {"double": tool}) as app:
        names = [t.qualified for t in app.registry.tools() if t.name == "double"]
        info = await app.call_meta_tool("tool_info", {"tool_name": names[0], "detail": "full"})
        assert "Doubles carefully." in info["content"][0]["text"]
        call = {"tool": names[0], "arguments": {"x": 21}}
        assert (await answer(app, json.dumps(call)))[0] == "42"
        assert "x" in (await answer(app, json.dumps({"tool": names[0], "arguments": {}})))[0]
        assert (await answer(app, json.dumps({"tool": names[0], "arguments": {}})))[1]


@pytest.mark.proves("backends.*.required_keys", "backends.*.health_check", "backends.*.adapter_file")
async def test_required_keys_adapter_file_and_health_check_take_effect(tmp_path: Path) -> None:
    async def ping(session: McpSession, seconds: float) -> None:
        await session.ping(timeout=seconds)

    async with changed_app(tmp_path, "backends.*.required_keys", ["BANK_KEY"]) as app:
        told = await app.call_meta_tool("get_required_keys_for_tool", {"tool_name": "demo.echo"})
        assert json.loads(told["content"][0]["text"])["missing"] == ["BANK_KEY"]
    adapter = tmp_path / "adapter.yaml"
    adapter.write_text("tools: {hi: {description: Says hi, command: [echo, hi]}}\nhealth_check: 'false'\n")
    base = {"backends": {"demo": {"transport": "cli-adapter"}}}
    async with changed_app(tmp_path, "backends.*.adapter_file", str(adapter), base) as app:
        assert (await answer(app, "return await demo.hi({});"))[0].strip() == "hi"
        with pytest.raises(Exception, match="health_check"):
            await app.manager.read("demo", ping, timeout=10)
    base = {"backends": {"demo": {"transport": "cli-adapter", "adapter_file": str(adapter)}}}
    async with changed_app(tmp_path, "backends.*.health_check", ["true"], base) as app:
        await app.manager.read("demo", ping, timeout=10)


@pytest.mark.proves("include")
async def test_the_configured_files_are_included(tmp_path: Path) -> None:
    more = tmp_path / "more.json"
    more.write_text(
        json.dumps({"mcpServers": {"other": {"command": sys.executable, "args": PROGRAM["args"]}}})
    )
    async with changed_app(tmp_path, "include", [str(more)]) as app:
        assert (await answer(app, "return (await other.add({ a: 1, b: 1 })).sum;"))[0] == "2"


@asynccontextmanager
async def kept(folder: Path, key: str, value: Any) -> AsyncIterator[Any]:
    """The results of a session after an answer of about 8 MB, in a gateway with this key."""
    async with changed_app(folder, key, value, {"results": {"memory_mb": 1}}) as app:
        session = app.new_session()
        code = "return await demo.rows({ n: 200000 });"
        await app.call_meta_tool("call_tool_chain", {"code": code}, session)
        yield session.results


@pytest.mark.proves("results.memory_mb", "results.disk_mb")
async def test_results_are_kept_within_the_configured_memory_and_disk(tmp_path: Path) -> None:
    async with kept(tmp_path, "results.memory_mb", 64) as results:
        assert results.handles()
        in_memory = results.info(results.handles()[0])
    async with kept(tmp_path, "results.disk_mb", 64) as results:
        assert results.handles()
        on_disk = results.info(results.handles()[0])
    async with kept(tmp_path, "results.disk_mb", 0) as results:
        assert not results.handles(), "neither memory nor disk holds it"
    assert in_memory["bytes"] == on_disk["bytes"]


@pytest.mark.proves("results.idle")
async def test_results_expire_after_the_configured_time(tmp_path: Path) -> None:
    for idle, left in (("1ms", 0), ("1h", 1)):
        async with changed_app(tmp_path, "results.idle", idle) as app:
            session = app.new_session()
            code = "return await demo.text({ n: 9000 });"
            arguments = {"code": code, "max_output_size": 1000}
            await app.call_meta_tool("call_tool_chain", arguments, session)
            if not left:
                with anyio.fail_after(60):
                    while session.results.handles():  # noqa: ASYNC110 - time is what it waits for
                        await anyio.sleep(0.001)
            assert len(session.results.handles()) == left


def sandbox_processes() -> set[int]:
    found = set()
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):  # one of another test, that ends just now
            if "gatemini_sandbox" in " ".join(child.cmdline()):
                found.add(child.pid)
    return found


@pytest.mark.proves("sandbox.isolation")
async def test_guests_run_in_processes_or_on_threads(tmp_path: Path) -> None:
    others = sandbox_processes()  # sandboxes that other tests of this run share
    for isolation, own in (("thread", False), ("process", True)):
        async with changed_app(tmp_path, "sandbox.isolation", isolation) as app:
            assert (await answer(app, "return 1;"))[0] == "1"
            assert bool(sandbox_processes() - others) is own


@pytest.mark.proves("sandbox.processes")
async def test_the_configured_number_of_sandbox_processes_is_kept(tmp_path: Path) -> None:
    others = sandbox_processes()
    async with changed_app(tmp_path, "sandbox.processes", 3) as app:
        await anyio.to_thread.run_sync(app.sandbox.warm)
        assert len(sandbox_processes() - others) == 3


@pytest.mark.proves("sandbox.guests_per_process")
async def test_a_full_sandbox_process_takes_no_further_chain(tmp_path: Path) -> None:
    others = sandbox_processes()
    async with (
        changed_app(tmp_path, "sandbox.guests_per_process", 1) as app,
        anyio.create_task_group() as tasks,
    ):
        waiting = "const slept = await demo.sleep({ ms: 20000 }); return [slept];"
        tasks.start_soon(app.call_meta_tool, "call_tool_chain", {"code": waiting})
        with anyio.fail_after(60):
            while not app.manager.status("demo").calls_open:  # noqa: ASYNC110 - nothing says so
                await anyio.sleep(0.005)
        before = len(sandbox_processes() - others)
        assert (await answer(app, "const a = 1; return a + 1;"))[0] == "2"
        assert len(sandbox_processes() - others) > before or before > 1
        tasks.cancel_scope.cancel()


@pytest.mark.proves("sandbox.max_concurrent_sandboxes")
async def test_a_chain_that_finds_no_free_guest_names_the_limit(tmp_path: Path) -> None:
    async with changed_app(tmp_path, "sandbox.max_concurrent_sandboxes", 1) as app:
        waiting = "const slept = await demo.sleep({ ms: 20000 }); return [slept];"
        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(app.call_meta_tool, "call_tool_chain", {"code": waiting})
            with anyio.fail_after(60):
                while app.manager.status("demo").calls_open < 8:  # noqa: ASYNC110 - there is no event
                    await anyio.sleep(0.005)
            text, _, _ = await answer(app, "return 1;", timeout=200)
            tasks.cancel_scope.cancel()
    assert "sandbox.max_concurrent_sandboxes" in text
