"""The SDK's session manager, with a server of its own for each session.

The SDK has one server for all sessions. Those of the gateway differ by what their client may see, so the manager's `app`
is the server of the session that a request belongs to: the SDK reads it in the task of that request, and a session's task
inherits it from the task of its first request. `tests/http/test_sdk.py` shows both with the installed version, and that
a session can get an id of the gateway's, for which the SDK has no public interface.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, AuthorizationContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Message, Scope

_server: ContextVar[Server[Any] | None] = ContextVar("gatemini_http_server", default=None)
_ident: ContextVar[str] = ContextVar("gatemini_session_id", default="")


class SessionManager(StreamableHTTPSessionManager):
    """One manager for all sessions; `serving` chooses the server for the requests that are awaited in it."""

    @property
    def app(self) -> Server[Any]:
        return _server.get() or self._default

    @app.setter
    def app(self, value: Server[Any]) -> None:
        self._default = value

    @contextmanager
    def serving(self, server: Server[Any], ident: str = "") -> Iterator[None]:
        """Choose the server for requests within the context, and the id of a session that one of them opens."""
        tokens = _server.set(server), _ident.set(ident)
        try:
            yield
        finally:
            _server.reset(tokens[0])
            _ident.reset(tokens[1])

    def _admit_session(self, requestor: AuthorizationContext | None) -> StreamableHTTPServerTransport | None:
        transport = super()._admit_session(requestor)
        ident = _ident.get()
        if transport is None or transport.mcp_session_id is None or not ident:
            return transport
        given, transport.mcp_session_id = transport.mcp_session_id, ident
        self._server_instances[ident] = self._server_instances.pop(given)
        if requestor is not None:
            self._session_owners[ident] = self._session_owners.pop(given)
        return transport

    async def inject(
        self,
        server: Server[Any],
        user: AuthenticatedUser | None,
        ident: str,
        body: bytes = b"",
        *,
        method: str = "POST",
        opens: bool = False,
    ) -> int:
        """Handle a request of a session that did not come over a connection; return its status.

        With `opens`, the request opens the session under this id.
        """
        status = 0
        unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            return unread.pop() if unread else {"type": "http.disconnect"}

        async def note(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)

        with self.serving(server, ident if opens else ""):
            await self.handle_request(_of_session(method, "" if opens else ident, user), receive, note)
        return status


def _of_session(method: str, ident: str, user: AuthenticatedUser | None) -> Scope:
    headers = [
        (b"accept", b"application/json, text/event-stream"),
        (b"content-type", b"application/json"),
    ]
    if ident:
        headers.append((b"mcp-session-id", ident.encode()))
    scope = internal_scope(method, headers)
    return scope if user is None else {**scope, "user": user}


def internal_scope(method: str, headers: list[tuple[bytes, bytes]]) -> Scope:
    """Return the scope of a request that did not come over a connection."""
    return {
        "type": "http",
        "method": method,
        "path": "/mcp",
        "raw_path": b"/mcp",
        "query_string": b"",
        "root_path": "",
        "headers": headers,
        "http_version": "1.1",
        "scheme": "http",
        "server": None,
        "client": None,
        "state": {},
    }
