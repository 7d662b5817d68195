"""JWTs of an issuer: what counts, thirty forgeries that do not, and the issuer's keys over time."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import jwt
import pytest

from fixtures.http_gateway import Served, served, text, until
from fixtures.issuer import AUDIENCE, EC, ED, OTHER_RSA, RSA, WEAK_RSA, Issuer, forged, issuer, pem, public
from gatemini.config.model.http.auth import OAuthConfig
from gatemini.http.auth import jwks
from gatemini.http.auth.issuer import Issuer as Client
from gatemini.http.auth.jwks import Jwks
from gatemini.http.auth.jwts import Jwts, TokenRefused

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def checked(found: Issuer, **more: Any) -> AsyncIterator[Jwts]:
    """The check of this issuer's tokens, without a gateway around it."""
    config = OAuthConfig.model_validate({"issuer": found.url, **more})
    client = Client()
    try:
        yield Jwts(config, AUDIENCE, Jwks(config, client))
    finally:
        await client.close()


async def refusal(found: Jwts, token: str) -> str:
    try:
        await found.claims(token)
    except TokenRefused as refused:
        return str(refused) or "refused"
    return ""


def signed_by_public_key(found: Issuer, alg: str = "HS256", kid: str = "rsa") -> str:
    """The old trick: an HMAC whose secret is the issuer's public key, which everybody has."""
    token = forged({"alg": alg, "typ": "JWT", "kid": kid}, found.claims())
    body = token.rpartition(".")[0]
    mac = hmac.new(pem(RSA), body.encode(), hashlib.sha256).digest()
    return f"{body}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


def swapped(token: str, **claims: Any) -> str:
    """A good token with other claims under its signature."""
    head, body, signature = token.split(".")
    found = {**json.loads(base64.urlsafe_b64decode(body + "==")), **claims}
    other = base64.urlsafe_b64encode(json.dumps(found).encode()).rstrip(b"=").decode()
    return f"{head}.{other}.{signature}"


def with_header(found: Issuer, key: Any = OTHER_RSA, **header: Any) -> str:
    return jwt.encode(found.claims(), key, "RS256", headers={"kid": "rsa", **header})


