"""The 401 and 403 answers to a request without a valid login or a required scope, as in RFC 6750 and RFC 9728."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import Scope

from gatemini.config.model.http.server import HttpConfig

WELL_KNOWN = "/.well-known/oauth-protected-resource"


class LoginRefused(Exception):
    """The request has no valid login, or not the scopes it needs."""

    def __init__(self, status: int, error: str, description: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(description)
        self.status = status
        self.headers = headers
        self.body = json.dumps({"error": error, "error_description": description}).encode()


def resource_url(config: HttpConfig, scope: Scope) -> str:
    """Return the URL of the endpoint: as configured, else as this request names it."""
    if config.public_url:
        return config.public_url
    return f"{Request(scope).base_url}mcp"


def metadata_url(resource: str) -> str:
    """Return the URL of the metadata of a resource: its path follows the well-known one (RFC 9728)."""
    parts = urlsplit(resource)
    return f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{parts.path}"


def unauthorized(config: HttpConfig, scope: Scope, description: str, *, tried: bool = True) -> LoginRefused:
    """Return the 401 answer; `tried`: the request had a token."""
    parts = [f'resource_metadata="{metadata_url(resource_url(config, scope))}"']
    required = config.auth.oauth.required_scopes if config.auth.oauth else ()
    if required:
        parts.append(f'scope="{" ".join(required)}"')
    if tried:
        parts = ['error="invalid_token"', f'error_description="{description}"', *parts]
    return LoginRefused(401, "invalid_token", description, (b"www-authenticate", _bearer(parts)))


def insufficient_scope(config: HttpConfig, scope: Scope, missing: list[str]) -> LoginRefused:
    """Return the 403 answer to a token without a scope that every request needs."""
    description = f"the token lacks the scope {' '.join(missing)}"
    parts = [
        'error="insufficient_scope"',
        f'error_description="{description}"',
        f'scope="{" ".join(missing)}"',
        f'resource_metadata="{metadata_url(resource_url(config, scope))}"',
    ]
    return LoginRefused(403, "insufficient_scope", description, (b"www-authenticate", _bearer(parts)))


def _bearer(parts: list[str]) -> bytes:
    return f"Bearer {', '.join(parts)}".encode()


def metadata(config: HttpConfig, scope: Scope) -> dict[str, object] | None:
    """Return the metadata of the protected resource; None where no login is needed."""
    if not config.has_auth:
        return None
    found: dict[str, object] = {
        "resource": resource_url(config, scope),
        "resource_name": "Gatemini",
        "bearer_methods_supported": ["header"],
    }
    if config.auth.oauth is not None:
        found["authorization_servers"] = [config.auth.oauth.issuer]
        if config.auth.oauth.required_scopes:
            found["scopes_supported"] = list(config.auth.oauth.required_scopes)
    return found
