"""The login of a request: its principal, what that may reach, and how long it is valid."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import anyio
import msgspec
from cachetools import LRUCache
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.datastructures import Headers
from starlette.types import Scope

from gatemini.config.model.http.auth import ClientGrant, HttpAuthConfig
from gatemini.config.model.http.server import HttpConfig
from gatemini.http.auth.challenge import LoginRefused, insufficient_scope, unauthorized
from gatemini.http.auth.client_grants import grant_of
from gatemini.http.auth.introspection import Introspection
from gatemini.http.auth.issuer import Issuer
from gatemini.http.auth.jwks import Jwks
from gatemini.http.auth.jwts import SKEW_SECONDS, Jwts, TokenRefused
from gatemini.http.auth.throttle import Throttle
from gatemini.http.auth.tokens import PREFIX, TokenEntry, TokenFile
from gatemini.policy.principal import Principal, local

logger = logging.getLogger(__name__)

OWN_ISSUER = "gatemini"
"""The issuer of tokens in the token file."""
MOST_AT_ONCE = 20
"""Introspections of the tokens of what is open that run at the same time."""
NEVER = float("inf")
LAST_SECOND = 2**53
"""The latest end of a token, in seconds since the epoch; a later one would be no float."""
MOST_KNOWN = 10_000
"""Logins that are remembered, so that only the first of equal ones is recorded."""

_OF_ONE_TOKEN = frozenset(("exp", "iat", "nbf", "jti", "auth_time", "nonce", "at_hash"))
"""Claims that differ in each token of the same user."""


@dataclass(frozen=True, slots=True)
class Found:
    """The content of a valid token. `expires` is in seconds since the epoch."""

    issuer: str
    subject: str
    client: str
    scopes: frozenset[str] = frozenset()
    tools: tuple[str, ...] | None = None
    expires: float = NEVER
    entry: TokenEntry | None = None
    introspected: str | None = None
    """The token itself, where only the issuer knows whether it is still valid."""
    claims: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Its claims about the client and the user, for rules of the policy."""


class TokenFacts(msgspec.Struct, array_like=True, frozen=True):
    """What another replica has to know of a token that this one has found valid, to find out when it ends.

    The defaults are those of a request without a login.
    """

    id: str = ""
    """In the token file; "" for one of an issuer."""
    expires: float = NEVER
    """Seconds since the epoch, with the skew of clocks that is allowed."""
    introspected: str | None = None
    """The token itself, where only the issuer knows whether it is still valid."""


@dataclass(frozen=True, slots=True)
class Login:
    """A principal, and the user that the SDK compares; None where there is no authentication."""

    principal: Principal
    user: AuthenticatedUser | None = None
    found: Found | None = None
    forwarded: TokenFacts | None = None
    """Set where another replica has checked it, which has the connection and ends the request with the login."""

    @property
    def token_id(self) -> str:
        """The id of its token in the token file, "" for one of an issuer."""
        if self.forwarded is not None:
            return self.forwarded.id
        return self.found.entry.id if self.found is not None and self.found.entry is not None else ""

    @property
    def key(self) -> tuple[Principal, str]:
        """Equal for logins of the same rights by the same token."""
        return self.principal, self.token_id

    @property
    def introspected(self) -> str | None:
        """Its token, where only the issuer knows whether it is still valid."""
        known = self.forwarded or self.found
        return None if known is None else known.introspected

    @property
    def facts(self) -> TokenFacts:
        """What a replica has to know that this login is forwarded to."""
        found = self.found
        if found is None:
            return self.forwarded or TokenFacts()
        expires = found.expires + (0 if found.entry is not None else SKEW_SECONDS)
        return TokenFacts(self.token_id, expires, found.introspected)

    @classmethod
    def of_forwarded(cls, principal: Principal, token: TokenFacts) -> Login:
        """Return the login of a request that another replica has forwarded."""
        return cls(principal, _user(principal), forwarded=token)


