"""Requests to an issuer of tokens: bounded in size and time, without redirects."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import orjson

from gatemini.outgoing.bounded_body import bounded_body

TIMEOUT_SECONDS = 5.0
MOST_BYTES = 1 << 20
OK = 200


class IssuerFailed(Exception):
    """The issuer does not answer, or its answer is not valid."""


class Issuer:
    """The requests to one issuer."""

    def __init__(self) -> None:
        self._client = httpx2.AsyncClient(timeout=TIMEOUT_SECONDS, follow_redirects=False)

    async def close(self) -> None:
        await self._client.aclose()

    async def get(self, url: str) -> dict[str, Any]:
        """Return the JSON object at a URL. Raises IssuerFailed."""
        return await self._object("GET", url)

    async def post(self, url: str, form: dict[str, str], user: str, password: str) -> dict[str, Any]:
        """Return the JSON object that answers a form, sent with HTTP Basic authentication. Raises IssuerFailed."""
        return await self._object("POST", url, form, httpx2.BasicAuth(user, password))

    async def _object(
        self, method: str, url: str, form: dict[str, str] | None = None, auth: httpx2.BasicAuth | None = None
    ) -> dict[str, Any]:
        try:
            request = self._client.build_request(
                method, url, data=form, headers={"accept": "application/json"}
            )
        except httpx2.InvalidURL as error:  # in the issuer's own metadata
            raise IssuerFailed(f"the issuer names an address that is none: {error}") from error
        try:
            with anyio.fail_after(TIMEOUT_SECONDS):
                response = await self._client.send(request, auth=auth, stream=True)
                try:
                    if response.status_code != OK:
                        raise IssuerFailed(f"{_shown(request)} answered {response.status_code}")
                    body = await bounded_body(response, MOST_BYTES)
                    if body is None:
                        raise IssuerFailed(f"{_shown(request)} answered more than {MOST_BYTES} bytes")
                finally:
                    await response.aclose()
            found = orjson.loads(body)
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, orjson.JSONDecodeError) as error:
            raise IssuerFailed(f"{_shown(request)}: {type(error).__name__}") from error
        if not isinstance(found, dict):
            raise IssuerFailed(f"{_shown(request)} answered no JSON object")
        return found


def _shown(request: httpx2.Request) -> str:
    return f"{request.url.scheme}://{request.url.host}{request.url.path}"


def metadata_urls(issuer: str) -> list[str]:
    """Return the URLs at which an issuer may have its metadata (RFC 8414, OpenID Connect Discovery)."""
    parts = urlsplit(issuer)
    base, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    return [
        f"{base}/.well-known/oauth-authorization-server{path}",
        f"{base}{path}/.well-known/openid-configuration",
    ]
