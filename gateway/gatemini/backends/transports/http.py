"""Streamable HTTP, of both eras: POST a message, get its answer as JSON or as a stream of events.

Uses httpx2 directly and not the SDK's transport, which reads messages with strict types (what `wire.py` repairs would
be lost) and reports every HTTP failure as the same error.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import httpx2
from mcp.shared.inbound import (
    NAME_BEARING_METHODS,
    encode_header_value,
    find_invalid_x_mcp_header,
    mcp_param_headers,
    x_mcp_header_map,
)

from gatemini.backends.calls.failures import MAY_HAVE_RUN, RENEWED, SESSION_ENDED
from gatemini.backends.calls.large_messages import read_messages
from gatemini.backends.oauth.interface import TokenSource
from gatemini.backends.transports.event_stream import Event, EventReader
from gatemini.backends.transports.http_errors import (
    content_error,
    refuses_call,
    says_session_lost,
    session_ended,
    transport_error,
)
from gatemini.backends.transports.http_link import HttpLink, Permitted, open_client
from gatemini.backends.transports.interface import Link, Receiver
from gatemini.backends.wire import Frame, Piece, decode, encode, request_id
from gatemini.config.model.schema import BackendConfig
from gatemini.errors import BackendCrashed, BackendError
from gatemini.model import Json, Tool
from gatemini.outgoing.bounded_body import bounded_body

GOODBYE_SECONDS = 2.0
"""How long ending the server's session may take when the connection is closed."""

RESUME_ATTEMPTS = 2
STREAM_RETRY_SECONDS = 1.0
"""Pause before a broken stream is opened again, if the server names none."""

LEAST_RETRY_SECONDS = 0.1
"""The shortest such pause, so that a server that ends each stream at once is not called in a tight loop."""

MAX_STREAM_FAILURES = 5

_META_VERSION = "io.modelcontextprotocol/protocolVersion"
_ACCEPT = "application/json, text/event-stream"

logger = logging.getLogger(__name__)


