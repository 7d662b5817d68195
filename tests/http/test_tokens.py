"""Tokens of the file: shown once, hashed at rest, revoked within a second; and what a refused login is told."""

from __future__ import annotations

import json
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
import yaml

from fixtures.audit import logins_of
from fixtures.http_gateway import Served, result, served, text, until
from gatemini.http.auth import throttle, tokens
from gatemini.http.auth.throttle import Throttle

pytestmark = pytest.mark.anyio

AUTH: dict[str, Any] = {"auth": {"tokens": {"file": "tokens.yaml"}}}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def made(folder: Path, client: str = "ci-1", **more: Any) -> tuple[str, str]:
    """(token, id) of a new token."""
    given = {"scopes": (), "tools": None, "lasting": timedelta(days=1), **more}
    token, entry = tokens.create(folder / "tokens.yaml", client, **given)
    return token, entry.id


async def status(gateway: Served, headers: dict[str, str]) -> int:
    message, own = gateway.modern("tools/list")
    return (await gateway.post(message, headers={**own, **headers})).status_code


@pytest.mark.proves("http.auth.tokens.file")
async def test_a_token_counts_at_once_and_no_longer_than_it_is_valid(tmp_path: Path) -> None:
    async with served(tmp_path, http=AUTH) as gateway:
        assert await status(gateway, bearer("gtm_000000000000_x")) == 401
        token, ident = made(tmp_path)
        assert await status(gateway, bearer(token)) == 200
        assert await status(gateway, bearer(token[:-1] + ("A" if token[-1] != "A" else "B"))) == 401
        expired, _ = made(tmp_path, lasting=timedelta(seconds=-1))
        assert await status(gateway, bearer(expired)) == 401
        tokens.revoke(tmp_path / "tokens.yaml", ident)
        assert await status(gateway, bearer(token)) == 401
        kept = (tmp_path / "tokens.yaml").read_text()
        assert token.rpartition("_")[2] not in kept
        assert (tmp_path / "tokens.yaml").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("written", "counts"),
    [
        ("2100-01-01", True),
        ("2100-01-01T00:00:00", True),
        ("2100-01-01 00:00:00+02:00", True),
        ("2020-01-01", False),
        ("soon", False),
        ("[" * 3000, False),
        ("[", False),
    ],
)
def test_an_end_that_a_person_has_written_into_the_file_counts_or_no_token_does(
    tmp_path: Path, written: str, counts: bool
) -> None:
    token, _ = made(tmp_path)
    path = tmp_path / "tokens.yaml"
    lines = [line for line in path.read_text().splitlines() if "expires" not in line]
    path.write_text("\n".join([*lines, f"  expires: {written}"]))
    found = tokens.TokenFile(path)
    assert (found.find(token) is not None) is counts
    assert (found.problem is None) is ("soon" not in written and "[" not in written)


