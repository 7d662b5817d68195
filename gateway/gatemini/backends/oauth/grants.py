"""Requests to a token endpoint: each returns the login with its new tokens."""

from __future__ import annotations

import time

from gatemini.backends.oauth.clients import client_of, proof
from gatemini.backends.oauth.discovery import Authority, Challenge
from gatemini.backends.oauth.login_record import Login
from gatemini.backends.oauth.requests import OAuthError, post_form
from gatemini.config.model.backend import BackendOAuth

EXCHANGE_GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
SUBJECT_KINDS = "urn:ietf:params:oauth:token-type:"


async def granted(config: BackendOAuth, login: Login, form: dict[str, str], asked: str | None) -> Login:
    """Send a grant as an authenticated client; `asked` are its scopes. Raises OAuthError."""
    form = dict(form)
    if login.resource:
        form.setdefault("resource", login.resource)
    headers = proof(config, login, form)
    answer = await post_form(login.token_endpoint, form, headers)
    return login.with_tokens(answer, time.time(), asked)


async def begun(
    config: BackendOAuth, authority: Authority, before: Login | None, redirect: str | None = None
) -> Login:
    """Return a login without tokens: the client, registered if need be, and the addresses of its issuer."""
    client = await client_of(config, authority, before, redirect)
    return Login(
        issuer=authority.name,
        token_endpoint=authority.token_endpoint,
        resource=authority.resource,
        client=client,
        revocation_endpoint=authority.endpoint("revocation"),
    )


async def refreshed(config: BackendOAuth, login: Login) -> Login:
    """Renew a login by its refresh token."""
    if login.refresh_token is None:
        raise OAuthError("there is no refresh token", code="invalid_grant")
    form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token}
    return await granted(config, login, form, login.scope)


async def unattended(
    config: BackendOAuth, authority: Authority, challenge: Challenge, before: Login | None
) -> Login:
    """Log in without a person, as the client itself."""
    scope = authority.scope(config.scopes, challenge, refreshable=False)
    form = {"grant_type": "client_credentials", **parameters(config, scope)}
    return await granted(config, await begun(config, authority, before), form, scope)


async def exchanged(
    config: BackendOAuth, authority: Authority, challenge: Challenge, before: Login | None, subject: str
) -> Login:
    """Log in on behalf of the owner of the token `subject` (RFC 8693)."""
    scope = authority.scope(config.scopes, challenge, refreshable=False)
    form = {
        "grant_type": EXCHANGE_GRANT,
        "subject_token": subject,
        "subject_token_type": f"{SUBJECT_KINDS}{config.exchange}",
        "requested_token_type": f"{SUBJECT_KINDS}access_token",
        **parameters(config, scope),
    }
    return await granted(config, await begun(config, authority, before), form, scope)


async def revoked(config: BackendOAuth, login: Login) -> None:
    """Revoke the tokens, if the issuer offers that (RFC 7009). Raises OAuthError."""
    if login.revocation_endpoint is None:
        return
    for kind in ("refresh_token", "access_token"):
        if token := getattr(login, kind):
            form = {"token": token, "token_type_hint": kind}
            headers = proof(config, login, form)
            await post_form(login.revocation_endpoint, form, headers)


def parameters(config: BackendOAuth, scope: str | None) -> dict[str, str]:
    """Return the parameters that every request for new tokens has."""
    found = {"scope": scope, "audience": config.audience}
    return {name: value for name, value in found.items() if value}
