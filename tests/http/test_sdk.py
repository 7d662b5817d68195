"""What the MCP SDK and uvicorn lack, a test each. One that fails after an upgrade names what of ours may go.

The first tests show what we rely on instead.
"""

from __future__ import annotations

import asyncio
import json
import pkgutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp.server.auth
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.context import ClientRequestContext
from mcp.server.auth.provider import TokenVerifier
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import EventStore
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.message import ServerMessageMetadata
from starlette.types import Message
from uvicorn.protocols.http.h11_impl import H11Protocol

from fixtures.daemons import LEGACY, MODERN
from gatemini.http.network.connections import BoundedConnection
from gatemini.http.sdk_sessions import SessionManager
from gatemini.http.serve import listening
from gatemini.protocol.questions.named_requests import send_named

pytestmark = pytest.mark.anyio

LEGACY_VERSION = {"mcp-protocol-version": "2025-06-18"}
MODERN_VERSION = {"mcp-protocol-version": "2026-07-28"}

QUESTION = types.ElicitRequest.model_validate(
    {
        "method": "elicitation/create",
        "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}},
    }
)


class Plain:
    """A server of the SDK with a tool that waits, and one that asks the user."""

    def __init__(self, **options: Any) -> None:
        self.lists = 0
        self.waiting = anyio.Event()
        self.cancelled = anyio.Event()
        self.asked: BaseException | None = None
        self.server: Server[Any] = Server(
            "plain", on_list_tools=self.list_tools, on_call_tool=self.call_tool, **options
        )

    async def list_tools(self, *_: Any) -> types.ListToolsResult:
        self.lists += 1
        tools = [types.Tool(name=name, input_schema={"type": "object"}) for name in ("wait", "ask", "echo")]
        return types.ListToolsResult(tools=tools)

    async def call_tool(
        self, context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        if params.name == "wait":
            self.waiting.set()
            try:
                await anyio.sleep_forever()
            finally:
                self.cancelled.set()
        if params.name == "ask":
            try:
                beside = ServerMessageMetadata(related_request_id=context.request_id)
                await context.session.send_request(QUESTION, types.ElicitResult, metadata=beside)
            except (MCPError, NoBackChannelError) as refused:
                self.asked = refused
        return types.CallToolResult(content=[])


async def send(
    manager: StreamableHTTPSessionManager,
    message: dict[str, Any],
    headers: dict[str, str],
    gone: anyio.Event | None = None,
) -> tuple[int, dict[str, str], str]:
    """POST a message; (status, headers, body). The client hangs up when `gone` is set."""
    fields = {"accept": "application/json, text/event-stream", "content-type": "application/json", **headers}
    scope: dict[str, Any] = {
        "type": "http", "method": "POST", "path": "/mcp", "raw_path": b"/mcp", "query_string": b"", "root_path": "",
        "headers": [(key.encode(), value.encode()) for key, value in fields.items()],
        "http_version": "1.1", "scheme": "http", "server": ("x", 1), "client": ("y", 2), "state": {},
    }  # fmt: skip
    unread = [json.dumps({"jsonrpc": "2.0", **message}).encode()]
    found: list[Message] = []

    async def receive() -> Message:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        await (gone or anyio.Event()).wait()
        return {"type": "http.disconnect"}

    async def write(message: Message) -> None:
        found.append(message)

    await manager.handle_request(scope, receive, write)
    if not found:
        return 0, {}, ""
    names = {key.decode(): value.decode() for key, value in found[0]["headers"]}
    return found[0]["status"], names, b"".join(each.get("body", b"") for each in found[1:]).decode()


async def handshake(manager: StreamableHTTPSessionManager) -> dict[str, str]:
    _, headers, _ = await send(manager, {"id": 1, "method": "initialize", "params": LEGACY}, {})
    session = {**LEGACY_VERSION, "mcp-session-id": headers["mcp-session-id"]}
    await send(manager, {"method": "notifications/initialized"}, session)
    return session


def call(name: str, *, modern: bool = False, **arguments: Any) -> tuple[dict[str, Any], dict[str, str]]:
    params: dict[str, Any] = {"name": name, "arguments": arguments}
    if modern:
        params["_meta"] = MODERN
    headers = {**MODERN_VERSION, "mcp-method": "tools/call", "mcp-name": name} if modern else {}
    return {"id": 7, "method": "tools/call", "params": params}, headers


@asynccontextmanager
async def managed(plain: Plain, **options: Any) -> AsyncIterator[StreamableHTTPSessionManager]:
    manager = StreamableHTTPSessionManager(plain.server, **options)
    async with manager.run():
        yield manager


# -- what we rely on ---------------------------------------------------------------------------------


async def test_the_manager_reads_its_server_in_the_task_of_the_request_in_both_eras() -> None:
    first, second = Plain(), Plain()
    manager = SessionManager(Server("nobody"))
    async with manager.run():
        with manager.serving(first.server):
            session = await handshake(manager)
        with manager.serving(second.server):  # the session keeps the server of its first request
            await send(manager, {"id": 2, "method": "tools/list"}, session)
            params = {"_meta": MODERN}
            headers = {**MODERN_VERSION, "mcp-method": "tools/list"}
            await send(manager, {"id": 3, "method": "tools/list", "params": params}, headers)
    assert (first.lists, second.lists) == (1, 1)


async def test_the_manager_gives_a_new_session_an_id_of_ours_and_opens_it_without_a_connection() -> None:
    manager, plain = SessionManager(Server("nobody")), Plain()
    async with manager.run():
        opening = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": LEGACY}).encode()
        assert await manager.inject(plain.server, None, "ours.1.x", opening, opens=True) == 200
        done = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
        assert await manager.inject(plain.server, None, "ours.1.x", done) == 202
        session = {**LEGACY_VERSION, "mcp-session-id": "ours.1.x"}
        status, headers, _ = await send(manager, {"id": 2, "method": "tools/list"}, session)
        assert (status, headers["mcp-session-id"]) == (200, "ours.1.x")
        assert await manager.inject(plain.server, None, "ours.1.x", method="DELETE") == 200
        assert (await send(manager, {"id": 3, "method": "tools/list"}, session))[0] == 404


async def test_a_request_to_the_client_goes_out_under_an_id_of_ours() -> None:
    asked: list[object] = []

    async def agree(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append((context.request_id, params.message))
        return types.ElicitResult(action="accept", content={})

    async def ask(
        context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        for in_call in (True, False):
            given = await send_named(
                context.session, QUESTION, types.ElicitResult, f"ours-{in_call}", in_call=in_call
            )
            assert given.action == "accept"
        return types.CallToolResult(content=[])

    server: Server[Any] = Server("asks", on_list_tools=Plain().list_tools, on_call_tool=ask)
    async with Client(server, elicitation_callback=agree, mode="legacy") as client:
        assert not (await client.call_tool("ask", {})).is_error
    assert asked == [("ours-True", "?"), ("ours-False", "?")]


async def test_asyncio_sends_without_delay_on_connections_of_our_socket() -> None:
    with listening("127.0.0.1", 0) as sock:
        made: list[int] = []

        def connected(reader: Any, writer: asyncio.StreamWriter) -> None:
            option = writer.get_extra_info("socket").getsockopt(6, 1)  # TCP_NODELAY
            made.append(option)
            writer.close()

        server = await asyncio.start_server(connected, sock=sock)
        async with server:
            reader, writer = await asyncio.open_connection("127.0.0.1", sock.getsockname()[1])
            await reader.read()
            writer.close()
    assert made[0]


# -- what the SDK lacks ------------------------------------------------------------------------------


async def test_lack_a_session_of_the_handshake_eras_lives_in_one_process() -> None:
    async with managed(Plain()) as one, managed(Plain()) as other:
        session = await handshake(one)
        assert (await send(one, {"id": 2, "method": "tools/list"}, session))[0] == 200
        assert (await send(other, {"id": 2, "method": "tools/list"}, session))[0] == 404


@pytest.mark.parametrize("options", [{"stateless": True}, {"json_response": True}])
async def test_lack_without_sessions_or_streams_the_handshake_eras_cannot_ask_the_user(options: Any) -> None:
    plain = Plain()
    async with managed(plain, **options) as manager:
        session = {**LEGACY_VERSION} if "stateless" in options else await handshake(manager)
        with anyio.move_on_after(5):
            await send(manager, call("ask")[0], session)
    assert isinstance(plain.asked, NoBackChannelError)


def test_lack_there_is_no_verifier_of_jwts_and_no_token_file() -> None:
    modules = [module.name for module in pkgutil.walk_packages(mcp.server.auth.__path__)]
    assert not [name for name in modules if "jwt" in name or "jwk" in name or "limit" in name]
    assert not [each for each in TokenVerifier.__subclasses__() if each.__module__ == "mcp.server.auth"]


async def test_lack_host_and_origin_are_not_checked_unless_settings_are_given() -> None:
    async with managed(Plain()) as manager:
        headers = {"host": "evil.example", "origin": "https://evil.example"}
        found = await send(manager, {"id": 1, "method": "initialize", "params": LEGACY}, headers)
        assert found[0] == 200


@pytest.mark.parametrize(("modern", "json_response"), [(False, False), (False, True), (True, True)])
async def test_lack_a_client_that_hangs_up_does_not_cancel_its_request(
    modern: bool, json_response: bool
) -> None:
    plain, gone = Plain(), anyio.Event()
    async with managed(plain, json_response=json_response) as manager, anyio.create_task_group() as tasks:
        session = {} if modern else await handshake(manager)
        message, headers = call("wait", modern=modern)
        tasks.start_soon(send, manager, message, {**headers, **session}, gone)
        await plain.waiting.wait()
        gone.set()
        with anyio.move_on_after(0.3) as waited:
            await plain.cancelled.wait()
        assert waited.cancelled_caught
        tasks.cancel_scope.cancel()


async def test_on_2026_07_28_with_streams_it_does() -> None:
    plain, gone = Plain(), anyio.Event()
    async with managed(plain) as manager, anyio.create_task_group() as tasks:
        message, headers = call("wait", modern=True)
        tasks.start_soon(send, manager, message, headers, gone)
        await plain.waiting.wait()
        gone.set()
        with anyio.fail_after(60):
            await plain.cancelled.wait()


async def test_lack_each_call_lists_all_tools_unless_the_server_looks_schemas_up() -> None:
    for options, lists in (({}, 3), ({"get_tool_input_schema": lambda _: None}, 0)):
        plain = Plain(**options)
        async with managed(plain) as manager:
            for _ in range(3):
                message, headers = call("echo", modern=True, text="x")
                assert (await send(manager, message, headers))[0] == 200
        assert plain.lists == lists


def test_lack_there_is_no_store_of_events_for_streams_that_go_on_elsewhere() -> None:
    assert [each for each in EventStore.__subclasses__() if each.__module__.startswith("mcp.")] == []


# -- what uvicorn lacks ------------------------------------------------------------------------------


def test_lack_uvicorn_waits_for_a_header_without_end_and_refuses_only_requests() -> None:
    own = {"connection_made", "data_received", "on_response_complete"}
    assert own <= set(vars(BoundedConnection))
    names = {name for name in vars(H11Protocol) if "timeout" in name}
    assert names == {"timeout_keep_alive_handler"}, (
        "the only clock of a connection is that between two requests"
    )