NOW = int(time.time())
FORGERIES: dict[str, Callable[[Issuer], str]] = {
    "alg none": lambda i: forged({"alg": "none", "kid": "rsa"}, i.claims()),
    "alg None": lambda i: forged({"alg": "None", "kid": "rsa"}, i.claims()),
    "alg nOnE and a signature": lambda i: forged({"alg": "nOnE", "kid": "rsa"}, i.claims(), b"x" * 256),
    "no alg": lambda i: forged({"kid": "rsa"}, i.claims()),
    "alg a list": lambda i: forged({"alg": ["RS256"], "kid": "rsa"}, i.claims()),
    "HMAC with the public key": signed_by_public_key,
    "HMAC called RS256": lambda i: signed_by_public_key(i, "RS256"),
    "HMAC with an empty secret": lambda i: forged({"alg": "HS256", "kid": "rsa"}, i.claims(), hmac.digest(b"", b"", "sha256")),
    "RS384, which is not allowed": lambda i: i.token(RSA, "rsa", "RS384"),
    "PS256, which is not allowed": lambda i: i.token(RSA, "rsa", "PS256"),
    "another key under the kid": lambda i: i.token(OTHER_RSA, "rsa"),
    "an unknown kid": lambda i: i.token(OTHER_RSA, "other"),
    "no kid, and several keys": lambda i: i.token(RSA, None),
    "the kid of a key of another type": lambda i: i.token(RSA, "ec"),
    "ES256 with the kid of the RSA key": lambda i: i.token(EC, "rsa", "ES256"),
    "a kid that is a path": lambda i: i.token(OTHER_RSA, "../../dev/null"),
    "a kid that is SQL": lambda i: i.token(OTHER_RSA, "x' UNION SELECT 'key"),
    "a kid that is a number": lambda i: forged({"alg": "RS256", "kid": 7}, i.claims(), b"x"),
    "a key of its own in the header": lambda i: with_header(i, jwk=public(OTHER_RSA, "rsa")),
    "a key set of its own": lambda i: with_header(i, jku="https://evil.example/jwks"),
    "a certificate of its own": lambda i: with_header(i, x5u="https://evil.example/cert"),
    "a crit extension": lambda i: with_header(i, RSA, crit=["exp2"], exp2=1),
    "an ID token's type": lambda i: with_header(i, RSA, typ="id_token+jwt"),
    "a proof's type": lambda i: with_header(i, RSA, typ="dpop+jwt"),
    "another audience": lambda i: i.token(aud="https://other.example.com/mcp"),
    "an audience that begins with ours": lambda i: i.token(aud=f"{AUDIENCE}.evil.example"),
    "no audience": lambda i: i.token(aud=None),
    "an issuer that looks like ours": lambda i: i.token(iss=i.url + "/"),
    "an issuer with ours in it": lambda i: i.token(iss=f"https://evil.example/?{i.url}"),
    "no issuer": lambda i: i.token(iss=None),
    "issuers in a list": lambda i: i.token(iss=[i.url]),
    "expired": lambda i: i.token(exp=NOW - 3600),
    "expired, with a text for a time": lambda i: i.token(exp="never"),
    "no expiry": lambda i: i.token(exp=None),
    "not valid yet": lambda i: i.token(nbf=NOW + 3600),
    "issued in the future": lambda i: i.token(iat=NOW + 3600),
    "other claims under a good signature": lambda i: swapped(i.token(), azp="admin"),
    "a signature cut off": lambda i: i.token().rpartition(".")[0] + ".",
    "a signature of another token": lambda i: i.token().rpartition(".")[0] + "." + i.token(sub="b").rpartition(".")[2],
    "an ECDSA signature of zeros": lambda i: forged({"alg": "ES256", "kid": "ec"}, i.claims(), bytes(64)),
    "a weak key that the issuer publishes": lambda i: i.token(WEAK_RSA, "weak"),
    "a key for encryption": lambda i: i.token(OTHER_RSA, "enc"),
    "a symmetric key that the issuer publishes": lambda i: jwt.encode(i.claims(), "k" * 32, "HS256", headers={"kid": "oct"}),
    "a claim set that is a list": lambda i: i.signed([i.claims()]),
    "four parts": lambda i: i.token() + ".x",
    "endless": lambda i: i.token(more="x" * 20_000),
    "no JSON": lambda i: "e30.!!!.e30",
}  # fmt: skip


def with_odd_keys(found: Issuer) -> None:
    found.keys += [
        public(WEAK_RSA, "weak"),
        {**public(OTHER_RSA, "enc"), "use": "enc"},
        {"kty": "oct", "kid": "oct", "k": base64.urlsafe_b64encode(b"k" * 32).decode()},
    ]


@pytest.mark.filterwarnings("ignore:The RSA key is 1024 bits")  # the forger signs with it
async def test_no_forgery_counts_and_the_good_tokens_do() -> None:
    assert len(FORGERIES) >= 30
    async with issuer() as found, checked(found) as jwts:
        with_odd_keys(found)
        for alg, key, kid in (("RS256", RSA, "rsa"), ("ES256", EC, "ec"), ("EdDSA", ED, "ed")):
            assert (await jwts.claims(found.token(key, kid, alg)))["azp"] == "ci-1"
        assert await jwts.claims(found.token(aud=["x", AUDIENCE]))
        assert await jwts.claims(found.token(exp=int(time.time()) - 30)), "a clock may be a minute off"
        assert await jwts.claims(found.token(nbf=int(time.time()) + 30))
        assert await jwts.claims(with_header(found, RSA, typ="at+JWT"))
        counted = [name for name, made in FORGERIES.items() if not await refusal(jwts, made(found))]
    assert counted == []


