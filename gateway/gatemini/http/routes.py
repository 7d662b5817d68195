"""The paths of the HTTP server, and the checks that every request passes first."""

from __future__ import annotations

import json
from collections.abc import Callable
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from gatemini.config.model.http.server import HttpConfig
from gatemini.http.auth.challenge import WELL_KNOWN
from gatemini.http.exchange import send_json
from gatemini.http.network.guard import Guard

PATH = "/mcp"
PROBES = ("/healthz", "/readyz")
"""Paths that balancers request by address, so that any host is allowed; the answers reveal nothing about the gateway."""
CLOSE = (b"connection", b"close")
BROWSER_HEADERS = ["authorization", "content-type", "mcp-protocol-version", "mcp-session-id", "last-event-id"]


def http_app(
    config: HttpConfig,
    guard: Guard,
    endpoint: ASGIApp,
    ready: Callable[[], str],
    metadata: Callable[[Request], dict[str, object] | None],
) -> ASGIApp:
    """Return the application. `ready` returns why the server is not ready, `metadata` describes the protected resource."""

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz(_: Request) -> Response:
        why = ready()
        return JSONResponse({"status": why or "ready"}, 503 if why else 200)

    async def resource(request: Request) -> Response:
        found = metadata(request)
        return JSONResponse(found) if found is not None else JSONResponse({"error": "not_found"}, 404)

    paths = {PATH, urlsplit(config.public_url or "").path or PATH}
    described = [Route(f"{WELL_KNOWN}{path}", resource) for path in sorted({*paths, ""})]
    others = Starlette(routes=[Route("/healthz", healthz), Route("/readyz", readyz), *described])
    others.router.redirect_slashes = False

    async def dispatched(scope: Scope, receive: Receive, send: Send) -> None:
        # Without Starlette's own layers, which cost a request a tenth of a millisecond.
        await (endpoint if scope["path"] in paths else others)(scope, receive, send)

    app: ASGIApp = dispatched
    if config.allowed_origins:
        app = CORSMiddleware(
            app,
            allow_origins=list(config.allowed_origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=BROWSER_HEADERS,
            expose_headers=["mcp-session-id", "www-authenticate"],
        )
    if config.trusted_proxies:
        app = ProxyHeadersMiddleware(app, trusted_hosts=list(config.trusted_proxies))  # type: ignore[arg-type,assignment]
    return Checked(app, guard)


class Checked:
    """Refuse requests by Host, Origin and peer address before their body is read."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app = app
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        for status, why in (
            (400, self._guard.framing(headers)),
            (403, self._guard.peer(scope["client"][0] if scope.get("client") else None)),
            (421, self._guard.host(headers)),
            (403, self._guard.origin(headers)),
        ):
            if why:
                error = "invalid_request" if status == 400 else "forbidden"
                body = json.dumps({"error": error, "error_description": why}).encode()
                # What follows on a connection with two lengths may be somebody else's request.
                await send_json(send, status, body, *([CLOSE] if status == 400 else []))
                return
        await self._app(scope, receive, send)
