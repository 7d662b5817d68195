"""The request state of a 2026-07-28 client is valid for its age, its session and its code only."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client import ClientRequestContext
from mcp.server import request_state
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult, InputRequiredResult, TextContent

from fixtures.running import running_app
from gatemini.app import App
from gatemini.protocol.client_session import Session
from gatemini.protocol.mcp_server import build_server
from gatemini.protocol.questions.parking import PARKED_SECONDS
from gatemini.protocol.stdio.shortcut import Shortcut

pytestmark = pytest.mark.anyio

CODE = "return (await demo.confirm({ q: 'go on?' })).ok;"


@pytest.fixture(scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    folder: Path = tmp_path_factory.mktemp("state")
    async with running_app(folder) as running:
        yield running


async def unused(_context: ClientRequestContext, _params: ElicitRequestParams) -> ElicitResult:
    raise AssertionError("the tests answer themselves")


def connect(app: App, session: Session) -> Client:
    surface = app.surface(session)
    return Client(build_server(surface, Shortcut(surface)), elicitation_callback=unused)


async def asked(client: Client) -> InputRequiredResult:
    first = await client.session.call_tool("call_tool_chain", {"code": CODE}, allow_input_required=True)
    assert isinstance(first, InputRequiredResult)
    return first


async def again(client: Client, first: InputRequiredResult, code: str = CODE) -> str:
    answers: Any = {
        key: ElicitResult(action="accept", content={"ok": True}) for key in first.input_requests or {}
    }
    result = await client.session.call_tool(
        "call_tool_chain",
        {"code": code},
        input_responses=answers,
        request_state=first.request_state,
        allow_input_required=True,
    )
    assert isinstance(result, CallToolResult)
    block = result.content[0]
    assert isinstance(block, TextContent)
    return block.text


async def test_a_state_older_than_the_chain_waits_is_refused(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connect(app, app.new_session()) as client:
        first = await asked(client)
        now = time.time()
        with monkeypatch.context() as later:
            later.setattr(request_state.time, "time", lambda: now + PARKED_SECONDS + 1)
            with pytest.raises(MCPError, match="Invalid or expired requestState"):
                await again(client, first)
        assert await again(client, first) == "true"


async def test_a_state_of_another_session_of_the_same_process_is_refused(app: App) -> None:
    async with connect(app, app.new_session()) as client, connect(app, app.new_session()) as other:
        first = await asked(client)
        with pytest.raises(MCPError, match="Invalid or expired requestState"):
            await again(other, first)
        with pytest.raises(MCPError, match="Invalid or expired requestState"):
            await again(client, first, CODE + " ")
        assert await again(client, first) == "true"


async def test_a_session_outlives_its_connection_and_so_does_its_parked_chain(app: App) -> None:
    session = app.new_session()
    async with connect(app, session) as client:
        first = await asked(client)
    async with connect(app, session) as reconnected:
        assert await again(reconnected, first) == "true"
