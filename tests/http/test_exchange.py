"""A backend gets its token for that of the client (RFC 8693), which itself goes to the issuer only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fixtures.http_gateway import served, text
from fixtures.issuer import AUDIENCE, issuer
from fixtures.realm import SECRET, realm_and_server

pytestmark = pytest.mark.anyio
CODE = "return await web.echo({ text: 'hello ' + 'from there' });"


@pytest.mark.proves("backends.*.oauth.exchange")
async def test_each_client_s_token_is_exchanged_for_one_of_the_backend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("GATEMINI_TOKEN_KEY", "k" * 40)
    oauth = {"flow": "client_credentials", "client_id": "ci", "client_secret": SECRET, "exchange": "jwt"}
    async with issuer() as ours, realm_and_server() as (realm, server):
        http: dict[str, Any] = {"public_url": AUDIENCE, "auth": {"oauth": {"issuer": ours.url}}}
        backends = {"web": {"url": server.url, "oauth": oauth}}
        async with served(tmp_path / "gateway", backends, http=http) as there:
            [listing] = set(server.bearers) - {None}
            given: dict[str, str] = {}
            for user in ("ann", "bob"):
                server.bearers.clear()
                token = given[user] = ours.token(sub=user)
                found = await there.chain(CODE, headers={"Authorization": f"Bearer {token}"})
                assert "hello from there" in text(found), text(found)
                assert listing not in server.bearers
                assert token not in server.bearers
            assert realm.subjects == [given["ann"], given["bob"]]
            again = await there.chain(CODE, headers={"Authorization": f"Bearer {given['ann']}"})
            assert "hello from there" in text(again)
            assert len(realm.subjects) == 2