async def test_a_key_without_a_name_counts_where_it_is_the_only_one() -> None:
    async with issuer() as found, checked(found) as jwts:
        found.keys = [public(RSA, None)]
        assert await jwts.claims(found.token(kid=None))


@pytest.mark.proves("http.auth.oauth.algorithms")
async def test_only_algorithms_of_the_configuration_count() -> None:
    async with issuer() as found, checked(found, algorithms=["ES256"]) as jwts:
        assert await jwts.claims(found.token(EC, "ec", "ES256"))
        assert "not allowed" in await refusal(jwts, found.token())


@pytest.mark.proves("http.auth.oauth.jwks")
async def test_keys_are_fetched_once_and_again_for_a_new_key_but_not_for_each_forgery() -> None:
    async with issuer() as found, checked(found, jwks=f"{found.url}/jwks") as jwts:
        for _ in range(5):
            await jwts.claims(found.token())
        assert found.asked == {"/realm/jwks": 1}
        found.keys = [public(OTHER_RSA, "next")]
        assert await jwts.claims(found.token(OTHER_RSA, "next"))
        assert found.asked == {"/realm/jwks": 2}
        for number in range(100):
            assert await refusal(jwts, found.token(RSA, f"forged-{number % 50}"))
        assert found.asked["/realm/jwks"] == jwks.MOST_PER_MINUTE
        assert await jwts.claims(found.token(OTHER_RSA, "next"))


async def test_the_last_good_keys_serve_a_day_while_the_issuer_is_down() -> None:
    now = [0.0]
    async with issuer() as found:
        config = OAuthConfig(issuer=found.url)
        client = Client()
        jwts = Jwts(config, AUDIENCE, Jwks(config, client, lambda: now[0]))
        assert await jwts.claims(found.token())
        found.down = True
        now[0] += jwks.FRESH_SECONDS + 1
        assert await jwts.claims(found.token())
        now[0] += 1
        asked = sum(found.asked.values())
        assert await jwts.claims(found.token())
        assert sum(found.asked.values()) == asked, "an issuer that is down is not asked for each login"
        now[0] += jwks.LAST_GOOD_SECONDS
        assert "not known" in await refusal(jwts, found.token())
        found.down = False
        now[0] += jwks.FAILED_SECONDS + 1
        assert await jwts.claims(found.token())
        found.keys = [public(EC, "ec")]
        now[0] += jwks.FRESH_SECONDS + 1
        assert await refusal(jwts, found.token()), "a key that the issuer took back counts no more"
        await client.close()


async def test_while_a_slow_issuer_is_asked_the_keys_that_are_known_serve() -> None:
    now = 1000.0
    async with issuer() as found:
        client = Client()
        keys = Jwks(OAuthConfig.model_validate({"issuer": found.url}), client, clock=lambda: now)
        assert await keys.keys("rsa")
        now += jwks.FRESH_SECONDS + 1
        found.slow = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keys.keys, "rsa")
            await until(lambda: found.waiting)
            with anyio.fail_after(60):
                assert await keys.keys("ec")
            found.slow.set()
        await client.close()


async def test_metadata_of_another_issuer_bring_no_keys() -> None:
    async with issuer() as found, checked(found) as jwts:
        found.named = "https://evil.example"
        assert "another issuer" in await refusal(jwts, found.token())


@pytest.mark.parametrize(
    "url", ["http://[", "http://x:port/", "http://\x00", "file:///etc/passwd", "//x", ""]
)
async def test_metadata_with_an_address_that_is_none_bring_no_keys_and_no_fault(url: str) -> None:
    async with issuer() as found, checked(found) as jwts:
        found.key_url = url
        assert "the issuer's keys are not known" in await refusal(jwts, found.token())


def config(found: Issuer, **oauth: Any) -> dict[str, Any]:
    return {"public_url": AUDIENCE, "auth": {"oauth": {"issuer": found.url, **oauth}}}


