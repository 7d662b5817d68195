"""Users over HTTP log in to backends for themselves only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp_types import ElicitResult

from fixtures.http_gateway import Served, served
from fixtures.issuer import AUDIENCE, issuer
from fixtures.login_gate import Person, Places, places
from fixtures.realm import Realm
from gatemini.backends.oauth import device

__all__ = ["places"]

pytestmark = pytest.mark.anyio
CODE = "return await web.echo({ text: 'hello ' + 'from there' });"


@pytest.fixture(autouse=True)
def asked_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Codes are asked for without a pause to speak of."""
    monkeypatch.setattr(device, "SHORTEST_INTERVAL", 0.01)


@asynccontextmanager
async def gateway(folder: Path, places: Places, **oauth: Any) -> AsyncIterator[tuple[Served, Realm, str]]:
    """A gateway whose users log in at the issuer of its backend; the token is one of Ann."""
    realm, server = places
    async with issuer() as keys:
        if oauth.get("per_user"):
            await Person(places, oauth).log_in()  # the login that lists the tools
        trust = {"issuer": realm.url, "jwks": keys.key_url}
        http: dict[str, Any] = {"public_url": AUDIENCE, "auth": {"oauth": trust}}
        async with served(folder, {"web": {"url": server.url, "oauth": oauth}}, http=http) as there:
            yield there, realm, keys.token(iss=realm.url, sub="ann")


async def said(there: Served, token: str, asked: list[Any], realm: Realm) -> str:
    async def confirm(context: Any, params: Any) -> ElicitResult:
        asked.append(params)
        for code in realm.devices.values():
            code["confirmed"] = True
        return ElicitResult(action="accept")

    headers = {"Authorization": f"Bearer {token}"}
    async with there.client(headers=headers, mode="legacy", elicitation_callback=confirm) as client:
        result = await client.call_tool("call_tool_chain", {"code": CODE})
    return str(result.content[0].text)  # type: ignore[union-attr]


async def test_no_user_over_http_logs_in_for_all_others(tmp_path: Path, places: Places) -> None:
    async with gateway(tmp_path, places) as (there, realm, token):
        asked: list[Any] = []
        assert "gatemini login web" in await said(there, token, asked, realm)
        assert not asked
        assert not realm.asked("/auth/device")


async def test_a_page_that_another_user_has_opened_logs_nobody_in(tmp_path: Path, places: Places) -> None:
    async with gateway(tmp_path, places, per_user=True) as (there, realm, token):
        realm.user, asked = "bob", []
        assert "gatemini login web --principal" in await said(there, token, asked, realm)
        assert len(asked) == 1
        assert len(realm.tokens) == 1, "its tokens are revoked"
        realm.user = "ann"
        assert "hello from there" in await said(there, token, asked, realm)
        assert len(asked) == 2
