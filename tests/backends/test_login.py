"""Login to backends by OAuth: a gateway, an authorization server and an MCP server that takes its tokens."""

from __future__ import annotations

import json
import logging
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_types import ElicitResult

from fixtures.login_gate import UNATTENDED, Gate, Person, Places, gate, places
from fixtures.realm import Protected, Realm, Visitor, serving, visit
from fixtures.redis_server import RedisServer, redis_server
from fixtures.running import answer, client_of, until
from gatemini.backends.oauth.browser import LOGIN_SECONDS
from gatemini.backends.oauth.flows import log_in
from gatemini.backends.oauth.requests import OAuthError
from gatemini.daemon.control import app_facts

__all__ = ["places", "redis_server"]

pytestmark = pytest.mark.anyio


async def healthy(there: Gate) -> None:
    await until(lambda: there.state == "healthy")


async def test_a_backend_that_wants_a_login_says_so_and_works_once_somebody_has_logged_in(
    tmp_path: Path, places: Places
) -> None:
    async with gate(tmp_path, places) as there:
        assert there.state == "login_required"
        text = await there.call()
        assert "LoginRequired" in text or "gatemini login web" in text, text
        [row] = app_facts(there.app)["backends"]
        assert (row["state"], row["restarts"]) == ("login_required", 0)
        login = await there.log_in()
        assert login.client.registered
        await healthy(there)
        assert "hello from there" in await there.call()
        [row] = app_facts(there.app)["backends"]
        assert row["login"]["renewable"]
    assert there.server.bearers[-1] == login.access_token
    [asked] = there.realm.asked("/auth")
    assert (asked["resource"], asked["scope"]) == (there.server.url, "tools")


@pytest.mark.parametrize(
    "path", ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"]
)
async def test_metadata_are_found_at_well_known_places_where_the_challenge_names_none(
    places: Places, path: str
) -> None:
    places[1].names_metadata, places[1].metadata_path = False, path
    assert (await Person(places, {}).log_in()).issuer == places[0].url


async def test_a_server_without_metadata_is_its_own_issuer(places: Places) -> None:
    places[1].metadata_path = "/nowhere"
    places[1].names_metadata = False
    with pytest.raises(OAuthError, match="/register answered 404"):
        await Person(places, {}).log_in()


@pytest.mark.parametrize(
    ("where", "said", "why"),
    [
        ("metadata", {"issuer": "https://elsewhere.example.com"}, "says that it is https://elsewhere"),
        ("metadata", {"code_challenge_methods_supported": ["plain"]}, "PKCE"),
        ("metadata", {"code_challenge_methods_supported": None}, "PKCE"),
        ("metadata", {"token_endpoint": "http://elsewhere.example.com/token"}, "not https"),
        ("metadata", {"registration_endpoint": None}, "oauth.client_id"),
        ("metadata", {"authorization_endpoint": "https://id.example.com/#top"}, "fragment"),
        ("redirect", {"iss": "https://elsewhere.example.com"}, "not from the issuer"),
        ("redirect", {"iss": None}, "not from the issuer"),
        (
            "redirect",
            {"code": None, "error": "access_denied", "error_description": "no"},
            "access_denied: no",
        ),
        ("redirect", {"code": "made up"}, "invalid_grant"),
    ],
)
async def test_an_issuer_that_is_not_what_it_should_be_gets_no_login(
    places: Places, where: str, said: dict[str, Any], why: str
) -> None:
    setattr(places[0], where, said)
    person = Person(places, {})
    with pytest.raises(OAuthError, match=why):
        await person.log_in()
    await person.credentials.follow(now=True)
    assert person.credentials.login is None


async def test_a_server_that_says_it_is_another_one_gets_no_token(places: Places) -> None:
    places[1].metadata = {"resource": "https://elsewhere.example.com/mcp"}
    with pytest.raises(OAuthError, match=r"says that it is https://elsewhere\.example\.com/mcp"):
        await Person(places, {}).log_in()


async def test_an_answer_with_another_state_changes_nothing(places: Places) -> None:
    class Forged(Visitor):
        def open_url(self, url: str) -> None:
            self.pages.append(url)

    person = Person(places, {})
    async with anyio.create_task_group() as tasks:
        forged = Forged(tasks)
        found: list[Any] = []

        async def wait() -> None:
            found.append(await log_in(person.credentials, forged))

        tasks.start_soon(wait)
        await until(lambda: bool(forged.pages))
        places[0].redirect = {"state": "another"}
        assert (await visit(forged.pages[0])).status_code == 400
        assert not found
        places[0].redirect = {}
        assert (await visit(forged.pages[0])).status_code == 200
    assert found[0].access_token
    assert LOGIN_SECONDS > 60


async def test_a_call_that_needs_more_scopes_names_the_login_that_asks_for_them_too(
    tmp_path: Path, places: Places
) -> None:
    async with gate(tmp_path, places) as there:
        await there.log_in()
        await healthy(there)
        text = await there.call("admin")
        assert "more scopes (tools admin)" in text, text
        assert there.state == "healthy"  # other tools go on
        assert "hello from there" in await there.call()
        await there.log_in()
        await there.follow()
        assert "hello from there" in await there.call("admin")
    assert [asked["scope"] for asked in there.realm.asked("/auth")] == ["tools", "tools admin"]