async def status(gateway: Served, token: str) -> Any:
    message, headers = gateway.modern("tools/list")
    return await gateway.post(message, headers={**headers, "Authorization": f"Bearer {token}"})


@pytest.mark.proves(
    "http.auth.oauth.issuer",
    "http.auth.oauth.audience",
    "http.auth.oauth.required_scopes",
    "http.auth.oauth.clients_claim",
)
async def test_the_gateway_takes_tokens_of_the_issuer_with_the_scopes_it_needs(tmp_path: Path) -> None:
    async with issuer() as found:
        async with served(tmp_path / "a", http=config(found)) as gateway:
            assert (await status(gateway, found.token())).status_code == 200
            assert (await status(gateway, found.token(exp=NOW - 3600))).status_code == 401
            metadata = await gateway.http.get(f"{gateway.base}/.well-known/oauth-protected-resource/mcp")
            assert metadata.json()["authorization_servers"] == [found.url]
            assert metadata.json()["resource"] == AUDIENCE
            # Two tokens of one principal are one: refreshing changes nothing.
            keep = await gateway.chain(
                "return (await results.save(1)).handle;", headers={"Authorization": f"Bearer {found.token()}"}
            )
            load = f"return await results.load('{text(keep)}');"
            for claims, counts in (
                ({"jti": "2"}, True),
                ({"sub": "user-2"}, False),
                ({"azp": "ci-2"}, False),
            ):
                other = {"Authorization": f"Bearer {found.token(**claims)}"}
                assert (await gateway.chain(load, headers=other))["isError"] is not counts
        keys = config(found, audience="api", required_scopes=["tools:call"], clients_claim="cid")
        async with served(tmp_path / "b", http=keys) as gateway:
            assert (await status(gateway, found.token())).status_code == 401
            short = await status(gateway, found.token(aud="api", scope="other"))
            assert short.status_code == 403
            assert 'error="insufficient_scope"' in short.headers["www-authenticate"]
            assert 'scope="tools:call"' in short.headers["www-authenticate"]
            good = await status(gateway, found.token(aud="api", scope="x tools:call", cid="named"))
            assert good.status_code == 200
            named = [each.key[0] for each in gateway.server.sessions]
            assert json.loads(named[0]) == [found.url, "user-1", "named"]


@pytest.mark.proves(
    "http.auth.introspection.url",
    "http.auth.introspection.client_id",
    "http.auth.introspection.client_secret",
)
async def test_an_issuer_is_asked_about_opaque_tokens_at_most_once_a_second(tmp_path: Path) -> None:
    async with issuer() as found:
        asked = {"url": f"{found.url}/introspect", "client_id": "gateway", "client_secret": "secret"}
        async with served(
            tmp_path, http={"public_url": AUDIENCE, "auth": {"introspection": asked}}
        ) as gateway:
            found.active["opaque"] = {
                "active": True,
                "sub": "user-1",
                "client_id": "ci-1",
                "exp": int(time.time()) + 300,
            }
            found.active["other-aud"] = {**found.active["opaque"], "aud": "x"}
            found.active["expired"] = {**found.active["opaque"], "exp": NOW - 3600}
            assert (await status(gateway, "opaque")).status_code == 200
            for token in ("unknown", "other-aud", "expired"):
                assert (await status(gateway, token)).status_code == 401
            assert [json.loads(each.key[0])[1:] for each in gateway.server.sessions] == [["user-1", "ci-1"]]
            before = found.asked["/realm/introspect"]
            for _ in range(5):
                await status(gateway, "opaque")
            assert found.asked["/realm/introspect"] - before <= 2
            message, headers = gateway.modern_chain("await new Promise(r => setTimeout(r, 20_000));")
            found.active.clear()
            ended = await gateway.post(message, headers={**headers, "Authorization": "Bearer opaque"})
            assert ended.status_code == 401