class Logins:
    """The logins of all requests, under the current configuration."""

    def __init__(
        self,
        config: Callable[[], HttpConfig],
        folder: Path,
        refused: Callable[[str, str], None] = lambda address, reason: None,
        *,
        began: Callable[[str, Login], None] = lambda address, login: None,
        accepted: Callable[[str, str], None] = lambda principal, token: None,
        revoked: Set[str] = frozenset(),
        local_only: bool = True,
    ) -> None:
        """`refused` is called with the address and the reason of each refused login, `began` with the first of equal ones,
        `accepted` with the principal's id and the token of each login by an issuer. `revoked` grows by the ids of tokens
        that other replicas have as revoked.
        Without `local_only` every request needs a login, also after the configuration has changed.
        """
        self._local_only = local_only
        self._revoked = revoked
        self._config = config
        self._refused = refused
        self._began = began
        self._known: LRUCache[tuple[Principal, str], None] = LRUCache(MOST_KNOWN)
        self._accepted = accepted
        self._folder = folder
        self._anyone = Login(local("http"))
        self._throttle = Throttle()
        self._issuer = Issuer()
        self._auth: HttpAuthConfig | None = None
        self._tokens: TokenFile | None = None
        self._jwts: Jwts | None = None
        self._introspection: Introspection | None = None
        self._ended: set[str] = set()
        """Tokens that the issuer has ended while requests or streams are open for them."""

    async def close(self) -> None:
        await self._issuer.close()

    def problems(self) -> list[str]:
        """Return why logins that are configured cannot succeed."""
        return [self._tokens.problem] if self._tokens is not None and self._tokens.problem else []

    # -- requests --------------------------------------------------------------------------------------

    async def login(self, scope: Scope, headers: Headers) -> Login:
        """Return the login of a request. Raises LoginRefused."""
        config = self._config()
        if any(name in ("access_token", "token") for name, _ in _query(scope)):
            text = "a token in the query is written into logs: send it as Authorization: Bearer"
            raise LoginRefused(400, "invalid_request", text)
        if not config.has_auth:
            if self._local_only:
                return self._anyone
            raise LoginRefused(503, "server_error", "beyond loopback nothing is served without http.auth")
        given = headers.getlist("authorization")
        if not given:
            raise unauthorized(config, scope, "this server needs a token", tried=False)
        scheme, _, token = given[0].partition(" ")
        address = str(scope["client"][0]) if scope.get("client") else ""
        try:
            if len(given) > 1 or scheme.lower() != "bearer" or not token.strip():
                raise TokenRefused("Authorization is not one Bearer token")
            found = await self._find(token.strip(), config)
        except TokenRefused as refused:
            logger.info("a login from %s was refused: %s", address or "an unknown address", refused)
            self._refused(address, str(refused))
            if not await self._throttle.failed(address):
                raise LoginRefused(
                    429, "slow_down", "too many failed logins from this address", (b"retry-after", b"5")
                ) from None
            raise unauthorized(config, scope, "the token does not count") from None
        required = config.auth.oauth.required_scopes if config.auth.oauth and found.entry is None else ()
        missing = [each for each in required if each not in found.scopes]
        if missing:
            raise insufficient_scope(config, scope, missing)
        login = _login(found, config.grants)
        if found.entry is None:
            self._accepted(login.principal.id, token.strip())
        if login.key not in self._known:
            self._began(address, login)
        self._known[login.key] = None
        return login

    def forget(self, login: Login) -> None:
        """Forget a login that has ended: an equal one is a new one."""
        self._known.pop(login.key, None)

    def gone(self, scope: Scope) -> LoginRefused:
        """Return the answer to a request whose login became invalid while it was served."""
        return unauthorized(self._config(), scope, "the token or what it may reach has changed")

    async def _find(self, token: str, config: HttpConfig) -> Found:
        self._rebuild(config)
        if self._tokens is not None and token.startswith(PREFIX):
            entry = self._tokens.find(token)
            if entry is None or entry.id in self._revoked:
                raise TokenRefused("no token of the file is this one, or it is revoked or has expired")
            expires = entry.expires.timestamp() if entry.expires else NEVER
            scopes = frozenset(entry.scopes)
            return Found(OWN_ISSUER, entry.client, entry.client, scopes, entry.tools, expires, entry)
        if self._jwts is not None and config.auth.oauth is not None and token.count(".") == 2:
            oauth = config.auth.oauth
            claims = await self._jwts.claims(token)
            return _of_claims(claims, oauth.issuer, _client(claims, oauth.clients_claim))
        if self._introspection is not None and config.auth.introspection is not None:
            claims = await self._introspection.claims(token)
            named = claims.get("iss")
            # Under our own name, an issuer could give its users the principals of the token file.
            if not isinstance(named, str) or named == OWN_ISSUER:
                named = config.auth.introspection.url
            return _of_claims(claims, named, _client(claims, "client_id"), token)
        raise TokenRefused("it has none of the forms that are configured")

    def _rebuild(self, config: HttpConfig) -> None:
        """Rebuild the parts that check tokens after their configuration has changed."""
        auth = config.auth
        if auth == self._auth:
            return
        self._auth = auth
        self._tokens = TokenFile(self._folder / auth.tokens.file) if auth.tokens is not None else None
        self._jwts = self._introspection = None
        if auth.oauth is not None:
            audience = auth.oauth.audience or str(config.public_url)
            self._jwts = Jwts(auth.oauth, audience, Jwks(auth.oauth, self._issuer))
        if auth.introspection is not None:
            self._introspection = Introspection(auth.introspection, config.public_url, self._issuer)

    # -- what is open ------------------------------------------------------------------------------------

    def revoked(self) -> frozenset[str]:
        """Return the ids of revoked tokens in the file of this replica."""
        self._rebuild(self._config())
        return self._tokens.revoked if self._tokens is not None else frozenset()

    async def renew(self, logins: Iterable[Login]) -> None:
        """Introspect the tokens of open requests and streams again."""
        config = self._config()
        self._rebuild(config)
        tokens = {login.introspected for login in logins if login.introspected is not None}
        self._ended &= tokens
        introspection, limit = self._introspection, anyio.Semaphore(MOST_AT_ONCE)

        async def ask(token: str) -> None:
            try:
                if introspection is None:
                    raise TokenRefused("introspection is not configured any more")
                async with limit:
                    await introspection.claims(token)
            except TokenRefused:
                self._ended.add(token)

        async with anyio.create_task_group() as tasks:
            for token in tokens:
                tasks.start_soon(ask, token)

    def holds(self, login: Login) -> bool:
        """Whether a login is still valid as it was: not revoked, not expired, with the same grant."""
        config, found = self._config(), login.found
        if login.forwarded is not None:
            return self._holds_forwarded(login.forwarded)
        if found is None:
            return not config.has_auth
        self._rebuild(config)
        if found.entry is not None:
            if self._tokens is None or not self._tokens.holds(found.entry) or found.entry.id in self._revoked:
                return False
        elif found.introspected is None:
            if self._jwts is None:
                return False
        elif self._introspection is None or found.introspected in self._ended:
            return False
        skew = 0 if found.entry is not None else SKEW_SECONDS
        return (
            time.time() < found.expires + skew and _login(found, config.grants).principal == login.principal
        )

    def _holds_forwarded(self, token: TokenFacts) -> bool:
        """Whether this replica knows of nothing that has ended a token; its token file and grants may be older ones."""
        if token.id in self.revoked() or token.id in self._revoked or token.introspected in self._ended:
            return False
        return time.time() < token.expires


