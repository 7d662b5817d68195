"""A backend gets its token for that of the client (RFC 8693), which itself goes to the issuer only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fixtures.http_gateway import served, text
from fixtures.issuer import AUDIENCE, issuer
from fixtures.login_gate import UNATTENDED, Places, places
from fixtures.realm import Realm, serving

__all__ = ["places"]

pytestmark = pytest.mark.anyio
CODE = "return await web.echo({ text: 'hello ' + 'from there' });"
EXCHANGED = {**UNATTENDED, "exchange": "jwt"}


@pytest.mark.proves("backends.*.oauth.exchange")
async def test_each_client_s_token_is_exchanged_for_one_of_the_backend(
    tmp_path: Path, places: Places
) -> None:
    realm, server = places
    async with issuer() as ours:
        http: dict[str, Any] = {"public_url": AUDIENCE, "auth": {"oauth": {"issuer": ours.url}}}
        backends = {"web": {"url": server.url, "oauth": EXCHANGED}}
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


async def test_a_server_that_names_another_issuer_than_before_gets_no_token_of_a_client(
    tmp_path: Path, places: Places
) -> None:
    server = places[1]
    async with issuer() as ours, serving(Realm) as (other,):
        http: dict[str, Any] = {"public_url": AUDIENCE, "auth": {"oauth": {"issuer": ours.url}}}
        backends = {"web": {"url": server.url, "oauth": EXCHANGED}}
        async with served(tmp_path / "gateway", backends, http=http) as there:
            headers = {"Authorization": f"Bearer {ours.token(sub='ann')}"}
            assert "hello from there" in text(await there.chain(CODE, headers=headers))
            server.metadata = {"authorization_servers": [other.url]}
            server.realm = other
            refused = text(await there.chain(CODE, headers=headers))
            assert f"its issuer is {other.url} now" in refused
            assert "gatemini logout web --principal" in refused
    assert not other.asked("/token")