async def test_an_unattended_login_asks_for_more_scopes_by_itself(tmp_path: Path, places: Places) -> None:
    async with gate(tmp_path, places, **UNATTENDED) as there:
        assert "hello from there" in await there.call("admin")
    assert [form.get("scope") for form in there.realm.grants("client_credentials")] == [
        "tools",
        "tools admin",
    ]


async def test_a_token_is_renewed_ahead_of_its_end_while_calls_go_on_with_the_old_one(
    tmp_path: Path, places: Places
) -> None:
    async with gate(tmp_path, places) as there:
        await there.log_in()
        await healthy(there)
        there.realm.may_answer = anyio.Event()
        old = await there.age(left=15)
        places[1].bearers.clear()
        assert "hello from there" in await there.call()
        assert set(places[1].bearers) == {old.access_token}
        there.realm.may_answer.set()
        await until(lambda: len(there.realm.grants("refresh_token")) == 1)
        await until(lambda: _facts(there)["expires"] is not None and _left(there) > 100)
        assert "hello from there" in await there.call()
        assert places[1].bearers[-1] != old.access_token
        stored = await there.stored()
        assert stored.refresh_token not in (None, old.refresh_token)


async def test_an_expired_token_with_a_good_refresh_token_needs_nobody_after_a_restart(
    tmp_path: Path, places: Places
) -> None:
    person = Person(places, {})
    await person.log_in()
    await person.age(left=-50)
    async with gate(tmp_path, places) as there:
        assert there.state == "healthy"
        assert "hello from there" in await there.call()
    assert len(there.realm.asked("/auth")) == 1
    assert len(there.realm.grants("refresh_token")) == 1


async def test_a_login_that_the_issuer_has_ended_is_required_again(tmp_path: Path, places: Places) -> None:
    async with gate(tmp_path, places) as there:
        await there.log_in()
        await healthy(there)
        there.realm.forget_refresh_tokens()
        await there.age(left=-50)
        text = await there.call()
        assert "invalid_grant" in text
        assert "never answered" not in text  # the chain can be resumed: nothing was run
        assert there.state == "login_required"
        await there.log_in()
        await healthy(there)
        assert "hello from there" in await there.call()
    assert len(there.realm.asked("/clients-registrations/openid-connect")) == 1


async def test_a_token_that_the_server_refuses_is_renewed_once(tmp_path: Path, places: Places) -> None:
    async with gate(tmp_path, places) as there:
        await there.log_in()
        await healthy(there)
        there.realm.tokens.clear()
        assert "hello from there" in await there.call()
        assert len(there.realm.grants("refresh_token")) == 1


async def test_while_the_issuer_is_down_calls_go_on_and_the_login_stays(
    tmp_path: Path, places: Places
) -> None:
    async with gate(tmp_path, places) as there:
        await there.log_in()
        await healthy(there)
        there.realm.down = True
        await there.age(left=15)
        assert "hello from there" in await there.call()
        await there.age(left=-1)
        assert "answered 503" in await there.call()
        assert there.state != "login_required"
        there.realm.down = False
        assert "hello from there" in await there.call()
    assert len(there.realm.asked("/auth")) == 1


async def test_four_calls_of_a_chain_are_at_the_server_at_the_same_time(
    tmp_path: Path, places: Places
) -> None:
    places[1].together = 4
    async with gate(tmp_path, places) as there:
        await there.log_in()
        await healthy(there)
        code = "await Promise.all([1, 2, 3, 4].map(() => web.wait({}))); return 'all';"
        text, failed, _ = await answer(there.app, code)
        assert (text, failed) == ("all", False)


async def test_a_token_is_not_sent_to_where_the_server_redirects(tmp_path: Path, places: Places) -> None:
    async with serving(lambda base: Protected(base, places[0])) as (other,), gate(tmp_path, places) as there:
        await there.log_in()
        await healthy(there)
        places[1].moved = other.url
        text = await there.call()
        assert "was not followed" in text or "redirect" in text, text
        assert other.bearers == []


