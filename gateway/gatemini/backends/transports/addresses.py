"""Connect to exactly the address that was checked, because a second DNS lookup may give another one (rebinding).

Used for backends that agents register; configured backends connect anywhere. If the environment names an HTTP proxy
for the URL, the proxy resolves the name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.request import getproxies, proxy_bypass

import httpx2

Permitted = Callable[[str], Awaitable[list[str]]]
"""Resolves a host to addresses that it may be reached at; raises `BackendError` if there must be no connection."""


def goes_by_proxy(url: str) -> bool:
    """Whether the environment sends requests for this URL to a proxy."""
    parts = httpx2.URL(url)
    proxies = getproxies()
    return bool(proxies.get(parts.scheme) or proxies.get("all")) and not proxy_bypass(parts.host)


class CheckedTransport(httpx2.AsyncBaseTransport):
    """Resolves and checks the host of each request, and connects to the address.

    The `Host` header and the name in the certificate stay those of the URL.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport, permitted: Permitted) -> None:
        self._inner = inner
        self._permitted = permitted

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        host = request.url.host
        failure: httpx2.TransportError = httpx2.ConnectError(f"no address is known of {host}")
        for address in await self._permitted(host):
            there = httpx2.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=request.headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": host},
            )
            try:
                return await self._inner.handle_async_request(there)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as unreachable:  # nothing was sent
                failure = unreachable
        raise failure

    async def aclose(self) -> None:
        await self._inner.aclose()
