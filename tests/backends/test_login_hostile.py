"""What a login withstands: servers, issuers and pages in the browser that send what nobody should."""

from __future__ import annotations

import json
import secrets
import shlex
import time
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from mcp_types import ElicitResult

from fixtures.login_gate import UNATTENDED, Person, Places, gate, places
from fixtures.realm import Realm, serving, visit
from fixtures.running import client_of, until
from gatemini.backends.oauth import device, discovery
from gatemini.backends.oauth.browser import Callback, callback
from gatemini.backends.oauth.clients import proof
from gatemini.backends.oauth.discovery import Challenge, challenge_of, discover
from gatemini.backends.oauth.login_record import Client, Kept, Login
from gatemini.backends.oauth.logins import Logins
from gatemini.backends.oauth.requests import IssuerUnreachable, OAuthError, checked, refused
from gatemini.backends.oauth.vault import FileVault, StoreVault, key_of
from gatemini.config.model.backend import BackendConfig, BackendOAuth
from gatemini.errors import ConfigError
from gatemini.state.memory import MemoryStore

__all__ = ["places"]

pytestmark = pytest.mark.anyio
ISSUER, BACKEND = "https://id.example.com", "https://mcp.example.com/mcp"
LOGIN = Login(ISSUER, f"{ISSUER}/token", BACKEND, Client("c"))
WEB = key_of("web", BACKEND, "")


async def sent(back: Callback, target: str) -> bytes:
    port = int(back.url.rpartition(":")[2].partition("/")[0])
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(f"GET {target} HTTP/1.1\r\n\r\n".encode())
        return await stream.receive()


@pytest.mark.parametrize("target", ["//[", "/", "/callback", "/callback?state=", "*", "http://elsewhere/"])
async def test_a_request_of_another_page_neither_ends_nor_answers_a_login(target: str) -> None:
    async with callback(BackendOAuth(), None) as back:
        assert (await sent(back, target)).startswith(b"HTTP/1.1 4")
        assert (await sent(back, f"/callback?code=x&state={back.state}")).startswith(b"HTTP/1.1 200")
        assert (await back.answer())["code"] == "x"


async def test_an_answer_that_is_sent_again_or_by_another_login_changes_nothing() -> None:
    async with callback(BackendOAuth(), None) as one, callback(BackendOAuth(), None) as two:
        assert one.state != two.state
        assert (await sent(one, f"/callback?code=x&state={two.state}")).startswith(b"HTTP/1.1 400")
        assert (await sent(one, f"/callback?code=x&state={one.state}")).startswith(b"HTTP/1.1 200")
        await sent(one, f"/callback?code=y&state={one.state}")
        await sent(one, f"/callback?error=<script>&state={one.state}")
        assert (await one.answer())["code"] == "x"


def test_a_long_secret_that_a_server_quotes_is_not_shown_in_part() -> None:
    token = secrets.token_hex(300)
    said = {"error": "invalid_grant", "error_description": f"unknown\x1b[2J refresh token {token}"}
    error = refused(f"{ISSUER}/token", 400, said, {"refresh_token": token})
    assert error.code == "invalid_grant"
    assert token[:8] not in str(error)
    assert "refresh token «secret»" in str(error)
    assert str(error).isprintable()


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://127.0.0.2/token", "which is not used"),
        ("https://localhost./token", "which is not used"),
        ("https://service.localhost/token", "which is not used"),
        ("https://[::ffff:127.0.0.1]/token", "which is not used"),
        ("https://0.0.0.0:8443/token", "which is not used"),
        ("https://2130706433/token", "which is not used"),
        ("https://0x7f.1/token", "which is not used"),
        ("https://169.254.169.254/latest", "which is not used"),
        ("https://[fe80::1]/token", "which is not used"),
        ("https://id.example.com:99999/token", "is no URL"),
        ("https://id.example.com/\x1b[2J", "which is not used"),
        ("https://[", "is no URL"),
        ("https://name@id.example.com/token", "which is not used"),
        ("http://id.example.com/token", "which is not https"),
    ],
)
def test_a_remote_server_names_no_address_of_this_machine_and_no_odd_one(url: str, why: str) -> None:
    with pytest.raises(OAuthError, match=why) as found:
        checked(url, BACKEND)
    assert str(found.value).isprintable()


@pytest.mark.parametrize(
    "url", ["http://localhost:8080/token", "http://id.localhost/token", "http://[::1]/token"]
)
def test_a_server_of_this_machine_may_name_an_issuer_beside_it(url: str) -> None:
    assert checked(url, "http://127.0.0.1:9000/mcp") == url
    with pytest.raises(OAuthError, match="not https"):
        checked("http://169.254.169.254/latest", "http://127.0.0.1:9000/mcp")