async def test_a_refused_login_is_told_where_to_get_a_token_and_nothing_else(tmp_path: Path) -> None:
    keys = {**AUTH, "public_url": "https://tools.example.com/mcp"}
    async with served(tmp_path, http=keys) as gateway:
        message, headers = gateway.modern("tools/list")
        metadata = "https://tools.example.com/.well-known/oauth-protected-resource/mcp"
        answer = await gateway.post(message, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == f'Bearer resource_metadata="{metadata}"'
        answer = await gateway.post(message, headers={**headers, **bearer("wrong")})
        assert 'error="invalid_token"' in answer.headers["www-authenticate"]
        assert "wrong" not in answer.text
        for path in ("", "/mcp"):
            found = await gateway.http.get(f"{gateway.base}/.well-known/oauth-protected-resource{path}")
            assert found.json()["resource"] == "https://tools.example.com/mcp"
        for given in (["Basic YTpi"], ["Bearer"], ["Bearer a", "Bearer b"]):
            sent = [*headers.items(), *(("authorization", each) for each in given)]
            sent += [("accept", "*/*"), ("content-type", "application/json")]
            answer = await gateway.http.post(gateway.url, content=json.dumps(message), headers=sent)
            assert answer.status_code == 401, given


async def test_a_token_in_the_query_is_refused_even_if_it_counts(tmp_path: Path) -> None:
    async with served(tmp_path, http=AUTH) as gateway:
        token, _ = made(tmp_path)
        message, headers = gateway.modern("tools/list")
        sent = {**headers, "content-type": "application/json", "accept": "*/*"}
        for query in (f"access_token={token}", f"a=1&access_token={token}"):
            answer = await gateway.http.post(f"{gateway.url}?{query}", json=message, headers=sent)
            assert answer.status_code == 400
            assert token not in answer.text


async def test_what_is_open_for_a_token_ends_when_it_is_revoked(tmp_path: Path) -> None:
    ended: list[httpx2.Response] = []
    async with served(tmp_path, http=AUTH) as gateway:
        token, ident = made(tmp_path)
        other, _ = made(tmp_path)
        session = await gateway.handshake(bearer(token))
        slow = "await new Promise(() => setTimeout(() => {}, 600_000)); return 1;"

        async def chain() -> None:
            message, headers = gateway.modern_chain(slow)
            ended.append(await gateway.post(message, headers={**headers, **bearer(token)}))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(chain)
            headers = {**session, "accept": "text/event-stream"}
            async with gateway.http.stream("GET", gateway.url, headers=headers) as stream:
                assert stream.status_code == 200
                await until(lambda: gateway.server.endpoint.in_flight == 1)
                tokens.revoke(tmp_path / "tokens.yaml", ident)
                assert [line async for line in stream.aiter_lines() if line.startswith("data")] == []
                await until(lambda: ended)
        assert ended[0].status_code == 401
        # The session is the client's, not the token's.
        again = {**session, **bearer(other)}
        assert text(result(await gateway.post(gateway.legacy_chain("return 1;"), headers=again))) == "1"


async def test_sessions_of_one_client_are_not_reached_by_another(tmp_path: Path) -> None:
    async with served(tmp_path, http=AUTH) as gateway:
        one, other = bearer(made(tmp_path, "one")[0]), bearer(made(tmp_path, "other")[0])
        session = await gateway.handshake(one)
        stolen = {**session, **other}
        assert (await gateway.post(gateway.legacy_chain("return 1;"), headers=stolen)).status_code == 404
        assert (await gateway.http.delete(gateway.url, headers=stolen)).status_code == 404
        handle = text(await gateway.chain("return (await results.save(1)).handle;", session="a", headers=one))
        load = f"return await results.load('{handle}');"
        assert (await gateway.chain(load, session="a", headers=other))["isError"]
        assert (await gateway.chain(load, headers=other))["isError"]
        assert text(await gateway.chain(load, session="a", headers=one)) == "1"


async def test_a_file_that_others_may_write_or_that_is_broken_has_no_tokens(tmp_path: Path) -> None:
    async with served(tmp_path, http=AUTH) as gateway:
        token, _ = made(tmp_path)
        file = tmp_path / "tokens.yaml"
        assert await status(gateway, bearer(token)) == 200
        good = file.read_text()
        for content, mode in ((good, 0o666), ("tokens: [", 0o600), ("tokens: [{id: 1}]", 0o600)):
            file.write_text(content)
            file.chmod(mode)
            os.utime(file, ns=(time.time_ns(), time.time_ns()))
            assert await status(gateway, bearer(token)) == 401
            assert gateway.server.status()["trouble"]
            if content == good:
                file.chmod(0o600)
                assert await status(gateway, bearer(token)) == 200, "what the message asks for is enough"
        file.chmod(0o600)
        file.write_text(good)
        os.utime(file, ns=(time.time_ns(), time.time_ns() + 1))
        assert await status(gateway, bearer(token)) == 200


async def test_a_configuration_without_a_login_opens_nothing_beyond_loopback(tmp_path: Path) -> None:
    keys = {**AUTH, "public_url": "https://tools.example.com/mcp", "trusted_proxies": ["10.0.0.1"]}
    async with served(tmp_path, http={**keys, "allowed_hosts": ["localhost"]}, host="0.0.0.0") as gateway:
        local = {"Host": "localhost"}
        message, headers = gateway.modern("tools/list")
        url = gateway.url.replace("0.0.0.0", "127.0.0.1")
        sent = {**headers, **local, "accept": "*/*", "content-type": "application/json"}
        assert (await gateway.http.post(url, json=message, headers=sent)).status_code == 401
        config = json.loads((tmp_path / "config.yaml").read_text())
        del config["http"]["auth"]
        (tmp_path / "config.yaml").write_text(json.dumps(config))
        await until(lambda: not gateway.server.app.loaded.config.http.has_auth)
        assert (await gateway.http.post(url, json=message, headers=sent)).status_code == 503


async def test_refused_logins_are_audited_without_the_token(tmp_path: Path) -> None:
    async with served(tmp_path, http=AUTH, audit={"path": str(tmp_path / "audit")}) as gateway:
        assert await status(gateway, bearer("a-wrong-token")) == 401
    [file] = (tmp_path / "audit").glob("*.jsonl")
    [login] = logins_of(tmp_path)
    assert (login["outcome"], login["address"]) == ("refused", "127.0.0.1")
    assert "a-wrong-token" not in file.read_text()


async def test_the_first_login_of_a_token_and_its_end_are_audited(tmp_path: Path) -> None:
    token, ident = made(tmp_path, "ci", scopes=("read",))
    headers = bearer(token)
    async with served(tmp_path, http=AUTH, audit={"path": str(tmp_path / "audit")}) as gateway:
        for _ in range(3):
            assert await status(gateway, headers) == 200
        session = await gateway.handshake(headers)
        async with gateway.http.stream(
            "GET", gateway.url, headers={**session, "accept": "text/event-stream"}
        ):
            tokens.revoke(tmp_path / "tokens.yaml", ident)
            await until(lambda: "ended" in [each["outcome"] for each in logins_of(tmp_path)])
        assert await status(gateway, headers) == 401
    found = logins_of(tmp_path)
    assert [each["outcome"] for each in found] == ["accepted", "ended", "refused"]
    for each in found[:2]:
        assert (each["client"], each["token"], each["scopes"]) == ("ci", ident, ["read"])
    assert token not in "".join(map(str, found))


async def test_failed_logins_of_one_address_wait_longer_and_longer_and_others_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(throttle.anyio, "sleep", sleep)
    made = Throttle()
    assert all([await made.failed("192.0.2.1") for _ in range(12)])
    assert slept == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]
    assert made.seconds("192.0.2.2") == 0


