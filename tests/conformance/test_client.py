"""The client scenarios of the official conformance suite, with a gateway between its servers and a client."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import anyio.to_thread
import pytest

from fixtures.conformance.client import Host
from fixtures.conformance.suite import REVISIONS, differences, missing, run
from gatemini.backends.conversation import handshake

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.npm,
    pytest.mark.long,
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]

PATIENCE = ("--timeout", "280000")
"""Milliseconds: the suite starts all scenarios at once."""
MUST_GIVE_UP = {
    "auth/iss-normalized",
    "auth/iss-supported-missing",
    "auth/iss-unexpected",
    "auth/iss-wrong-issuer",
    "auth/metadata-issuer-mismatch",
    "auth/resource-mismatch",
    "auth/scope-retry-limit",
}
"""Scenarios in which a client that goes on is at fault."""
EXTENSIONS = {"auth/enterprise-managed-authorization", "auth/wif-jwt-bearer"}
"""Scenarios of extensions that the gateway does not have, and so gives up."""


@pytest.fixture
async def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Host]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("GATEMINI_TOKEN_KEY", "k" * 40)
    # On a busy machine a server may take longer; a handshake sent meanwhile counts against the client.
    monkeypatch.setattr(handshake, "PROBE_SILENCE_SECONDS", 60.0)
    with tempfile.TemporaryDirectory(prefix="gm-", dir="/tmp") as short:  # a socket's path is limited
        made = Host(Path(short))
        async with made.serving():
            yield made


@pytest.mark.parametrize("revision", REVISIONS)
async def test_the_gateway_is_a_client_as_the_revision_requires(
    host: Host, revision: str, tmp_path: Path
) -> None:
    words = ("client", "--command", host.command, "--requirements", revision, *PATIENCE)
    checks = await anyio.to_thread.run_sync(partial(run, tmp_path, *words))
    assert differences(checks, "client", revision) == []
    assert set(host.gave_up) - EXTENSIONS == MUST_GIVE_UP & {check.scenario for check in checks.values()}


@pytest.mark.parametrize("scenario", ["oauth-metadata-backcompat", "oauth-endpoint-fallback"])
async def test_the_gateway_logs_in_as_the_oldest_revision_with_logins_had_it(
    host: Host, scenario: str, tmp_path: Path
) -> None:
    name = f"auth/2025-03-26-{scenario}"
    words = ("client", "--command", host.command, "--scenario", name, "--spec-version", "2025-03-26")
    checks = await anyio.to_thread.run_sync(partial(run, tmp_path, *words, *PATIENCE))
    assert [check for check in checks.values() if check.failed] == []
    assert host.gave_up == {}