async def test_a_challenge_whose_address_is_no_url_is_an_error_of_the_login() -> None:
    with pytest.raises(OAuthError, match="no URL"):
        await discover(BACKEND, Challenge(metadata_url="https://["))


@pytest.mark.parametrize("seconds", [10**18, "9" * 5000])
def test_a_token_that_lives_for_ever_has_an_end_that_can_be_shown(seconds: object) -> None:
    login = LOGIN.with_tokens({"access_token": "t", "expires_in": seconds}, 1e9, None)
    assert login.expires is not None
    assert 4e9 < login.expires < 5e9
    assert not login.is_expired(2e9)


@pytest.mark.parametrize(
    ("said", "waits"),
    [
        ({"interval": 0}, 1),
        ({"interval": -7}, 5),
        ({"interval": "3"}, 3),
        ({"interval": True}, 5),
        ({}, 5),
        ({"interval": 10**300, "expires_in": 10**300}, 60),
        ({"interval": 0.001, "expires_in": 0}, 1),
    ],
)
async def test_a_code_is_asked_for_neither_all_the_time_nor_too_seldom(
    places: Places, monkeypatch: pytest.MonkeyPatch, said: dict[str, Any], waits: float
) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        await anyio.lowlevel.checkpoint()

    monkeypatch.setattr(device.anyio, "sleep", sleep)
    places[0].device = said
    assert (await Person(places, {"flow": "device"}).log_in()).access_token
    assert waits in waited


@pytest.mark.parametrize(
    "said",
    [
        {"token_type": "mac\x1b[2J\u202e"},
        {"access_token": "a b"},
        {"access_token": "a" * 65_537},
        {"access_token": "a\r\nX-Other: b"},
        {"access_token": ["t"]},
    ],
)
def test_a_token_that_no_request_can_carry_is_an_error_of_the_login(said: dict[str, Any]) -> None:
    with pytest.raises(OAuthError, match=r"only Bearer is known|has no usable access_token") as found:
        LOGIN.with_tokens({"access_token": "t", **said}, 1e9, None)
    assert str(found.value).isprintable()
    assert len(str(found.value)) < 200


def test_a_token_whose_issuer_is_no_url_names_no_user() -> None:
    odd = jwt.encode({"iss": "http://[", "sub": "ann"}, "k" * 32, "HS256")
    assert LOGIN.with_tokens({"access_token": "t", "id_token": odd}, 1e9, None).subject is None


def test_a_long_challenge_takes_no_time() -> None:
    response = httpx2.Response(401, headers={"www-authenticate": "a" * 100_000 + ' scope="read"'})
    began = time.process_time()
    assert challenge_of(response) == Challenge(scope="read")
    assert time.process_time() - began < 5


def test_scopes_of_an_issuer_that_are_none_are_shown_to_nobody() -> None:
    login = LOGIN.with_tokens({"access_token": "t", "scope": 'a \x1b[2J b\x9b c"d ' + "e" * 300}, 1e9, None)
    assert login.scope == "a"


@pytest.mark.parametrize(
    ("member", "value", "why"),
    [
        ("client_id", "c" * 3000, "answered 201"),
        ("client_id", "c\r\n", "answered 201"),
        ("token_endpoint_auth_method", "\x1b[2Jtls", "prove themselves by"),
    ],
)
async def test_a_registration_with_odd_members_is_an_error_that_can_be_shown(
    places: Places, member: str, value: str, why: str
) -> None:
    places[0].registration = {member: value}
    with pytest.raises(OAuthError, match=why) as found:
        await Person(places, {}).log_in()
    assert str(found.value).isprintable()


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"user_code": "A" * 4000}, "4000 characters"),
        ({"verification_uri": "javascript:alert(1)"}, "not used"),
        ({"verification_uri_complete": "file:///etc/passwd"}, "not used"),
        ({"verification_uri": "http://phish.example.com/"}, "not https"),
    ],
)
async def test_a_page_or_code_that_nobody_should_see_is_not_shown(
    places: Places, said: dict[str, Any], why: str
) -> None:
    places[0].device = said
    with pytest.raises(OAuthError, match=why):
        await Person(places, {"flow": "device"}).log_in()


def test_a_private_key_that_cannot_sign_tokens_is_named_as_such() -> None:
    key = Ed448PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    config = BackendOAuth(client_id="c", client_secret=key.decode(), flow="private_key_jwt")
    signer = Login(ISSUER, f"{ISSUER}/token", BACKEND, Client("c", method="private_key_jwt"))
    with pytest.raises(OAuthError, match="RSA, EC or Ed25519"):
        proof(config, signer, {})