async def test_too_many_failed_logins_at_once_are_refused_without_waiting(tmp_path: Path) -> None:
    async with served(tmp_path, http=AUTH) as gateway:
        token, _ = made(tmp_path)
        found: list[int] = []

        async def attempt() -> None:
            found.append(await status(gateway, bearer("wrong")))

        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(attempt)
            await until(lambda: 429 in found)
            assert await status(gateway, bearer(token)) == 200, "a good token of the address counts meanwhile"
            tasks.cancel_scope.cancel()


def test_the_commands_make_show_and_revoke_tokens(home: Any) -> None:
    def run(*words: str, code: int = 0) -> str:
        found = home.command(*words, "-c", str(home.config))
        assert found.returncode == code, found.stderr
        return str(found.stdout) + str(found.stderr)

    assert "names no token file" in run("token", "create", "--client", "ci-1", code=1)
    home.write_config(http=AUTH, audit={"path": str(home.root / "audit")})
    options = ["--scopes", "a,b", "--tools", "ledger.*", "--expires", "2d"]
    made = json.loads(run("token", "create", "--client", "ci-1", *options, "--json").partition("token ")[0])
    kept = yaml.safe_load((home.root / "tokens.yaml").read_text())["tokens"]
    assert kept[0]["client"] == "ci-1"
    assert made["token"] not in json.dumps(kept)
    shown = run("token", "list")
    assert "ci-1\tcounts" in shown
    assert made["token"] not in shown
    assert kept[0]["sha256"] not in run("token", "list", "--json")
    assert made["id"] in run("token", "revoke", "ci-1")
    assert "ci-1\trevoked" in run("token", "list")
    assert "no token or client" in run("token", "revoke", "ci-1", code=1)
    assert "allowed are 30m" in run("token", "create", "--client", "x", "--expires", "soon", code=2)
    recorded = logins_of(home.root)
    assert [(each["outcome"], each["client"]) for each in recorded] == [
        ("created", "gatemini token create"),
        ("revoked", "gatemini token revoke"),
    ]
    assert made["token"] not in json.dumps(recorded)
