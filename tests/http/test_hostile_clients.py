"""What a server withstands of clients, of the tokens that they have, and of issuers that say odd things of them."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from fixtures.http_gateway import Served, raw, rest, served, until
from fixtures.issuer import AUDIENCE, issuer
from gatemini.http.auth import throttle, tokens

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Failed logins are not slowed here."""
    monkeypatch.setattr(throttle, "FIRST_SECONDS", 0.0)


async def status(gateway: Served, token: str) -> int:
    message, headers = gateway.modern("tools/list")
    headers["Authorization"] = f"Bearer {token}"
    return (await gateway.post(message, headers=headers)).status_code


async def test_a_signed_token_with_odd_claims_is_refused_and_no_fault(tmp_path: Path) -> None:
    async with issuer() as found:
        http = {"public_url": AUDIENCE, "auth": {"oauth": {"issuer": found.url}}}
        async with served(tmp_path, http=http) as gateway:
            for claims in (
                {"exp": True},
                {"exp": str(found.claims()["exp"])},
                {"exp": [1]},
                {"nbf": 10**400},
                {"iat": 10**400},
                {"iss": [found.url]},
                {"aud": {AUDIENCE: 1}},
                {"sub": {"a": 1}},
                {"sub": "user\ud800"},
                {"azp": "ci\x1b[2J"},
            ):
                assert await status(gateway, found.token(**claims)) == 401, claims
            for claims in ({"exp": 10**400}, {"aud": ["x", AUDIENCE]}, {"scope": {"a": 1}}):
                assert await status(gateway, found.token(**claims)) == 200, claims


async def test_an_issuer_that_is_asked_names_no_principal_of_our_own_tokens_and_causes_no_fault(
    tmp_path: Path,
) -> None:
    async with issuer() as found:
        asked = {"url": f"{found.url}/introspect", "client_id": "gateway", "client_secret": "secret"}
        http = {"public_url": AUDIENCE, "auth": {"introspection": asked, "tokens": {"file": "tokens.yaml"}}}
        about: dict[str, Any] = {"active": True, "sub": "ci-1", "client_id": "ci-1"}
        async with served(tmp_path, http=http) as gateway:
            for number, (more, expected) in enumerate(
                [
                    ({"active": "true"}, 401),
                    ({"active": 1}, 401),
                    ({"exp": "soon"}, 401),
                    ({"exp": 10**18}, 200),
                    ({"sub": ["ci-1"]}, 401),
                    ({"aud": 5}, 401),
                    ({"scope": 5}, 200),
                    ({"iss": "gatemini"}, 200),
                ]
            ):
                found.active[f"t{number}"] = {**about, **more}
                assert await status(gateway, f"t{number}") == expected, more
            assert {json.loads(each.key[0])[0] for each in gateway.server.sessions} == {asked["url"]}


async def test_a_slow_issuer_does_not_delay_the_end_of_what_is_open_for_a_revoked_token(
    tmp_path: Path,
) -> None:
    token, entry = tokens.create(tmp_path / "tokens.yaml", "ci-1", (), None, timedelta(days=1))
    async with issuer() as found:
        asked = {"url": f"{found.url}/introspect", "client_id": "gateway", "client_secret": "secret"}
        http = {"public_url": AUDIENCE, "auth": {"introspection": asked, "tokens": {"file": "tokens.yaml"}}}
        found.active["opaque"] = {"active": True, "sub": "ann", "client_id": "ci-2"}
        async with served(tmp_path, http=http) as gateway, anyio.create_task_group() as tasks:
            answers: dict[str, int] = {}

            async def wait(name: str, given: str) -> None:
                code = "await new Promise(r => setTimeout(r, 25_000));"
                message, headers = gateway.modern_chain(code)
                headers["Authorization"] = f"Bearer {given}"
                answers[name] = (await gateway.post(message, headers=headers)).status_code

            tasks.start_soon(wait, "introspected", "opaque")
            tasks.start_soon(wait, "of the file", token)
            await until(lambda: gateway.server.endpoint.in_flight == 2)
            found.slow = anyio.Event()
            await until(lambda: found.waiting)
            tokens.revoke(tmp_path / "tokens.yaml", entry.id)
            await until(lambda: answers, seconds=3)
            assert answers == {"of the file": 401}
            found.active.clear()
            found.slow.set()
            await until(lambda: len(answers) == 2)
            assert answers["introspected"] == 401


async def test_a_request_with_two_lengths_is_refused_and_its_connection_closed(tmp_path: Path) -> None:
    async with served(tmp_path) as gateway:
        message, headers = gateway.modern("tools/list")
        body = json.dumps(message).encode()
        names = {**headers, "Host": "127.0.0.1", "Content-Type": "application/json", "Accept": "*/*"}
        head = "".join(f"{name}: {value}\r\n" for name, value in names.items())
        lengths = f"Content-Length: {len(body)}\r\nTransfer-Encoding: chunked\r\n"
        chunks = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
        smuggled = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        async with raw(gateway) as stream:
            await stream.send(f"POST /mcp HTTP/1.1\r\n{head}{lengths}\r\n".encode() + chunks + smuggled)
            answer = await rest(stream)
        assert answer.startswith(b"HTTP/1.1 400 "), answer
        assert b"exclude each other" in answer
        assert answer.count(b"HTTP/1.1 ") == 1, answer


async def test_a_host_with_more_than_a_port_is_another_host(tmp_path: Path) -> None:
    async with served(tmp_path) as gateway:
        message, headers = gateway.modern("tools/list")
        for host in (
            '127.0.0.1:80", error="x',
            "127.0.0.1:x",
            "me@127.0.0.1:80",
            "127.0.0.1:123456",
            "[::1]x",
        ):
            answer = await gateway.post(message, headers={**headers, "Host": host})
            assert answer.status_code == 421, (host, answer.text)
