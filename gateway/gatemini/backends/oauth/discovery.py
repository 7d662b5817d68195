"""Find the authorization server of a backend (RFC 9728) and what it offers (RFC 8414, OpenID Connect Discovery)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

import anyio
import httpx2
import msgspec
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
    get_client_metadata_scopes,
    issuers_match,
    union_scopes,
)
from mcp.shared.auth import OAuthMetadata, ProtectedResourceMetadata
from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url
from pydantic import AnyHttpUrl, ValidationError

from gatemini.backends.oauth.requests import IssuerUnreachable, OAuthError, checked, get, shown

INSUFFICIENT_SCOPE = "insufficient_scope"
MOST_SCOPES = 100
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,200}")
"""One scope (RFC 6749)."""
_PARAMETER = re.compile(r'(?<![A-Za-z_])([A-Za-z_]++)\s*+=\s*+(?:"((?:[^"\\]|\\.)*+)(?:"|$)|([^\s",]++))')
"""A parameter of a challenge (RFC 9110): what is within the quotes of one is no other.

A name is tried from its first letter only, and no part is tried again in pieces: else a header of 100 kB takes a minute.
"""
DISCOVERY_SECONDS = 15.0
"""For all requests together: a renewal that begins with them must end while its turn lasts (`vault.TURN_SECONDS`)."""


class Issuer(OAuthMetadata):
    """The metadata of an authorization server: the page to log in is optional, and device codes are known."""

    authorization_endpoint: AnyHttpUrl | None = None  # type: ignore[assignment]
    device_authorization_endpoint: AnyHttpUrl | None = None


class Challenge(msgspec.Struct, frozen=True):
    """What a 401 or 403 of a backend says about logins."""

    metadata_url: str | None = None
    scope: str | None = None
    error: str | None = None

    @property
    def wants_more(self) -> bool:
        """Whether the token is valid and lacks scopes."""
        return self.error == INSUFFICIENT_SCOPE


@dataclass(frozen=True, slots=True)
class Authority:
    """The authorization server of a backend."""

    issuer: Issuer
    name: str
    """The issuer's identifier, letter by letter."""
    resource: str
    """The value of the `resource` parameter (RFC 8707)."""
    protected: ProtectedResourceMetadata | None
    url: str
    """The backend's own address."""

    def endpoint(self, name: str) -> str | None:
        """Return one of its addresses, None if it has none. Raises OAuthError for one that tokens must not be sent to."""
        found = getattr(self.issuer, f"{name}_endpoint")
        return None if found is None else checked(str(found), self.url)

    @property
    def token_endpoint(self) -> str:
        return checked(str(self.issuer.token_endpoint), self.url)

    def scope(self, configured: tuple[str, ...], challenge: Challenge, *, refreshable: bool) -> str | None:
        """Return the scopes to request: configured ones, else those of the challenge, else those that the backend lists.

        A challenge for more scopes adds to the configured ones.
        """
        wanted = " ".join(configured) or None
        if wanted is None or challenge.wants_more:
            wanted = union_scopes(wanted, challenge.scope)
        listed = self.protected.scopes_supported if self.protected is not None else None
        if wanted is None and listed is None:
            return None
        grants = ["refresh_token"] if refreshable else []
        found = get_client_metadata_scopes(wanted, self.protected, self.issuer, grants)
        return None if found is None else scopes_of(found)


def challenge_of(response: httpx2.Response) -> Challenge:
    """Read the `WWW-Authenticate` header of a refusal; of a parameter that is there more than once the first one counts."""
    found: dict[str, str] = {}
    for match in _PARAMETER.finditer(response.headers.get("www-authenticate", "")):
        value = re.sub(r"\\(.)", r"\1", match[2]) if match[2] is not None else match[3]
        found.setdefault(match[1].lower(), value)
    return Challenge(found.get("resource_metadata"), scopes_of(found.get("scope", "")), found.get("error"))


