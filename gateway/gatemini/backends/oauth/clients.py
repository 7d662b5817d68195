"""The OAuth client that the gateway is for an issuer: configured, a metadata document, or registered (RFC 7591)."""

from __future__ import annotations

import base64
import re
import time
import uuid
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from mcp.client.auth.utils import issuers_match, should_use_client_metadata_url

from gatemini.backends.oauth.discovery import Authority
from gatemini.backends.oauth.login_record import Client, Login
from gatemini.backends.oauth.requests import OAuthError, post_json, refused, shown
from gatemini.config.model.backend import BackendOAuth
from gatemini.text.escape import one_line

CLIENT_NAME = "Gatemini"
GRANTS = ["authorization_code", "refresh_token"]
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
ASSERTION_SECONDS = 60
NO_REDIRECT = "http://127.0.0.1/callback"
"""Registered for flows without a redirect: issuers want one all the same."""
_CLIENT_ID = re.compile(r"[\x20-\x7e]{1,2048}")
_METHODS = ("client_secret_basic", "client_secret_post", "none")


async def client_of(
    config: BackendOAuth, authority: Authority, before: Login | None, redirect: str | None
) -> Client:
    """Return the client for an issuer. One that was registered with another issuer is never sent to this one."""
    if config.client_id is not None:
        return _configured(config, config.client_id, authority)
    if config.client_metadata_url and should_use_client_metadata_url(
        authority.issuer, config.client_metadata_url
    ):
        return Client(config.client_metadata_url)
    if (known := registered(authority, before)) is not None and redirect in (None, known.redirect):
        return known
    return await _register(authority, redirect or NO_REDIRECT)


def registered(authority: Authority, before: Login | None) -> Client | None:
    """Return the client of the earlier login, if it was registered with this issuer."""
    known = before is not None and before.client.registered and issuers_match(before.issuer, authority.name)
    return before.client if known and before is not None else None


def _configured(config: BackendOAuth, client_id: str, authority: Authority) -> Client:
    if config.flow == "private_key_jwt":
        method = "private_key_jwt"
    elif config.client_secret is None:
        method = "none"
    else:
        method = _method(authority, _METHODS[:2])
    return Client(client_id, method=method)


def _method(authority: Authority, known: Sequence[str]) -> str:
    """Return the first known authentication method that the issuer takes; Basic if it names none (RFC 8414)."""
    taken = authority.issuer.token_endpoint_auth_methods_supported
    if not taken:
        return "client_secret_basic"
    return next((each for each in known if each in taken), known[0])


async def _register(authority: Authority, redirect: str) -> Client:
    place = authority.endpoint("registration")
    if place is None:
        raise OAuthError(
            f"the issuer {shown(authority.name)} registers no clients: set oauth.client_id to one that it knows"
        )
    taken = authority.issuer.grant_types_supported
    grants = [*GRANTS, *([DEVICE_GRANT] if authority.endpoint("device_authorization") else [])]
    public = "none" in (authority.issuer.token_endpoint_auth_methods_supported or ["none"])
    body: dict[str, Any] = {
        "client_name": CLIENT_NAME,
        "redirect_uris": [redirect],
        "grant_types": [each for each in grants if not taken or each in taken or each in GRANTS],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none" if public else _method(authority, _METHODS),
        "application_type": "native",
    }
    status, answer = await post_json(place, body)
    ident = answer.get("client_id") if isinstance(answer, dict) else None
    if status not in (200, 201) or not isinstance(ident, str) or not _CLIENT_ID.fullmatch(ident):
        raise refused(place, status, answer)
    secret = answer.get("client_secret")
    secret = secret if isinstance(secret, str) and secret else None
    method = answer.get("token_endpoint_auth_method") or ("none" if secret is None else "client_secret_basic")
    if method not in _METHODS:
        raise OAuthError(f"the issuer wants clients to prove themselves by {one_line(str(method))[:60]}")
    return Client(ident, secret, method if secret else "none", registered=True, redirect=redirect)


def proof(config: BackendOAuth, login: Login, form: dict[str, str]) -> dict[str, str]:
    """Authenticate the client by its method: add fields to a form for the issuer, or return headers to send with it."""
    client = login.client
    secret = client.secret if client.registered else config.client_secret
    if client.method == "client_secret_basic" and secret is not None:
        pair = f"{quote(client.client_id, safe='')}:{quote(secret, safe='')}"
        return {"authorization": "Basic " + base64.b64encode(pair.encode()).decode()}
    form["client_id"] = client.client_id
    if client.method == "client_secret_post" and secret is not None:
        form["client_secret"] = secret
    elif client.method == "private_key_jwt" and secret is not None:
        form["client_assertion_type"] = ASSERTION
        form["client_assertion"] = _assertion(client.client_id, secret, login.issuer)
    return {}


def _assertion(client_id: str, pem: str, issuer: str) -> str:
    """A JWT that the client signs about itself (RFC 7523)."""
    try:
        key = load_pem_private_key(pem.encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise OAuthError("oauth.client_secret is no private key in PEM without a password") from error
    algorithm = "RS256"
    if isinstance(key, ec.EllipticCurvePrivateKey):
        algorithm = {256: "ES256", 384: "ES384", 521: "ES512"}.get(key.curve.key_size, "ES256")
    elif isinstance(key, ed25519.Ed25519PrivateKey):
        algorithm = "EdDSA"
    now = int(time.time())
    claims = {
        "iss": client_id,
        "sub": client_id,
        "aud": issuer,
        "iat": now,
        "exp": now + ASSERTION_SECONDS,
        "jti": str(uuid.uuid4()),
    }
    try:
        return jwt.encode(claims, key, algorithm)  # type: ignore[arg-type]
    except (jwt.PyJWTError, TypeError) as error:
        raise OAuthError(
            "oauth.client_secret is a private key of a kind that signs no token: RSA, EC or Ed25519"
        ) from error
