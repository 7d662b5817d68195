"""Keys of `backends.*.oauth`: each changes what the authorization server is asked."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import anyio
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from fixtures.issuer import RSA
from fixtures.login_gate import UNATTENDED, Person, Places, gate, places
from fixtures.ports import free_port
from fixtures.realm import Realm, serving
from fixtures.running import until
from gatemini.policy.principal import Principal

__all__ = ["places"]

pytestmark = pytest.mark.anyio


@pytest.mark.proves("backends.*.oauth.scopes", "backends.*.oauth.audience")
async def test_scopes_and_audience_are_asked_for(tmp_path: Path, places: Places) -> None:
    async with gate(tmp_path, places, scopes=["read", "write"], audience="the-api") as there:
        login = await there.log_in()
    [asked] = places[0].asked("/auth")
    assert (asked["scope"], asked["audience"], login.scope) == ("read write", "the-api", "read write")


@pytest.mark.proves("backends.*.oauth.issuer")
async def test_only_the_configured_issuer_gets_a_secret(tmp_path: Path, places: Places) -> None:
    realm, server = places
    async with serving(Realm) as (other,):
        async with gate(tmp_path / "other", places, **UNATTENDED, issuer=other.url) as there:
            text = await there.call()
            assert f"names the issuer {realm.url}, and oauth.issuer is {other.url}" in text, text
        assert not realm.asked("/token")
        assert not other.asked("/token")
        async with gate(tmp_path / "right", places, **UNATTENDED, issuer=realm.url) as there:
            assert "hello from there" in await there.call()
            # A second issuer that the server names does not count either.
            server.metadata = {"authorization_servers": [other.url, realm.url]}
            realm.tokens.clear()
            assert "hello from there" in await there.call()
        assert not other.seen
        # What another issuer has given before the key was there is not renewed there.
        realm.seen.clear()
        server.metadata = {}
        async with gate(tmp_path / "changed", places, **UNATTENDED, issuer=other.url) as there:
            assert "oauth.issuer is" in await there.call()
        assert not realm.asked("/token")


@pytest.mark.proves("backends.*.oauth.issuer")
async def test_a_server_without_metadata_has_the_configured_issuer(tmp_path: Path, places: Places) -> None:
    places[1].metadata_path, places[1].names_metadata = "/nowhere", False
    async with gate(tmp_path, places, issuer=places[0].url) as there:
        assert (await there.log_in()).issuer == places[0].url


@pytest.mark.proves("backends.*.oauth.redirect_port")
async def test_the_browser_comes_back_to_the_port(tmp_path: Path, places: Places) -> None:
    port = free_port()
    async with gate(tmp_path, places, redirect_port=port) as there:
        await there.log_in()
    [asked] = places[0].asked("/auth")
    assert urlsplit(asked["redirect_uri"]).port == port


@pytest.mark.proves("backends.*.oauth.client_metadata_url")
async def test_a_client_metadata_document_is_the_client_where_the_issuer_takes_such(
    tmp_path: Path, places: Places
) -> None:
    document = "https://client.example.com/gatemini.json"
    async with gate(tmp_path, places, client_metadata_url=document) as there:
        await there.log_in()  # this issuer does not take documents yet
        places[0].takes_documents = True
        await there.log_in()
    assert [asked["client_id"] for asked in places[0].asked("/auth")] == ["registered-2", document]
    assert len(places[0].asked("/clients-registrations/openid-connect")) == 1


@pytest.mark.proves("backends.*.oauth.client_id", "backends.*.oauth.client_secret", "backends.*.oauth.flow")
async def test_a_client_of_its_own_needs_no_person(tmp_path: Path, places: Places) -> None:
    async with gate(tmp_path / "right", places, **UNATTENDED) as there:
        assert "hello from there" in await there.call()
        await there.credentials.log_out()
    async with gate(tmp_path / "wrong", places, **{**UNATTENDED, "client_secret": "another one"}) as there:
        text = await there.call()
        assert "invalid_client" in text, text
        assert "another one" not in text, text
    assert len(places[0].grants("client_credentials")) >= 2


@pytest.mark.proves("backends.*.oauth.per_user")
async def test_each_principal_over_http_has_a_login_of_its_own(tmp_path: Path, places: Places) -> None:
    async with gate(tmp_path, places, per_user=True) as there:
        shared = await there.log_in()
        await until(lambda: there.state == "healthy")
        sessions = {name: there.app.new_session(Principal(name, transport="http")) for name in ("ann", "bob")}

        async def call(name: str) -> str:
            code = "return await web.echo({ text: 'hello ' + 'from there' });"
            result = await there.app.call_meta_tool("call_tool_chain", {"code": code}, sessions[name])
            return str(result["content"][0]["text"])

        text = await call("ann")
        assert "gatemini login web --principal ann" in text, text
        own = await Person(places, {"per_user": True}, who="ann").log_in()
        with anyio.fail_after(60):
            while "hello from there" not in (text := await call("ann")):
                assert "gatemini login" in text or "not running" in text, text
        assert there.server.bearers[-1] == own.access_token != shared.access_token
        assert "gatemini login web --principal bob" in await call("bob")
        assert "hello from there" in await there.call()
        assert there.server.bearers[-1] == shared.access_token


async def test_a_client_with_a_private_key_signs_who_it_is(tmp_path: Path, places: Places) -> None:
    pem = RSA.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    oauth = {"flow": "private_key_jwt", "client_id": "signer", "client_secret": pem}
    async with gate(tmp_path, places, **oauth) as there:
        assert "hello from there" in await there.call()
    assert "client_assertion" in places[0].grants("client_credentials")[0]


async def test_a_code_that_is_confirmed_elsewhere_logs_in(tmp_path: Path, places: Places) -> None:
    async with gate(tmp_path, places, flow="device") as there:
        await there.log_in()
        await until(lambda: there.state == "healthy")
        assert "hello from there" in await there.call()
    assert places[0].asked("/auth/device")
    assert not places[0].asked("/openid-connect/auth")