def scopes_of(text: str) -> str | None:
    """Return the scopes that a server names, without those that are none by RFC 6749 and might be shown to somebody."""
    return " ".join([each for each in text.split() if _SCOPE.fullmatch(each)][:MOST_SCOPES]) or None


async def discover(url: str, challenge: Challenge, pinned: str | None = None) -> Authority:
    """Find the authorization server of the backend at `url` within `DISCOVERY_SECONDS`. Raises OAuthError.

    `pinned` is the only issuer that counts; else it is the first one that the backend names.
    """
    try:
        with anyio.fail_after(DISCOVERY_SECONDS):
            return await _discovered(url, challenge, pinned)
    except TimeoutError as error:
        raise IssuerUnreachable(
            f"the issuer of {shown(url)} was not found within {DISCOVERY_SECONDS:g} s"
        ) from error


async def _discovered(url: str, challenge: Challenge, pinned: str | None) -> Authority:
    protected = await _protected(url, challenge)
    resource = resource_url_from_server_url(url)
    if protected is None and pinned is None:
        # As with servers of the revision 2025-03-26: the backend's own origin is the issuer.
        base = _origin(url)
        issuer = await _issuer(url, None, base)
        return Authority(issuer or _default_issuer(base), base, resource, None, url)
    named = [str(each) for each in protected.authorization_servers] if protected is not None else []
    if protected is not None:
        if not check_resource_allowed(resource, str(protected.resource)):
            raise OAuthError(f"the server says that it is {protected.resource}, not {shown(url)}")
        resource = str(protected.resource)
    name = pinned or named[0]
    if named and not any(issuers_match(each, name) for each in named):
        raise OAuthError(f"the server names the issuer {shown(named[0])}, and oauth.issuer is {shown(name)}")
    issuer = await _issuer(url, name, name)
    if issuer is None:
        raise OAuthError(f"the authorization server {shown(name)} has no metadata")
    return Authority(issuer, str(issuer.issuer), resource, protected, url)


async def _protected(url: str, challenge: Challenge) -> ProtectedResourceMetadata | None:
    """Return the backend's own metadata, None if it has none."""
    try:
        named = urljoin(url, challenge.metadata_url) if challenge.metadata_url else None
    except ValueError as error:
        raise OAuthError("the server names an address of its metadata that is no URL") from error
    for place in build_protected_resource_metadata_discovery_urls(named, url):
        if _origin(place) != _origin(url):
            checked(place, url)
        status, body = await get(place)
        if status >= 500:
            raise IssuerUnreachable(f"{shown(place)} answered {status}")
        if status == 200 and isinstance(body, dict):
            try:
                return ProtectedResourceMetadata.model_validate(body)
            except ValidationError as error:
                raise OAuthError(f"{shown(place)} is no metadata of a protected resource") from error
    return None


async def _issuer(url: str, name: str | None, expected: str) -> Issuer | None:
    """Return the metadata of an issuer, which must name the issuer as `expected`; None if it has none."""
    for place in build_oauth_authorization_server_metadata_discovery_urls(name, url):
        if name is not None:
            checked(place, url)
        status, body = await get(place)
        if status >= 500:
            raise IssuerUnreachable(f"{shown(place)} answered {status}")
        if status != 200 or not isinstance(body, dict):
            continue
        try:
            issuer = Issuer.model_validate(body)
        except ValidationError as error:
            raise OAuthError(f"{shown(place)} is no metadata of an issuer") from error
        if not issuers_match(str(issuer.issuer), expected):
            raise OAuthError(f"{shown(place)} says that it is {issuer.issuer}, not {expected}")
        return issuer
    return None


def _default_issuer(base: str) -> Issuer:
    """Return the addresses of an issuer without metadata, by the revision 2025-03-26, which requires PKCE."""
    where = {"authorization": "authorize", "token": "token", "registration": "register"}
    places = {f"{name}_endpoint": f"{base}/{path}" for name, path in where.items()}
    return Issuer.model_validate({"issuer": base, **places, "code_challenge_methods_supported": ["S256"]})


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