async def test_tokens_appear_in_no_log_error_status_or_answer(
    tmp_path: Path, places: Places, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with gate(tmp_path, places, top={"audit": {"path": str(tmp_path / "audit")}}) as there:
        login = await there.log_in()
        await healthy(there)
        said, _, _ = await answer(there.app, f"return await web.echo({{ text: '{login.access_token}' }});")
        there.realm.tokens.clear()
        said += await there.call()
        renewed = await there.stored()
        there.realm.tokens.clear()
        there.realm.forget_refresh_tokens()
        said += await there.call()
        said += json.dumps(app_facts(there.app)) + caplog.text
    files = [path for path in tmp_path.rglob("*") if path.is_file()]  # noqa: ASYNC240 - a folder of the test's own
    said += "".join(path.read_bytes().decode("latin-1") for path in files)
    assert renewed.access_token != login.access_token
    for secret in (*login.secrets, *renewed.secrets):
        assert secret not in said


@pytest.mark.parametrize("shared", [False, True])
async def test_two_gateways_that_renew_at_once_make_one_request(
    tmp_path: Path, places: Places, shared: bool, redis_server: RedisServer
) -> None:
    top = {"state": redis_server.config} if shared else {}
    async with (
        gate(tmp_path / "one", places, top=top) as one,
        gate(tmp_path / "two", places, top=top) as two,
    ):
        await one.log_in()
        await healthy(one)
        await healthy(two)
        await one.age(left=-50)
        await two.follow()
        places[0].may_answer = anyio.Event()
        async with anyio.create_task_group() as tasks:
            said: list[str] = []

            async def call(there: Gate) -> None:
                said.append(await there.call())

            for there in (one, two, one, two):
                tasks.start_soon(call, there)
            await until(lambda: [each.app.manager.status("web").calls_open for each in (one, two)] == [2, 2])
            places[0].may_answer.set()
        assert all("hello from there" in text for text in said), said
    assert len(places[0].grants("refresh_token")) == 1
    if shared:
        assert not (tmp_path / "state" / "gatemini" / "logins").exists()
        await anyio.to_thread.run_sync(redis_server.stop)
        files = [path for path in redis_server.folder.rglob("*") if path.is_file()]
        written = b"".join(path.read_bytes() for path in files)
        assert b"login:" in written
        assert not [token for token in places[0].tokens if token.encode() in written]


def _facts(there: Gate) -> dict[str, Any]:
    login = there.app.manager.status("web").login
    assert login is not None
    return login


def _left(there: Gate) -> float:
    return datetime.fromisoformat(_facts(there)["expires"]).timestamp() - time.time()


@pytest.mark.parametrize("agrees", [True, False])
async def test_a_client_that_takes_urls_is_sent_to_the_page_and_its_call_goes_on(
    tmp_path: Path, places: Places, agrees: bool
) -> None:
    asked: list[Any] = []

    async def answer_url(context: Any, params: Any) -> ElicitResult:
        asked.append(params)
        if agrees:
            assert (await visit(params.url)).status_code == 200
        return ElicitResult(action="accept" if agrees else "decline")

    async with gate(tmp_path, places) as there:
        client = client_of(there.app, elicitation_callback=answer_url)
        async with client as connected:
            code = "return await web.echo({ text: 'hello ' + 'from there' });"
            result = await connected.call_tool("call_tool_chain", {"code": code})
            text = result.content[0].text  # type: ignore[union-attr]
        assert ("hello from there" in text) is agrees, text
        assert agrees or "gatemini login web" in text
    assert [each.mode for each in asked] == ["url"]
    assert "web needs a login" in asked[0].message


async def test_a_token_without_a_refresh_token_that_the_server_refuses_needs_a_person_and_no_retries(
    tmp_path: Path, places: Places
) -> None:
    async with gate(tmp_path, places) as there:
        there.realm.refreshes = False
        login = await there.log_in()
        await healthy(there)
        there.realm.tokens.clear()
        sent = there.server.bearers.count(login.access_token)
        text = await there.call()
        assert "cannot be renewed" in text
        assert "gatemini login web" in text
        assert there.state == "login_required"
        assert there.server.bearers.count(login.access_token) <= sent + 2
        there.server.bearers.clear()
        for _ in range(3):
            assert "cannot be renewed" in await there.call()
        assert there.server.bearers == []
        await there.log_in()
        await healthy(there)
        assert login.access_token not in there.server.bearers


async def test_a_server_that_changes_its_issuer_gets_nothing_of_the_old_one(
    tmp_path: Path, places: Places
) -> None:
    async with serving(Realm) as (other,), gate(tmp_path, places) as there:
        old = await there.log_in()
        await healthy(there)
        there.server.metadata = {"authorization_servers": [other.url]}
        there.server.realm = other
        assert f"its issuer is {other.url} now" in await there.call()
        new = await there.log_in()
        await healthy(there)
        assert "hello from there" in await there.call()
    assert new.issuer == other.url != old.issuer
    assert len(other.asked("/clients-registrations/openid-connect")) == 1
    assert not [form for _, form in other.seen for secret in old.secrets if secret in form.values()]


async def test_a_401_that_speaks_of_no_token_does_not_end_the_login(tmp_path: Path, places: Places) -> None:
    async with gate(tmp_path, places) as there:
        await there.log_in()
        await healthy(there)
        there.server.mute = True
        assert "HTTP 401" in await there.call()
        there.server.mute = False
        assert "hello from there" in await there.call()
        assert there.state == "healthy"
    assert len(there.realm.grants("refresh_token")) == 1


async def test_where_nothing_can_be_written_an_unattended_login_counts_for_the_process(
    tmp_path: Path, places: Places, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null/state")
    async with gate(tmp_path, places, **UNATTENDED) as there:
        assert "hello from there" in await there.call()
    assert "is lost at the next start" in caplog.text
