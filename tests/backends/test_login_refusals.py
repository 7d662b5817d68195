"""What a server says when it refuses a token, and what a call shows of that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest

from fixtures.login_gate import UNATTENDED, Places, gate, places
from fixtures.running import until
from gatemini.backends.oauth.discovery import Challenge, challenge_of

__all__ = ["places"]

pytestmark = pytest.mark.anyio
PERSON: dict[str, Any] = {}
each_login = pytest.mark.parametrize("oauth", [PERSON, UNATTENDED], ids=["person", "client"])


@each_login
async def test_a_call_that_no_login_can_make_says_what_is_needed_and_what_there_is(
    tmp_path: Path, places: Places, oauth: dict[str, Any]
) -> None:
    places[0].permits = {"tools"}
    async with gate(tmp_path, places, **oauth) as there:
        if not oauth:
            await there.log_in()
            await until(lambda: there.state == "healthy")
            assert "more scopes (tools admin)" in await there.call("admin")
            await there.log_in()
            await there.follow()
        text = await there.call("admin")
        assert "insufficient_scope; it needs admin, and the login has tools" in text, text
        assert "another login brings no more" in text
        assert there.state == "healthy"
        assert "hello from there" in await there.call()
        asked = len(there.realm.asked("/token"))
        await there.call("admin")
        assert len(there.realm.asked("/token")) == asked


@each_login
@pytest.mark.parametrize(
    ("challenge", "said"),
    [
        (
            'Bearer error="insufficient_scope", scope="tools"',
            "insufficient_scope; it needs tools, and the login has tools",
        ),
        ("Bearer", "HTTP 403 Forbidden"),
    ],
)
async def test_a_backend_that_admits_no_login_names_that_and_not_its_handshake(
    tmp_path: Path, places: Places, oauth: dict[str, Any], challenge: str, said: str
) -> None:
    places[1].challenge = challenge
    async with gate(tmp_path, places, **oauth) as there:
        if not oauth:
            await there.log_in()
        await until(lambda: said in (there.app.manager.error("web") or ""))
        text = await there.call()
    assert said in text, text
    assert "oauth: {}" not in text  # there is a login


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ('Bearer scope="a b", error="insufficient_scope"', Challenge(None, "a b", "insufficient_scope")),
        (
            'Basic realm="x, scope=evil", Bearer error_description="say \\"scope=c\\" or error=d", SCOPE=a',
            Challenge(None, "a", None),
        ),
        ('Bearer realm="a\\\\", scope = "b"', Challenge(None, "b", None)),
        ('Bearer scope="a \x9b2J b\\"c \x85", scope="d"', Challenge(None, "a", None)),
        ('Bearer scope="", error=', Challenge()),
        ('Bearer resource_metadata="https://a.example/x?scope=q', Challenge("https://a.example/x?scope=q")),
        ("", Challenge()),
        ("Bearer " + 'scope="' * 20_001, Challenge(None, "scope=", None)),
    ],
)
def test_odd_challenges_are_read_as_far_as_they_are_parameters(header: str, found: Challenge) -> None:
    response = httpx2.Response(401, headers=[(b"www-authenticate", header.encode("latin-1"))])
    assert challenge_of(response) == found


def test_a_challenge_has_a_bounded_number_of_scopes() -> None:
    many = " ".join(f"s{n}" for n in range(5000))
    found = challenge_of(httpx2.Response(403, headers={"www-authenticate": f'Bearer scope="{many}"'}))
    assert found.scope is not None
    assert len(found.scope.split()) == 100
