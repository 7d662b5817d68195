"""Two clients of one gateway do not see what belongs to the other."""

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client

from fixtures.backend_bench import ODD
from fixtures.direct import text_of
from fixtures.running import client_of, running_app
from gatemini.app import App
from gatemini.backends.calls.callers import RpcError
from gatemini.protocol.questions.clients import ConnectedClients
from gatemini.protocol.sessions.client_session import Session

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

EXTRA = {"name": "zebra", "command": sys.executable, "args": ["-I", "-S", str(ODD), "{}"]}
OPEN = {"stdio": "allow", "allow_commands": ["*"]}
SERVER = str(Path(__file__).parents[1] / "fixtures" / "asking_server.py")
OLD = {"old": {"command": sys.executable, "args": ["-P", SERVER, "handshake"]}}


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    async with running_app(tmp_path, registration=OPEN) as running:
        yield running


async def told(app: App, session: Session, name: str, **arguments: Any) -> str:
    result = await app.call_meta_tool(name, arguments, session)
    return "\n".join(block.get("text", "") for block in result["content"])


async def chain(app: App, session: Session, code: str) -> str:
    return await told(app, session, "call_tool_chain", code=code)


async def naming_zebra(app: App, session: Session) -> set[str]:
    """Of all that one session is told of backends and their tools, what names the registered one."""
    surface = app.surface(session)
    texts = {
        "instructions": surface.instructions(),
        "definitions": str(surface.tool_definitions()),
        "search": await told(app, session, "search_tools", task_description="echo the arguments"),
        "list": await told(app, session, "list_tools_meta", page_size=100),
        "names": await chain(app, session, "return Object.keys(__backends)"),
        "interfaces": await chain(app, session, "return __interfaces"),
        "completion": str(surface.complete("backend_name", "")),
    }
    for resource in ("overview", "backends", "tools", "health", "llms", "llms-full"):
        texts[resource] = (await surface.read_resource(f"gatemini://{resource}"))[1]
    return {name for name, text in texts.items() if "zebra" in text}


async def test_what_one_client_registers_is_there_for_no_other_and_ends_with_it(app: App) -> None:
    mine, other = app.new_session(), app.new_session()
    assert '"tools"' in await told(app, mine, "register_manual", manual_call_template=EXTRA)
    pid = app.manager.status("zebra").pid
    assert await chain(app, mine, "return (await zebra.echo({ a: 5 })).a") == "5"
    assert len(await naming_zebra(app, mine)) > 10
    assert await naming_zebra(app, other) == set()
    for code in (
        "return await zebra.echo({})",
        'return await __backends["zebra"].call("echo", {})',
        '{"tool": "zebra.echo", "arguments": {}}',
        'return __getToolInterface("zebra.echo").name',
    ):
        answer = await chain(app, other, code)
        assert "Error" in answer or "NotFound" in answer, answer
        assert "{}" not in answer.splitlines()[0]
    assert "there is no dynamic backend" in await told(app, other, "deregister_manual", manual_name="zebra")
    taken = await told(app, other, "register_manual", manual_call_template=EXTRA)
    assert "'zebra' is a name that cannot be used now" in taken
    app.end_session(mine)
    assert '"tools"' in await told(app, other, "register_manual", manual_call_template=EXTRA)
    assert await chain(app, other, "return (await zebra.echo({ a: 6 })).a") == "6"
    assert app.manager.status("zebra").pid != pid
    app.end_session(other)
    with anyio.fail_after(60):
        while "zebra" in app.manager.names():  # noqa: ASYNC110 - no event tells that
            await anyio.sleep(0.01)


async def test_a_client_gets_the_log_messages_that_its_own_level_lets_through(tmp_path: Path) -> None:
    heard: dict[str, list[str]] = {"debug": [], "error": []}

    def listening(app: App, level: str) -> Client:
        async def note(params: types.LoggingMessageNotificationParams) -> None:
            heard[level].append(str(params.level))

        return client_of(app, mode="legacy", logging_callback=note)

    async with (
        running_app(tmp_path, OLD) as app,
        listening(app, "debug") as one,
        listening(app, "error") as two,
    ):
        await one.set_logging_level("debug")
        await two.set_logging_level("error")
        for client in (one, two):
            lines = [["info", "x"], ["error", "y"]]
            code = f"return await old.log({json.dumps({'lines': lines})});"
            result = await client.call_tool("call_tool_chain", {"code": code})
            assert not result.is_error, text_of(result)
            await client.send_ping()
    assert heard == {"debug": ["info", "error"], "error": ["error"]}


async def test_a_client_is_notified_of_its_own_subscriptions(app: App) -> None:
    heard: list[list[str]] = [[], []]
    updated = anyio.Event()

    def listening(number: int) -> Client:
        async def note(message: Any) -> None:
            if isinstance(message, types.ResourceUpdatedNotification):
                heard[number].append(str(message.params.uri))
                updated.set()

        return client_of(app, mode="legacy", message_handler=note)

    async with listening(0) as one, listening(1) as two:
        await one.subscribe_resource("gatemini://recent")
        await two.call_tool("call_tool_chain", {"code": "return await demo.add({ a: 1, b: 2 })"})
        with anyio.fail_after(60):
            await updated.wait()
        await two.send_ping()
    assert set(heard[0]) == {"gatemini://recent"}
    assert heard[1] == []


async def test_each_client_has_the_budget_of_its_program(app: App) -> None:
    lengths = {}
    for name in ("Visual Studio Code", "gatemini"):
        session = app.new_session()
        session.client = name
        lengths[name] = len(await chain(app, session, 'throw new Error("x".repeat(20000))'))
    assert lengths["Visual Studio Code"] < 8 * 1024
    assert lengths["gatemini"] > 8 * 1024


async def test_an_instance_gets_the_roots_of_its_session_and_a_shared_backend_none_of_several() -> None:
    clients = ConnectedClients(expected=True)

    def roots(name: str) -> Any:
        async def ask(method: str, params: Any) -> Any:
            return {"roots": [{"uri": f"file:///{name}"}]}

        return ask

    for name in ("one", "two"):
        clients.learn(name, {"roots": {}}, roots(name))
    for name in ("one", "two"):
        assert (await clients.of(name, "web").ask("roots/list", {}))["roots"] == [{"uri": f"file:///{name}"}]
    with pytest.raises(RpcError, match="only while a call of it is open"):
        await clients.of(None, "web").ask("roots/list", {})
    with pytest.raises(RpcError, match="only while a call of it is open"):
        await clients.of("one", "web").ask("sampling/createMessage", {})
    clients.forget("one")
    with pytest.raises(RpcError, match="does not answer"):
        await clients.of("one", "web").ask("roots/list", {})
