"""Login to backends by OAuth: a gateway, an authorization server and an MCP server that takes its tokens."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fixtures.login_gate import Places, gate
from fixtures.realm import realm_and_server
from fixtures.running import until

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("GATEMINI_TOKEN_KEY", "k" * 40)


@pytest.fixture
async def places() -> AsyncIterator[Places]:
    async with realm_and_server() as found:
        yield found


async def test_a_backend_that_wants_a_login_says_so_and_works_once_somebody_has_logged_in(
    tmp_path: Path, places: Places
) -> None:
    async with gate(tmp_path, places) as there:
        assert there.state == "login_required"
        text = await there.call()
        assert "gatemini login web" in text, text
        login = await there.log_in()
        assert login.client.registered
        await until(lambda: there.state == "healthy")
        assert "hello from there" in await there.call()
    assert there.server.bearers[-1] == login.access_token
    [asked] = there.realm.asked("/auth")
    assert (asked["resource"], asked["scope"]) == (there.server.url, "tools")
