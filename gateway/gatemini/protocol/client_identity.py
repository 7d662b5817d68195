"""Middleware that records the client's identity and capabilities before any request is answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from gatemini.backends.calls.callers import INTERNAL_ERROR, AskFn, RpcError
from gatemini.model import Json
from gatemini.protocol.asking import asks_now
from gatemini.protocol.questions.translation import can_be_asked
from gatemini.protocol.surface import Surface

INITIALIZED_SECONDS = 10.0
"""How long a request outside of any call waits for the client to finish its handshake."""

MOST_NAME = 200
"""Characters of a client's name that are kept: each record of the audit log has it."""

Context = ServerRequestContext[Any, Any]


class Acquaintance:
    """Middleware of one connection; it sees every message of the client."""

    def __init__(self, surface: Surface, greet: Callable[[ServerSession], None]) -> None:
        self._surface = surface
        self._greet = greet
        """Called once a client has finished its handshake."""
        self._initialized = anyio.Event()
        self._client: ServerSession | None = None
        """Reaches the client outside of its requests; the one of its last message, which holds all of that message."""
        self._seen: types.ClientCapabilities | None = None

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        if ctx.method == "initialize":
            result = await call_next(ctx)
            # Parsed as the SDK does, which stores the parameters only after this.
            params = types.InitializeRequestParams.model_validate(ctx.params or {}, by_name=False)
            self._initialized, self._client = anyio.Event(), ctx.session
            self._know(ctx, params.capabilities, params.client_info.name)
            return result
        if ctx.method == "notifications/initialized":
            self._initialized.set()
            self._client = ctx.session
            result = await call_next(ctx)
            self._greet(ctx.session)
            return result
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            info = ctx.session.client_params
            self._know(ctx, ctx.session.client_capabilities, None if info is None else info.client_info.name)
        elif ctx.session.client_params is None:
            return await _too_early(ctx, call_next)
        return await call_next(ctx)

    def _know(self, ctx: Context, capabilities: types.ClientCapabilities | None, name: str | None) -> None:
        session = self._surface.session
        if session.client is None or session.shared:
            # Of several clients each request is answered within the limits of its own.
            session.client = None if name is None else name[:MOST_NAME]
        if capabilities is None or capabilities == self._seen:
            return
        self._seen = capabilities
        version = ctx.protocol_version
        can = can_be_asked(capabilities, version)
        modern = version in MODERN_PROTOCOL_VERSIONS
        self._surface.learn_client(can, None if modern else self._asks(can, version))

    def _asks(self, can: Json, version: str) -> AskFn:
        initialized = self._initialized

        async def once_initialized(method: str, params: Json) -> Json:
            if not self._surface.streams_here():
                raise RpcError(INTERNAL_ERROR, "the client's stream of notifications is at another replica")
            with anyio.move_on_after(INITIALIZED_SECONDS):
                await initialized.wait()
            if not initialized.is_set() or self._client is None:
                raise RpcError(INTERNAL_ERROR, "the client has not finished its handshake")
            ask = asks_now(self._client, can, version, shared=self._surface.parking.shared)
            return await self._surface.redacted(ask)(method, params)

        return once_initialized


async def _too_early(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Explain a request before the handshake: the SDK refuses nearly all of them without a reason."""
    try:
        return await call_next(ctx)
    except MCPError as exc:
        if exc.error.code != types.INVALID_PARAMS:
            raise
        text = f"{ctx.method} came before `initialize`: shake hands first, or send the envelope of 2026-07-28"
        raise MCPError(code=types.INVALID_REQUEST, message=text) from exc
