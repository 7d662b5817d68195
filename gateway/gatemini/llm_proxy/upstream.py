"""Requests to the provider."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import httpx2

from gatemini.errors import ConfigError
from gatemini.llm_proxy.client_request import ClientRequest, Fields

CONNECT_SECONDS = 30.0
SILENT_SECONDS = 3600.0
"""A model may think for long; a client that does not want to wait hangs up."""
CLOSE_SECONDS = 2.0
LENGTH = b"content-length"


class Upstream:
    """The provider at one address. Its keys come with each request and are kept nowhere."""

    def __init__(self, url: str) -> None:
        self._base = httpx2.URL(url)
        if self._base.scheme not in ("http", "https") or not self._base.host or self._base.query:
            raise ConfigError(
                f"--upstream: found {url}, allowed is an address like https://api.example.com, without a query"
            )
        self._prefix = self._base.raw_path.rstrip(b"/")
        timeout = httpx2.Timeout(SILENT_SECONDS, connect=CONNECT_SECONDS, pool=CONNECT_SECONDS)
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
        self._client = httpx2.AsyncClient(timeout=timeout, limits=limits, follow_redirects=False)

    @asynccontextmanager
    async def send(
        self,
        request: ClientRequest,
        body: bytes | AsyncIterator[bytes] | None = None,
        *,
        fields: Fields | None = None,
        path: bytes | None = None,
        query: bytes | None = None,
    ) -> AsyncIterator[httpx2.Response]:
        """Send a client's request on, with its own body or another one. Raises httpx2.HTTPError.

        Leaving the block ends the request, whatever of its answer was read.
        """
        fields = request.fields if fields is None else fields
        content = body
        if isinstance(body, bytes):
            fields = [(name, value) for name, value in fields if name != LENGTH]
        elif body is None and request.has_body:
            content = request.body()
        target = self._prefix + (request.raw_path if path is None else path)
        query = request.query if query is None else query
        target += b"?" + query if query else b""
        # A URL would be normalised, and its length limited.
        sent = httpx2.Request(
            request.method, self._base, headers=fields, content=content, extensions={"target": target}
        )
        response = await self._client.send(sent, stream=True)
        try:
            yield response
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(CLOSE_SECONDS):
                await response.aclose()

    @property
    def shown(self) -> str:
        """The address for people: without a user's name and password."""
        return str(self._base.copy_with(userinfo=b""))

    async def close(self) -> None:
        await self._client.aclose()
