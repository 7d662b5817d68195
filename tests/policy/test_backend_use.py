"""A backend of which a client may use nothing learns nothing of it either: the client's roots."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client import ClientRequestContext
from mcp_types import ListRootsResult, Root

from fixtures.direct import TESTS
from fixtures.running import gateway_in_process
from gatemini.config.model.backend import BackendConfig
from gatemini.config.model.policy import PolicyConfig
from gatemini.policy.backend_use import may_use
from gatemini.policy.door import Door
from gatemini.policy.principal import Grant, Principal

pytestmark = pytest.mark.anyio

ASKING = {
    "command": sys.executable,
    "args": ["-P", str(TESTS / "fixtures" / "asking_server.py"), "handshake"],
}


async def roots(_context: ClientRequestContext) -> ListRootsResult:
    return ListRootsResult(roots=[Root(uri="file:///home/private")])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("denied", "answer"), [("asker.*", "does not answer roots/list"), ("asker.ask", "file:///home/private")]
)
async def test_a_server_that_may_not_be_used_gets_no_roots(tmp_path: Path, denied: str, answer: str) -> None:
    """It asks for them right after its start, outside of any call."""
    policy = {"rules": [{"tools": [denied], "action": "deny"}]}
    async with gateway_in_process(
        tmp_path, {"asker": ASKING}, top={"policy": policy}, list_roots_callback=roots, mode="legacy"
    ) as client:
        with anyio.fail_after(60):
            while "roots: " not in (health := str(await client.read_resource("gatemini://health"))):  # noqa: ASYNC110
                await anyio.sleep(0.05)
    assert answer in health


DENIED = {"tools": ["files.*"], "action": "deny"}


@pytest.mark.parametrize(
    ("policy", "grant", "before", "after"),
    [
        ({}, None, True, True),
        ({"rules": [DENIED]}, None, False, False),
        ({"default": "deny"}, None, False, False),
        ({"default": "deny", "rules": [{"tools": ["files.re*"], "action": "allow"}]}, None, True, True),
        ({"default": "deny", "rules": [{"tools": ["files.get"], "action": "ask"}]}, None, True, False),
        ({"default": "deny", "rules": [{"tools": ["disk.get"], "action": "allow"}]}, None, True, False),
        ({"default": "deny", "rules": [{"tools": ["other.*"], "action": "allow"}]}, None, False, False),
        ({"read_only": True}, None, True, False),
        ({}, Grant(backends=frozenset({"other"})), False, False),
        ({}, Grant(backends=frozenset({"files"})), True, True),
    ],
)
def test_what_a_client_could_use_before_and_after_a_backend_has_listed_tools_that_are_hidden(
    policy: dict[str, Any], grant: Grant | None, before: bool, after: bool
) -> None:
    door = Door(PolicyConfig.model_validate(policy))
    backend = BackendConfig(name="files", command="x", namespace="disk")
    who = Principal("p", grant=grant)
    assert [may_use(door, backend, who, listed=listed) for listed in (False, True)] == [before, after]
