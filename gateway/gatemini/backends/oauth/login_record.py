"""The stored login: the tokens, their ages, and the client that they were issued to. Pure; times are seconds since the epoch."""

from __future__ import annotations

import random
import re
from typing import Any

import jwt
import msgspec
from mcp.client.auth.utils import issuers_match

from gatemini.backends.oauth.discovery import Challenge, scopes_of
from gatemini.backends.oauth.requests import OAuthError
from gatemini.text.escape import one_line

SKEW_SECONDS = 30.0
"""How long before its end a token counts as expired: clocks differ, and a request takes time."""
RENEW_AT = 0.8
"""The part of its life after which a token is renewed."""
JITTER = 0.05
"""Replicas must not all renew at the same moment."""
LONGEST_SECONDS = 100 * 365 * 24 * 3600.0
"""The longest life of a token: `datetime` knows no year beyond 9999."""
MOST_DIGITS = 20
_TOKEN = re.compile(r"[\x21-\x7e]{1,65536}")
"""A token that fits into a header."""


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
    asked: str | None = None
    """The scopes that were requested, of which the issuer may have granted fewer."""
    revocation_endpoint: str | None = None
    subject: str | None = None
    """The user at the issuer, where its tokens say that."""

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
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise OAuthError("the issuer's answer has no usable access_token")
        if not isinstance(kind, str) or kind.lower() != "bearer":
            raise OAuthError(
                f"the issuer gives tokens of the type {one_line(str(kind))[:40]}, only Bearer is known"
            )
        refresh, scope = answer.get("refresh_token"), answer.get("scope")
        return msgspec.structs.replace(
            self,
            access_token=token,
            obtained=now,
            expires=None if (life := seconds_of(answer.get("expires_in"))) is None else now + life,
            refresh_token=refresh if isinstance(refresh, str) and refresh else self.refresh_token,
            scope=scopes_of(scope) if isinstance(scope, str) else asked,
            asked=asked,
            subject=_subject(answer, self.issuer) or self.subject,
        )

    def without_tokens(self) -> Login:
        return msgspec.structs.replace(self, access_token="", refresh_token=None, expires=None)

    def has_asked_for(self, scope: str | None) -> bool:
        """Whether it has or was refused all of these scopes, so that another login would bring no more."""
        known = f"{self.scope or ''} {self.asked or ''}".split()
        return set((scope or "").split()) <= set(known)

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


def _subject(answer: dict[str, Any], issuer: str) -> str | None:
    """Return the user of whom the issuer's own tokens speak. They come from it directly, so no signature is needed."""
    for name in ("id_token", "access_token"):
        try:
            claims = jwt.decode(answer.get(name, ""), options={"verify_signature": False})
            named, subject = claims.get("iss"), claims.get("sub")
            ours = isinstance(named, str) and issuers_match(named, issuer)
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):  # no JWT, or its `iss` is no URL
            continue
        if ours and isinstance(subject, str):
            return subject
    return None


def seconds_of(value: object) -> float | None:
    """Return the seconds that an issuer names, which some write as text; None where it names none."""
    if isinstance(value, str) and value.isdecimal():
        value = int(value[:MOST_DIGITS])
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return float(min(value, LONGEST_SECONDS))
    return None
