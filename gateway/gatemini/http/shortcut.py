"""Serve `tools/call` of 2026-07-28 without the SDK, after the SDK has served one of the same client.

The SDK checks headers, revision, capabilities and identity for each request, starts two tasks and validates each answer
twice, which costs more than most chains. A request whose headers and envelope equal those that the SDK has accepted last
is served by this module. Everything else goes to the SDK: requests with a progress token or a log level, answers to a
parked chain, and all requests of clients that take requests themselves (elicitation, sampling, roots).
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS
from mcp_types import INTERNAL_ERROR, SERVER_INFO_META_KEY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.types import Scope, Send

from gatemini.chain.client import NO_CLIENT
from gatemini.http.body import SESSION_META, Envelope
from gatemini.http.exchange import send_json
from gatemini.model import Json
from gatemini.protocol.asking import ASKING
from gatemini.protocol.plain_calls import CALL, ENVELOPE_KEYS, PLAIN_PARAMS, envelope, failure, written
from gatemini.protocol.questions.translation import can_be_asked
from gatemini.protocol.relay import Relay, drop, trace_of
from gatemini.protocol.surface import Surface

logger = logging.getLogger(__name__)

CHECKED_HEADERS = (b"accept", b"content-type")
"""Headers that the SDK checks besides those of MCP itself."""
PING_SECONDS = 15.0
"""After this time an answer becomes a stream with a comment at this interval, so that no proxy closes it as idle."""
PING = b": ping\r\n\r\n"
STREAM_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),
]

Accepted = tuple[list[tuple[bytes, bytes]], list[Any]]


class Shortcut:
    """Serves calls of one session."""

    def __init__(self, surface: Surface, *, streams: bool) -> None:
        """With `streams` an answer that takes long becomes a stream."""
        self._surface = surface
        self._streams = streams
        self._accepted: Accepted | None = None
        self._stamp: Json = {}

    def learn(self, context: ServerRequestContext[Any, Any], server_info: Json) -> None:
        """Accept requests with the same headers and envelope as this `tools/call`, which the SDK is serving."""
        capabilities, request = context.session.client_capabilities, context.request
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS or request is None:
            return
        if capabilities is not None and not can_be_asked(capabilities, context.protocol_version):
            self._accepted = _headers(request.scope), envelope((context.params or {}).get("_meta"))
            self._stamp = {SERVER_INFO_META_KEY: server_info}

    def forget(self) -> None:
        """Let the SDK serve the next call: another client may use the same session."""
        self._accepted = None

    def takes(self, scope: Scope, message: Envelope) -> bool:
        """Whether this can serve a request: it differs from the accepted one only in its id and its arguments."""
        if self._accepted is None or message.method != CALL or message.jsonrpc != "2.0":
            return False
        params = message.params
        if not message.is_request or isinstance(message.id, bool) or not isinstance(params, dict):
            return False
        meta = params.get("_meta")
        if (
            not PLAIN_PARAMS.issuperset(params)
            or not isinstance(meta, dict)
            or not PLAIN_META.issuperset(meta)
        ):
            return False
        if not isinstance(params.get("name"), str) or not isinstance(params.get("arguments"), dict | None):
            return False
        return self._accepted == (_headers(scope), envelope(meta))

    async def serve(self, message: Envelope, send: Send) -> None:
        """Run the call and send its answer: a document, or a stream where it takes long."""
        if not self._streams:
            await send_json(send, *await self._answer(message))
            return
        stream = _Stream(send)
        try:
            status, body = await self._answer(message)
        finally:
            await stream.stop()
        if stream.begun:
            await send(
                {"type": "http.response.body", "body": b"event: message\r\ndata: " + body + b"\r\n\r\n"}
            )
        else:
            await send_json(send, status, body)

    async def _answer(self, message: Envelope) -> tuple[int, bytes]:
        relay = Relay(
            drop,
            self._surface.redactor,
            token=None,
            log_level=None,
            modern=True,
            begun=self._surface.tells_begin(message.id),
            chain=self._surface.planned_chain(message.id),
            trace=trace_of(message.params.get("_meta")),
        )
        name = message.params["name"]
        client = relay.client() if name in ASKING else NO_CLIENT
        try:
            result = await self._surface.call_tool(name, message.params.get("arguments"), client)
        except Exception:
            logger.exception("%s failed", name)
            error = failure(message.id, INTERNAL_ERROR, "Internal server error")
            return ERROR_CODE_HTTP_STATUS.get(INTERNAL_ERROR, 200), written(error)
        meta = {**result.get("_meta", {}), **self._stamp}
        result = {**result, "_meta": meta, "resultType": "complete"}
        return 200, written({"jsonrpc": "2.0", "id": message.id, "result": result})


PLAIN_META = frozenset({*ENVELOPE_KEYS, SESSION_META})


class _Stream:
    """Begins a stream of comments when an answer takes long."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._pinging: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(PING_SECONDS, self._begin)
        self.begun = False

    def _begin(self) -> None:
        self._pinging = asyncio.ensure_future(self._ping())

    async def _ping(self) -> None:
        self.begun = True
        await self._send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})
        while True:
            await self._send({"type": "http.response.body", "body": PING, "more_body": True})
            await asyncio.sleep(PING_SECONDS)

    async def stop(self) -> None:
        self._timer.cancel()
        if self._pinging is not None:
            self._pinging.cancel()
            await asyncio.wait([self._pinging])


def _headers(scope: Scope) -> list[tuple[bytes, bytes]]:
    return [pair for pair in scope["headers"] if pair[0] in CHECKED_HEADERS or pair[0].startswith(b"mcp-")]