def _query(scope: Scope) -> list[tuple[str, str]]:
    query: bytes = scope.get("query_string", b"")
    return parse_qsl(query.decode("latin-1"), keep_blank_values=True) if query else []


def _login(found: Found, clients: dict[str, ClientGrant] | None) -> Login:
    ident = json.dumps([found.issuer, found.subject, found.client])
    grant = grant_of(clients, found.client, found.tools)
    principal = Principal(ident, found.client, found.scopes, "http", grant, claims=found.claims)
    return Login(principal, _user(principal), found)


def _user(principal: Principal) -> AuthenticatedUser | None:
    """Return the user that the SDK binds sessions and request states to; it does not have the token."""
    if principal.user is None:
        return None  # it did not log in
    issuer, subject = principal.user
    token = AccessToken(
        token="",
        client_id=principal.client,
        scopes=sorted(principal.scopes),
        subject=subject,
        claims={"iss": issuer},
    )
    return AuthenticatedUser(token)


def _of_claims(claims: dict[str, Any], issuer: str, client: str, token: str | None = None) -> Found:
    subject, expires = claims.get("sub"), claims.get("exp")
    if subject is not None and not isinstance(subject, str):
        raise TokenRefused("its sub is no text")
    if not subject and not client:
        raise TokenRefused("it names neither a subject nor a client")
    if not f"{subject or ''}{client}".isprintable():
        raise TokenRefused("its subject or client has characters that cannot be printed")
    if expires is not None and (not isinstance(expires, int | float) or isinstance(expires, bool)):
        raise TokenRefused("its exp is no number")
    until = NEVER if expires is None else float(min(expires, LAST_SECOND))
    lasting = {name: value for name, value in claims.items() if name not in _OF_ONE_TOKEN}
    return Found(
        issuer, subject or "", client, _scopes(claims), None, until, introspected=token, claims=lasting
    )


def _client(claims: dict[str, Any], claim: str) -> str:
    """Return the client's name, from a claim about the client only: users may choose their `sub`."""
    for name in (claim, "client_id") if claim == "azp" else (claim,):
        value = claims.get(name)
        if isinstance(value, str) and value:
            return value
    return ""


def _scopes(claims: dict[str, Any]) -> frozenset[str]:
    for name in ("scope", "scp"):
        value = claims.get(name)
        if isinstance(value, str):
            return frozenset(value.split())
        if isinstance(value, list):
            return frozenset(each for each in value if isinstance(each, str))
    return frozenset()
