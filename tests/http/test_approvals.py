"""Approvals of clients over HTTP: asked in either era, and bound to the principal and session of the call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp.client import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult

from fixtures.http_gateway import served

pytestmark = pytest.mark.anyio

POLICY: dict[str, Any] = {"rules": [{"tools": ["demo.write"], "action": "ask"}]}
WRITE = '{"tool": "demo.write", "arguments": {"key": "a", "value": 1}}'


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
@pytest.mark.parametrize(("action", "says"), [("accept", "writes"), ("decline", "ApprovalDenied")])
async def test_a_user_is_asked_over_http(tmp_path: Path, mode: str, action: Any, says: str) -> None:
    asked: list[str] = []

    async def user(_context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action=action)

    async with (
        served(tmp_path, policy=POLICY) as gateway,
        gateway.client(mode=mode, elicitation_callback=user) as client,
    ):
        found = await client.call_tool("call_tool_chain", {"code": WRITE})
    assert says in found.content[0].text  # type: ignore[union-attr]
    assert len(asked) == 1
    assert 'key: "a"' in asked[0]
