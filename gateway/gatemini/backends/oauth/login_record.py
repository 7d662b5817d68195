"""The stored login: the tokens, their ages, and the client that they were issued to. Pure; times are seconds since the epoch."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from gatemini.backends.oauth.discovery import Challenge
from gatemini.backends.oauth.requests import OAuthError

SKEW_SECONDS = 30.0
"""How long before its end a token counts as expired: clocks differ, and a request takes time."""
RENEW_AT = 0.8
"""The part of its life after which a token is renewed."""
JITTER = 0.05
"""Replicas must not all renew at the same moment."""
LONGEST_SECONDS = 100 * 365 * 24 * 3600.0
"""The longest life of a token: `datetime` knows no year beyond 9999."""
MOST_DIGITS = 20


class Client(msgspec.Struct, frozen=True):
    """The client as which the gateway is known to an issuer."""

    client_id: str
    secret: str | None = None
    """The secret that the issuer gave it; a configured one is not kept here."""
    method: str = "none"
    """How it authenticates at the token endpoint, as in `token_endpoint_auth_method`."""
    registered: bool = False
    """Whether the gateway has registered it itself, with this issuer only."""
    redirect: str | None = None
    """The registered redirect address: many issuers take no other port."""


class Login(msgspec.Struct, frozen=True):
    """The login to one backend, as it is stored."""

    issuer: str
    token_endpoint: str
    resource: str
    client: Client
    access_token: str = ""
    """Empty once the login has ended: then only the client is used again."""
    obtained: float = 0.0
    expires: float | None = None
    refresh_token: str | None = None
    scope: str | None = None
    revocation_endpoint: str | None = None

    def is_expired(self, now: float) -> bool:
        if self.expires is None:
            return False
        return now >= self.expires - min(SKEW_SECONDS, (self.expires - self.obtained) / 10)

    def renew_time(self) -> float | None:
        """Return when to renew the token: before its end, and at another moment each time."""
        if self.expires is None:
            return None
        part = RENEW_AT - random.uniform(0, JITTER)  # noqa: S311 - no secret
        return self.obtained + (self.expires - self.obtained) * part

    def with_tokens(self, answer: dict[str, Any], now: float, asked: str | None) -> Login:
        """Return this login with the tokens of a token response, which may leave out an unchanged refresh token."""
        token, kind = answer.get("access_token"), answer.get("token_type", "Bearer")
        if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
            raise OAuthError("the issuer's answer has no usable access_token")
        if not isinstance(kind, str) or kind.lower() != "bearer":
            raise OAuthError(f"the issuer gives tokens of the type {str(kind)[:40]}, only Bearer is known")
        refresh, scope = answer.get("refresh_token"), answer.get("scope")
        return msgspec.structs.replace(
            self,
            access_token=token,
            obtained=now,
            expires=_expiry(answer.get("expires_in"), now),
            refresh_token=refresh if isinstance(refresh, str) and refresh else self.refresh_token,
            scope=scope if isinstance(scope, str) else asked,
        )

    def without_tokens(self) -> Login:
        return msgspec.structs.replace(self, access_token="", refresh_token=None, expires=None)

    @property
    def secrets(self) -> list[str]:
        """What must appear in no log, error or answer."""
        found = (self.access_token, self.refresh_token, self.client.secret)
        return [each for each in found if each]


class Kept(msgspec.Struct, frozen=True):
    """The whole record of one backend and principal."""

    login: Login | None = None
    challenge: Challenge = Challenge()
    """The backend's last challenge that only a person can answer."""


def _expiry(seconds: object, now: float) -> float | None:
    """The end of a token's life; some issuers write the seconds as text."""
    if isinstance(seconds, str) and seconds.isdecimal():
        seconds = int(seconds[:MOST_DIGITS])
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds >= 0:
        return now + float(min(seconds, LONGEST_SECONDS))
    return None