async def test_a_damaged_key_seals_nothing(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"k" * 16)
    with pytest.raises(ConfigError, match="16 bytes, and needs 32"):
        await FileVault(tmp_path).write(WEB, Kept(LOGIN))


async def test_a_server_that_never_says_its_issuer_holds_up_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await anyio.sleep_forever()

    monkeypatch.setattr(discovery, "DISCOVERY_SECONDS", 0.1)
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, silent)
            try:
                await discover(f"http://127.0.0.1:{port}/mcp", Challenge())
            except IssuerUnreachable as error:
                assert "within 0.1 s" in str(error)  # noqa: PT017 - a task group would wrap it
            else:
                pytest.fail("a silent server has no issuer")
            tasks.cancel_scope.cancel()


async def test_the_command_in_a_hint_has_a_principal_as_one_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    config = BackendConfig.model_validate({"name": "web", "url": BACKEND, "oauth": {"per_user": True}})
    who = "ann'; reboot #"
    credentials = Logins(lambda name, values: None, MemoryStore()).of(config, who)
    assert credentials is not None
    needed = await credentials.required(Challenge(), "it has none")
    command = str(needed.hint).split("`")[1]
    assert shlex.split(command) == ["gatemini", "login", "web", "--principal", who]


async def test_a_cancelled_renewal_gives_up_its_turn() -> None:
    class Distant(MemoryStore):
        async def release(self, key: str, owner: str) -> None:
            await anyio.lowlevel.checkpoint()
            await super().release(key, owner)

    store = Distant()
    with anyio.CancelScope() as scope:
        async with StoreVault(store).turn(WEB):
            scope.cancel()
            await anyio.lowlevel.checkpoint()
    assert await store.lease(f"login:turn:{WEB}", "another", 1.0)


async def test_a_turn_that_is_taken_by_a_cancelled_caller_is_given_up() -> None:
    class Distant(MemoryStore):
        async def lease(self, key: str, owner: str, ttl: float) -> bool:
            taken = await super().lease(key, owner, ttl)
            scope.cancel()  # the server has given the lease, and its answer is on the way
            await anyio.lowlevel.checkpoint()
            return taken

    store = Distant()
    with anyio.CancelScope() as scope:
        async with StoreVault(store).turn(WEB):
            pass
    assert scope.cancelled_caught
    assert await MemoryStore.lease(store, f"login:turn:{WEB}", "another", 1.0)


async def test_a_server_that_names_another_issuer_than_before_gets_no_secret_of_an_unattended_client(
    tmp_path: Path, places: Places
) -> None:
    async with serving(Realm) as (other,), gate(tmp_path, places, **UNATTENDED) as there:
        assert "hello from there" in await there.call()
        there.server.metadata = {"authorization_servers": [other.url]}
        there.server.realm = other
        assert f"its issuer is {other.url} now" in await there.call()
        assert not other.asked("/token")
        await there.log_in()
        await until(lambda: there.state == "healthy")
        assert "hello from there" in await there.call()


async def test_a_login_that_is_made_while_its_backend_is_replaced_serves_the_call_that_asked_for_it(
    tmp_path: Path, places: Places
) -> None:
    async with gate(tmp_path, places) as there:

        async def answer_url(context: Any, params: Any) -> ElicitResult:
            source = there.app.loaded.source
            assert source is not None
            before = there.app.manager.config("web")
            written = json.loads(source.read_text())
            written["backends"]["web"]["timeout"] = 17
            source.write_text(json.dumps(written))
            await until(lambda: there.app.manager.config("web") is not before)
            assert (await visit(params.url)).status_code == 200
            return ElicitResult(action="accept")

        async with client_of(there.app, elicitation_callback=answer_url) as connected:
            code = "return await web.echo({ text: 'hello ' + 'from there' });"
            result = await connected.call_tool("call_tool_chain", {"code": code})
        assert "hello from there" in result.content[0].text  # type: ignore[union-attr]


async def test_a_call_whose_login_cannot_be_stored_names_the_login(
    tmp_path: Path, places: Places, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null/state")

    async def answer_url(context: Any, params: Any) -> ElicitResult:
        assert (await visit(params.url)).status_code == 200
        return ElicitResult(action="accept")

    async with gate(tmp_path, places) as there:
        async with client_of(there.app, elicitation_callback=answer_url) as connected:
            code = "return await web.echo({ text: 'hello' });"
            result = await connected.call_tool("call_tool_chain", {"code": code})
        assert "gatemini login web" in result.content[0].text  # type: ignore[union-attr]
    assert "Not a directory" in caplog.text
