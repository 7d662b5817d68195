"""The SDK's session manager, with a server of its own for each session.

The SDK has one server for all sessions. Ours differ by what their client may see, so the manager's `app` is the server
of the session that the request at hand belongs to: the SDK reads it in the task of that request, and a session's task
inherits it from the task of its first request. `tests/http/test_sdk.py` shows both with the installed version.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

_server: ContextVar[Server[Any] | None] = ContextVar("gatemini_http_server", default=None)


class SessionManager(StreamableHTTPSessionManager):
    """One manager for all sessions; `serving` chooses the server for what is awaited in it."""

    @property
    def app(self) -> Server[Any]:
        return _server.get() or self._nobody

    @app.setter
    def app(self, value: Server[Any]) -> None:
        self._nobody = value

    @contextmanager
    def serving(self, server: Server[Any]) -> Iterator[None]:
        """Choose the server of a session for the requests that are handled meanwhile."""
        token = _server.set(server)
        try:
            yield
        finally:
            _server.reset(token)