class StreamableLink(HttpLink):
    """The connection to one endpoint. A request is a task of its own, with a response of its own."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._session: str | None = None
        self._version: str | None = None
        self._modern = False
        self._posts: dict[int, anyio.CancelScope] = {}
        self._renewed: anyio.Event | None = None
        """Set at the end of a handshake for a new session; None while there is none."""
        self._refused: set[int] = set()
        """Requests that the server did not run because it had forgotten the session."""
        self._following = anyio.CancelScope()
        self._param_headers: dict[str, dict[tuple[str, ...], str]] = {}

    def learn(self, tools: Sequence[Tool]) -> None:
        """Note the arguments that a tool's schema wants mirrored in headers (`x-mcp-header`)."""
        self._param_headers = {}
        for tool in tools:
            if find_invalid_x_mcp_header(tool.input_schema) is None and (
                found := x_mcp_header_map(tool.input_schema)
            ):
                self._param_headers[tool.name] = found

    async def send(self, message: Json, *, ident: int | None = None) -> None:
        """Start a task for a request; post a notification or a reply and wait for its response."""
        if self.failure is not None or self._left:
            raise self._gone(sent=False)
        if ident is None:
            try:
                await self._post(message, None)
            except BackendError as refused:
                if "method" not in message or self.failure is not None:
                    raise
                # A notification has no answer; if the connection is broken, the next request fails.
                logger.debug("%s: %s was refused: %s", self._name, message["method"], refused)
            if message.get("method") == "notifications/initialized":
                self._following.cancel()  # it belongs to the session before
                self._following = anyio.CancelScope()
                self._tasks.start_soon(self._follow_stream, self._following)
            return
        scope = self._posts[ident] = anyio.CancelScope()
        self._tasks.start_soon(self._exchange, message, ident, scope)

    def abandon(self, ident: int) -> bool:
        """Close the request's response, which cancels a call in the stateless revision."""
        scope = self._posts.pop(ident, None)
        if scope is not None:
            scope.cancel()
        return self._modern

    async def end_session(self) -> None:
        if self._session is not None and self.failure is None:
            with suppress(httpx2.HTTPError):
                async with self._open("DELETE", self._url, self._headers({})):
                    pass

    async def _exchange(self, message: Json, ident: int, scope: anyio.CancelScope) -> None:
        with scope:
            try:
                await self._post_in_session(message, ident)
                if self._receiver.waiting(ident):
                    raise BackendCrashed(
                        f"{self._name}: the response ended without an answer",
                        sent=True,
                        hint=MAY_HAVE_RUN,
                    )
            except BackendError as error:
                self._receiver.fail_one(ident, error)
        self._posts.pop(ident, None)

    async def _post_in_session(self, message: Json, ident: int) -> None:
        """POST a request; if the server has forgotten the session, send it again in the one new session.

        Requests in flight read their own answers: only one that the server refused was certainly not run.
        """
        if message["method"] == "initialize":
            await self._post(message, ident)
            return
        if self._renewed is not None:
            await self._renewed.wait()
        session = self._session
        try:
            await self._post(message, ident)
            return
        except BackendError as error:
            if not error.details.get(SESSION_ENDED) or self.failure is not None:
                raise
            lost = error
        self._refused.add(ident)
        try:
            if self.renew is not None and session == self._session and self._renewed is None:
                self._renewed = anyio.Event()
                self._tasks.start_soon(self._renew, self.renew, lost, self._renewed)
            if self._renewed is not None:
                await self._renewed.wait()
        finally:
            self._refused.discard(ident)
        if not self._receiver.waiting(ident):
            return  # there is no new session
        try:
            await self._post(message, ident)
        except BackendError as again:
            if again.details.get(SESSION_ENDED):
                again.details[RENEWED] = True
                self._receiver.fail_one(ident, again)
                self.end(again)
            raise

    async def _renew(
        self, renew: Callable[[], Awaitable[None]], lost: BackendError, renewed: anyio.Event
    ) -> None:
        """Open a new session; without one the connection ends with the loss of the old one."""
        try:
            await renew()
        except BackendError as error:
            logger.debug("%s: no new session: %s", self._name, error)
            for ident in self._refused:
                self._receiver.fail_one(
                    ident, BackendCrashed(lost.message, hint=lost.hint, details=lost.details)
                )
            self.end(lost)
        finally:
            self._renewed = None
            renewed.set()

    async def _post(self, message: Json, ident: int | None) -> None:
        """POST one message and deliver all messages of the response."""
        if message.get("method") == "initialize":
            self._version = self._session = None
        meta = (message.get("params") or {}).get("_meta")
        if isinstance(meta, dict) and _META_VERSION in meta:
            self._version, self._modern = meta[_META_VERSION], True
        elif ident is not None:
            self._modern = False
        headers = {**self._headers(message), "content-type": "application/json"}
        had_session = self._session is not None
        try:
            async with self._open("POST", self._url, headers, encode(message)) as response:
                if response.is_success:
                    await self._read_success(response, message, ident)
                else:
                    await self._read_failure(response, message, ident, had_session=had_session)
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            if ident is None or self._receiver.waiting(ident):
                raise transport_error(self._name, self._url, error, quote=self._quotes) from error

    async def _read_success(self, response: httpx2.Response, message: Json, ident: int | None) -> None:
        starting = message.get("method") == "initialize"
        if starting and "mcp-session-id" in response.headers:
            self._session = response.headers["mcp-session-id"]
        kind = response.headers.get("content-type", "").split(";")[0].strip().lower()
        if kind == "text/event-stream":
            if ident is not None:  # the stream after a notification has no answer, and some never end
                await self._read_events(response, ident)
            return
        body = await bounded_body(response, self._max)
        if body is None:
            self._receiver.receive(self._too_large(ident))
            return
        if ident is not None:
            self._raise_if_lost(response, body)
        pieces = await read_messages(body)
        if not pieces and ident is not None:
            ran = message.get("method") == "tools/call"
            raise content_error(self._name, response, body, ran=ran, quote=self._quotes)
        self._deliver(pieces, ident)

    def _raise_if_lost(self, response: httpx2.Response, body: bytes) -> None:
        """Raise BackendCrashed if the beginning of a success says that the session is lost, and nothing else."""
        if self._session is None or self.renew is None or not says_session_lost(body):
            return
        lost = session_ended(self._name, response, body, says_so=True, quote=self._quotes)
        if lost is not None:
            raise lost

    async def _read_events(self, response: httpx2.Response, ident: int | None) -> None:
        """Read a stream of events until the answer; resume one that breaks off, if it has event ids."""
        reader = EventReader(self._max)
        try:
            await self._events_of(response, reader, ident)
        except httpx2.HTTPError:
            if reader.last_id is None or not self._waiting(ident):
                raise
        for _ in range(RESUME_ATTEMPTS):
            if reader.last_id is None or not self._waiting(ident):
                return
            await anyio.sleep(_pause(reader))
            headers = {**self._headers({}), "accept": "text/event-stream", "last-event-id": reader.last_id}
            with suppress(httpx2.HTTPError):
                async with self._open("GET", self._url, headers) as again:
                    if not again.is_success:
                        return
                    await self._events_of(again, reader, ident)

    async def _events_of(self, response: httpx2.Response, reader: EventReader, ident: int | None) -> None:
        # A request whose stream is resumed may have run, so that a lost session does not mean that it did not.
        begun = ident is None or reader.last_id is not None

        async def take(event: Event) -> bool:
            nonlocal begun
            if not begun:
                self._raise_if_lost(response, event.data or b"")
            begun = True
            pieces = [self._too_large(ident)] if event.data is None else await read_messages(event.data)
            return self._deliver(pieces, ident)

        def answered() -> bool:
            return ident is not None and not self._receiver.waiting(ident)

        if not await self._take_events(response, reader, take, answered):
            return
        for event in reader.end():
            whole = [piece for piece in await read_messages(event.data or b"") if isinstance(piece, Frame)]
            self._deliver(whole, ident)

    async def _read_failure(
        self, response: httpx2.Response, message: Json, ident: int | None, *, had_session: bool
    ) -> None:
        body = await self._start_of(response)
        pieces = decode(body)
        about_us = [p for p in pieces if isinstance(p, Frame) and p.message.get("id") not in (None, "")]
        # Servers report a lost session with the call's id or one of their own. Only a result shows that the call ran,
        # and only an error of another kind that it is about the call (whose text may mention sessions).
        ran = any("result" in p.message for p in about_us)
        refused = any(request_id(p.message["id"]) == ident and refuses_call(p.message) for p in about_us)
        lost: BackendCrashed | None = None
        needs_session = had_session or (self._modern and message.get("method") == "tools/call")
        gone = not refused or (had_session and response.status_code == 404)
        if needs_session and gone and not ran:
            says_so = says_session_lost(body)
            lost = session_ended(
                self._name, response, body, stateless=not had_session, says_so=says_so, quote=self._quotes
            )
        if lost is not None and not lost.sent and self.renew is not None:
            raise lost
        if lost is not None:
            if ident is not None:
                self._receiver.fail_one(ident, lost)  # before the others, which may have run
            self.end(lost)
            raise lost
        if about_us and (response.status_code < 500 or all("error" in p.message for p in about_us)):
            self._deliver(about_us, ident)
            return
        raise self._status_error(response, body)

    def _deliver(self, pieces: Sequence[Piece], during: int | None = None) -> bool:
        """Pass on messages; whether a caller waited for one. `during` is the request of this response."""
        answered = False
        for piece in pieces:
            result = piece.message.get("result") if isinstance(piece, Frame) else None
            version = result.get("protocolVersion") if isinstance(result, dict) else None
            if isinstance(version, str) and self._version is None:
                self._version = version
            answered = self._answers(piece, during) or answered
            self._receiver.receive(piece, during)
        return answered

    def _waiting(self, ident: int | None) -> bool:
        return ident is not None and self._receiver.waiting(ident)

    def _headers(self, message: Json) -> dict[str, str]:
        headers = {"accept": _ACCEPT}
        if self._session is not None:
            headers["mcp-session-id"] = self._session
        if self._version is not None:
            headers["mcp-protocol-version"] = self._version
        method = message.get("method")
        if self._modern and isinstance(method, str):
            headers["mcp-method"] = method
            params = message.get("params") or {}
            name = params.get(NAME_BEARING_METHODS.get(method, ""))
            if isinstance(name, str):
                headers["mcp-name"] = encode_header_value(name)
                headers.update(
                    mcp_param_headers(self._param_headers.get(name, {}), params.get("arguments") or {})
                )
        return headers

    async def _follow_stream(self, scope: anyio.CancelScope) -> None:
        with scope:
            await self._read_stream()

    async def _read_stream(self) -> None:
        """Keep open the handshake era's stream for notifications and requests of the server, if it has one."""
        reader = EventReader(self._max)
        failures = 0

        async def take(event: Event) -> bool:
            return self._deliver(await read_messages(event.data or b""))

        def alive() -> bool:
            nonlocal failures
            failures = 0
            return False

        while failures < MAX_STREAM_FAILURES and not self.closed.is_set():
            headers = {**self._headers({}), "accept": "text/event-stream"}
            if reader.last_id is not None:
                headers["last-event-id"] = reader.last_id
            try:
                async with self._open("GET", self._url, headers) as response:
                    kind = response.headers.get("content-type", "").lower()
                    if not response.is_success or not kind.startswith("text/event-stream"):
                        return
                    await self._take_events(response, reader, take, alive)
            except (httpx2.HTTPError, httpx2.StreamError) as error:
                logger.debug("%s: stream of notifications broke: %s", self._name, error)
            failures += 1
            await anyio.sleep(_pause(reader))


def _pause(reader: EventReader) -> float:
    """Seconds before a stream is opened again: the server's wish, but not too short."""
    return (
        STREAM_RETRY_SECONDS if reader.retry_ms is None else max(reader.retry_ms / 1000, LEAST_RETRY_SECONDS)
    )


@asynccontextmanager
async def open_streamable(
    config: BackendConfig,
    receiver: Receiver,
    permitted: Permitted | None = None,
    login: TokenSource | None = None,
) -> AsyncIterator[Link]:
    """Talk to a streamable HTTP endpoint for the length of the context."""
    async with open_client(config, permitted) as client, anyio.create_task_group() as tasks:
        link = StreamableLink(config, receiver, client, tasks, quotes=permitted is None, login=login)
        try:
            yield link
        finally:
            with anyio.move_on_after(GOODBYE_SECONDS, shield=True):
                await link.end_session()
            await link.leave()
            tasks.cancel_scope.cancel()
