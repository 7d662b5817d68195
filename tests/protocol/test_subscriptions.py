"""Notifications of changed resources: once, to clients that subscribed, in either era of the protocol."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourcesListChanged, ResourceUpdated

from fixtures.backend_bench import ODD
from fixtures.direct import run_chain, text_of
from fixtures.running import DEMO, gateway_in_process, running_app
from gatemini.errors import InvalidRequest
from gatemini.model import Tool
from gatemini.protocol.mcp_server import build_server
from gatemini.protocol.stdio.shortcut import Shortcut
from gatemini.protocol.subscriptions import MAX_SUBSCRIPTIONS, Feed, scope_of
from gatemini.upkeep.changes import Kind

pytestmark = [
    pytest.mark.anyio,
    # The handshake era is served too; the client warns that the next one has `listen` instead.
    pytest.mark.filterwarnings("ignore:resources/(un)?subscribe is removed"),
]

TOP = {"registration": {"stdio": "allow", "allow_commands": ["*"]}}
EXTRA = {"name": "extra", "command": sys.executable, "args": ["-I", "-S", str(ODD), "{}"]}
TOLD_SECONDS = 60.0
"""Bounds how long a notification may take; it comes within a fraction of a second."""

Told = MemoryObjectReceiveStream[Any]


async def next_of(told: Told, kind: type) -> Any:
    with anyio.fail_after(TOLD_SECONDS):
        async for message in told:
            if isinstance(message, kind):
                return message
    raise AssertionError("the stream ended")


@pytest.fixture
async def legacy(tmp_path: Path) -> AsyncIterator[tuple[Client, Told]]:
    send, told = anyio.create_memory_object_stream[Any](1000)

    async def note(message: Any) -> None:
        send.send_nowait(message)

    with send, told:
        async with gateway_in_process(tmp_path, DEMO, top=TOP, mode="legacy", message_handler=note) as client:
            yield client, told


@pytest.fixture
async def modern(tmp_path: Path) -> AsyncIterator[Client]:
    async with gateway_in_process(tmp_path, DEMO, top=TOP, mode="auto") as client:
        assert client.protocol_version == "2026-07-28"
        yield client


async def register(client: Client) -> None:
    result = await client.call_tool("register_manual", {"manual_call_template": EXTRA})
    assert not result.is_error, text_of(result)


async def test_a_client_of_the_handshake_era_is_notified_of_a_changed_list(
    legacy: tuple[Client, Told],
) -> None:
    client, told = legacy
    assert client.server_capabilities.resources == types.ResourcesCapability(
        subscribe=True, list_changed=True
    )
    await register(client)
    await next_of(told, types.ResourceListChangedNotification)
    listed = {r.name: r.description or "" for r in (await client.list_resources()).resources}
    assert "2 backends" in listed["tools"]


async def test_a_client_is_notified_of_subscribed_addresses_only(legacy: tuple[Client, Told]) -> None:
    client, told = legacy
    await run_chain(client, "return await demo.echo({ n: 1 });")
    await client.subscribe_resource("gatemini://backend/demo/tools")
    await client.subscribe_resource("gatemini://backend/extra/tools")
    await client.subscribe_resource("gatemini://guide/results")
    await register(client)
    updated = await next_of(told, types.ResourceUpdatedNotification)
    assert updated.params.uri == "gatemini://backend/extra/tools"
    await client.unsubscribe_resource("gatemini://backend/extra/tools")
    await client.subscribe_resource("gatemini://recent")
    await run_chain(client, "return await demo.echo({ n: 1 });")
    assert (await next_of(told, types.ResourceUpdatedNotification)).params.uri == "gatemini://recent"


async def test_subscribing_to_what_is_no_resource_says_what_exists(legacy: tuple[Client, Told]) -> None:
    client, _ = legacy
    with pytest.raises(MCPError, match="gatemini://overview"):
        await client.subscribe_resource("gatemini://nothing")
    await client.unsubscribe_resource("gatemini://nothing")


async def test_a_stream_of_the_stateless_era_carries_the_same_notifications(modern: Client) -> None:
    uris = ["gatemini://types/extra", "gatemini://nothing", "gatemini://tools"]
    async with modern.listen(
        tools_list_changed=True, resources_list_changed=True, resource_subscriptions=uris
    ) as stream:
        # Only what can happen is acknowledged: the seven tools never change, and there is no such resource.
        assert stream.honored.tools_list_changed is None
        assert stream.honored.resources_list_changed is True
        assert stream.honored.resource_subscriptions == ["gatemini://types/extra", "gatemini://tools"]
        wanted: set[Any] = {
            ResourcesListChanged(),
            ResourceUpdated("gatemini://types/extra"),
            ResourceUpdated("gatemini://tools"),
        }
        await register(modern)
        with anyio.fail_after(TOLD_SECONDS):
            async for event in stream:
                wanted.discard(event)
                if not wanted:
                    break
    assert (await modern.call_tool("list_tools_meta", {})).is_error is False  # the connection is still usable


async def test_the_capabilities_of_either_era_promise_only_what_is_kept(
    legacy: tuple[Client, Told], modern: Client
) -> None:
    for client in (legacy[0], modern):
        promised = client.server_capabilities
        assert promised.resources == types.ResourcesCapability(subscribe=True, list_changed=True)
        assert promised.tools == types.ToolsCapability(list_changed=False)
        assert promised.prompts == types.PromptsCapability(list_changed=False)


@pytest.mark.parametrize(
    ("path", "kind", "backend", "touched"),
    [
        ("tool/demo.add", "tools", "demo", True),
        ("backend/demo", "state", "demo", True),
        ("backend/demo", "state", "other", False),
        ("backend/demo/tools", "state", "demo", False),
        ("health", "state", None, True),
        ("call_tool_chain", "tools", "demo", False),
    ],
)
def test_an_address_depends_on_the_backend_it_names(
    path: str, kind: Kind, backend: str | None, touched: bool
) -> None:
    assert scope_of(f"gatemini://{path}").touched(kind, backend) is touched


async def test_a_connection_names_a_bounded_number_of_addresses(tmp_path: Path) -> None:
    async with running_app(tmp_path) as app:
        feed = Feed(app.surface(app.new_session()))
        for number in range(MAX_SUBSCRIPTIONS):
            feed.subscribe(f"gatemini://tool/demo.t{number}")
        with pytest.raises(InvalidRequest, match="the most it may have"):
            feed.subscribe("gatemini://tools")
        feed.subscribe("gatemini://tool/demo.t7")  # subscribed already
        feed.unsubscribe("gatemini://tool/demo.t7")
        feed.subscribe("gatemini://tools")


async def test_a_burst_of_changes_is_one_notification(tmp_path: Path) -> None:
    send, told = anyio.create_memory_object_stream[Any](1000)

    async def note(message: Any) -> None:
        send.send_nowait(message)

    async with running_app(tmp_path) as app:
        surface = app.surface(app.new_session())
        server = build_server(surface, Shortcut(surface))
        with send, told:
            async with Client(server, mode="legacy", message_handler=note) as client:
                await client.subscribe_resource("gatemini://tool/burst.t500")
                for count in range(1, 501):
                    app.registry.replace("burst", [Tool("burst", f"t{count}")])
                await next_of(told, types.ResourceUpdatedNotification)
                app.registry.remove("burst")
                await next_of(told, types.ResourceUpdatedNotification)
        # The list comes first, then addresses: one list notification for each of the two updates, and no other.
        assert told.statistics().current_buffer_used == 0
