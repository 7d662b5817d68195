"""Serve one MCP request: find its login and session, and pass it to the SDK until it is answered or cancelled."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

import anyio
import anyio.abc
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from gatemini.config.model.http.server import HttpConfig
from gatemini.errors import StateUnavailable
from gatemini.http.auth.challenge import LoginRefused
from gatemini.http.auth.login import Login, Logins
from gatemini.http.body import BodyRefused, Envelope, read_body, read_envelope
from gatemini.http.exchange import Call, Detachable, Exchange, Open, send_json
from gatemini.http.replicas.forwarding import Forwarded, NotInProgress
from gatemini.http.replicas.routing import Routing
from gatemini.http.replicas.this_replica import Replicas
from gatemini.http.retries import Key, Retries
from gatemini.http.sdk_sessions import SessionManager, internal_scope
from gatemini.http.sessions import HttpSession, HttpSessions, TooManySessions
from gatemini.protocol.questions.parking import Parking
from gatemini.protocol.sessions.client_session import on_behalf_of

logger = logging.getLogger(__name__)

SESSION_ID = "mcp-session-id"
CANCEL_SECONDS = 5.0
"""How long a cancelled request of the handshake eras may take to end."""
LISTEN = "subscriptions/listen"
SERVER_ERROR = -32000
RETRY = (b"retry-after", b"1")


class Endpoint:
    """The ASGI application at /mcp. `run` owns the requests in progress."""

    def __init__(
        self,
        config: HttpConfig,
        manager: SessionManager,
        sessions: HttpSessions,
        logins: Logins,
        parking: Parking,
        replicas: Replicas | None = None,
        login_ended: Callable[[Login], None] = lambda login: None,
    ) -> None:
        """`replicas`: the other processes that serve the same clients. `login_ended` is called with each login that is no
        longer valid while a request, stream or parked chain of it is open.
        """
        self._config = config
        self._login_ended = login_ended
        self._parking = parking
        self._manager = manager
        self._sessions = sessions
        self._logins = logins
        self._shared = self._routing = None
        if replicas is not None:
            replicas.connect(manager, sessions, self.serve_forwarded)
            self._shared = replicas.sessions
            self._routing = Routing(replicas.claims, replicas.relay, replicas.home)
        self._stateless = config.sessions.mode == "stateless"
        self._retries = Retries()
        self._tasks: anyio.abc.TaskGroup | None = None
        self.open: set[Open] = set()
        self.draining = False
        """Whether new requests are refused; those in progress may end."""

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Own the requests in progress until cancelled."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            task_status.started()
            await anyio.sleep_forever()

    @property
    def in_flight(self) -> int:
        """Requests that wait for an answer; streams of notifications not counted."""
        return sum(not each.stream for each in self.open)

    def stop(self) -> None:
        """End all open requests and streams."""
        for each in list(self.open):
            each.stop(None)

    async def renew_logins(self) -> None:
        """Ask the issuer again about the tokens of what is open or parked; `end_invalid` ends what it has ended."""
        parked = [stay.login for stay in self._parking.parked() if isinstance(stay.login, Login)]
        own = [each.login for each in self.open if each.login.forwarded is None]
        await self._logins.renew([*own, *parked])

    def end_invalid(self) -> None:
        """End requests and streams of logins that do not hold any more: a token was revoked or has expired.

        A parked chain makes no call until its client answers with a login that holds.
        """
        ended: dict[object, Login] = {}
        own = [each for each in self.open if each.login.forwarded is None]  # others end at their own replicas
        for each in [each for each in own if not self._logins.holds(each.login)]:
            each.stop(each.login)
            ended[each.login.key] = each.login
        for stay in self._parking.parked():
            login = stay.login
            if isinstance(login, Login) and not stay.behalf.suspended and not self._logins.holds(login):
                stay.behalf.suspended = True
                ended[login.key] = login
        for login in ended.values():
            self._logins.forget(login)
            self._login_ended(login)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._with_refusals(self._serve_received(scope, receive, send), send)

    async def serve_forwarded(self, request: Forwarded, receive: Receive, send: Send) -> None:
        """Serve a request that another replica has received. Raises NotInProgress where it continues nothing in progress."""
        scope = internal_scope(request.method, request.headers)
        headers = Headers(scope=scope)
        login = Login.of_forwarded(request.principal, request.token)
        envelope, modern = read_envelope(request.body), self._is_modern(headers)
        call = Call(
            scope, headers, login, request.body, envelope, modern, forwarded=True, begins=request.begins
        )
        await self._with_refusals(self._serve_checked(call, receive, send), send)

    async def _serve_checked(self, call: Call, receive: Receive, send: Send) -> None:
        """Serve a request unless this replica knows already that its token has ended."""
        if not self._logins.holds(call.login):
            raise self._logins.gone(call.scope)
        await self._serve(call, receive, send)

    async def _with_refusals(self, serving: Coroutine[Any, Any, None], send: Send) -> None:
        """Serve a request, and answer it where an exception refuses it."""
        try:
            await serving
        except LoginRefused as refused:
            await send_json(send, refused.status, refused.body, *refused.headers)
        except BodyRefused as refused:
            if refused.status:
                late = [(b"connection", b"close")] if refused.status == 408 else []
                await send_json(send, refused.status, _error(str(refused)), *late)
        except TooManySessions:
            await send_json(send, 503, _error("too many open sessions (http.sessions.max)"), RETRY)
        except StateUnavailable as error:
            await send_json(send, 503, _error(error.message), RETRY)
        except NotInProgress:
            raise
        except Exception:
            logger.exception("a request over HTTP failed")
            raise  # the server answers 500, or breaks the connection where the answer has begun

    def _is_modern(self, headers: Headers) -> bool:
        version = headers.get("mcp-protocol-version")
        return self._stateless or (version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS)

    async def _serve_received(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        login = await self._logins.login(scope, headers)
        body = b""
        if scope["method"] == "POST":
            body = await read_body(receive, headers.get("content-length"), self._config.max_body)
        envelope = read_envelope(body) if body else Envelope()
        call = Call(scope, headers, login, body, envelope, self._is_modern(headers))
        if self.draining and not (body and envelope.continues):
            await send_json(send, 503, _error("the gateway is stopping", envelope.id), RETRY)
            return
        await self._serve(call, receive, send)

    async def _serve(self, call: Call, receive: Receive, send: Send) -> None:
        on_behalf_of(call.login.principal, call.login)
        if call.login.user is not None:
            call.scope["user"] = call.login.user
            auth_context_var.set(call.login.user)
        session = await self._session(call, send)
        if session is None:
            return
        if call.envelope.is_request and call.envelope.method != LISTEN:
            await self._answer(call, session, receive, send)
        elif self._routing is None or not await self._routing.forward_answer(call, send):
            await self._serve_directly(call, session, receive, send)

    async def _session(self, call: Call, send: Send) -> HttpSession | None:
        """Return the session of a request; None where it has none and was answered so."""
        principal = call.login.principal
        if call.modern:
            session = await self._sessions.of_principal(principal, call.envelope.session_key())
            if call.envelope.method == "server/discover" and not session.keyed:
                session.renew()
            return session
        ident = call.headers.get(SESSION_ID)
        if ident is not None:
            found = self._sessions.of_id(ident, principal)
            if self._shared is not None:
                if found is None:
                    found = await self._shared.adopt(ident, principal, call.login.user)
                else:
                    await self._shared.renew(found)
            if found is None:
                await send_json(send, 404, _error("Session not found", call.envelope.id))
            return found
        if call.envelope.method == "initialize" and call.envelope.is_request:
            return self._sessions.opened_by_handshake(principal, call.login.user)
        text = "Mcp-Session-Id is missing: send initialize first, or MCP-Protocol-Version: 2026-07-28"
        await send_json(send, 400, _error(text, call.envelope.id))
        return None

    # -- requests that are answered ------------------------------------------------------------------

    async def _answer(self, call: Call, session: HttpSession, receive: Receive, send: Send) -> None:
        key = self._retries.key(session, call.envelope, call.body)
        exchange = await self._retries.join(key)
        if exchange is None:
            if call.forwarded and not (call.envelope.continues or call.begins):
                raise NotInProgress
            assert self._tasks is not None  # noqa: S101 - `run` is entered before anything is served
            body = self._retries.resumed(key, call.body)
            call.short = body is call.body and session.shortcut.takes(call.scope, call.envelope)
            if not call.short:
                session.shortcut.forget()
            exchange = Exchange(call.scope, body, partial(self._abandoned, call, session))
            self._retries.begin(key, exchange)
            self._tasks.start_soon(self._run, exchange, call, session, key)
        if await exchange.follow(receive, send) and not exchange.begun:
            if exchange.ended_with(call.login) or not self._logins.holds(call.login):
                raise self._logins.gone(call.scope)
            await exchange.ended.wait()
            status, why = self._unanswered(exchange)
            resume = f"; send the code again under `// @resume {exchange.chain}`" if exchange.chain else ""
            await send_json(send, status, _error(why + resume, call.envelope.id), RETRY)

    def _unanswered(self, exchange: Exchange) -> tuple[int, str]:
        """Return the status and the reason for a request that has ended without an answer."""
        if self.draining:
            return 503, "the gateway is stopping"
        if exchange.scope.cancelled_caught:
            return 504, f"no answer within {self._config.request_timeout:g} s (http.request_timeout)"
        return 503, "the request failed before its answer; the log of the gateway has the reason"

    async def _run(self, exchange: Exchange, call: Call, session: HttpSession, key: Key | None) -> None:
        opened = Open(call.login, exchange.leave, stream=False)
        self.open.add(opened)
        ident = call.envelope.id

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            if self._routing is not None:
                found = await self._routing.request_to_serve(call, session, exchange, key, receive, send)
                if found is None:
                    return
                call.short, receive = call.short and found is receive, found
            if call.short:
                await session.shortcut.serve(call.envelope, send)
                return
            new = "" if self._shared is None or session.known else self._shared.new_id()
            with self._manager.serving(session.server, new):
                await self._manager.handle_request(scope, receive, self._noting_id(call, session, send))

        try:
            with session.request():
                await exchange.run(app, self._config.request_timeout)
                if self._shared is not None and session.ident:
                    await self._shared.note(session, call.envelope.method, call.body)
                if exchange.scope.cancelled_caught and exchange.chain is None:  # over its time
                    exchange.chain = session.chains.get(ident)
                    if not call.modern:
                        await self._cancel_in_session(call, session)
        except Exception:
            logger.exception("a request over HTTP failed")
        finally:
            session.chains.pop(ident, None)
            session.planned.pop(ident, None)
            self._retries.end(key, exchange)
            if self._routing is not None and self._tasks is not None and exchange.claimed:
                self._tasks.start_soon(self._routing.release, exchange, key)
            self.open.discard(opened)
            exchange.ended.set()
            if call.envelope.method == "initialize" and not session.known:
                self._sessions.end(session)

    def _abandoned(self, call: Call, session: HttpSession, exchange: Exchange) -> None:
        """Cancel a request without clients; one of 2026-07-28 ends with the SDK's task that serves it."""
        exchange.chain = session.chains.get(call.envelope.id)
        if call.modern or exchange.elsewhere or self._tasks is None:
            exchange.scope.cancel()
        else:
            exchange.scope.deadline = anyio.current_time() + CANCEL_SECONDS
            self._tasks.start_soon(self._cancel_in_session, call, session)

    def _noting_id(self, call: Call, session: HttpSession, send: Send) -> Send:
        """Wrap `send` to read the id that the SDK gives to a new session of the handshake eras from the answer."""
        if call.envelope.method != "initialize" or session.known:
            return send

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400:
                ident = Headers(raw=message["headers"]).get(SESSION_ID)
                if ident is not None:
                    self._sessions.named(session, ident)
                    if self._shared is not None:
                        await self._shared.keep(session, call.body)
            await send(message)

        return noting

    async def _cancel_in_session(self, call: Call, session: HttpSession) -> None:
        """Cancel a request of the handshake eras with a notification: the SDK goes on when only its client is gone."""
        params = {"requestId": call.envelope.id, "reason": "the client hung up"}
        body = json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).encode()
        with (
            suppress(anyio.ClosedResourceError),  # the session has ended, and its requests with it
            anyio.move_on_after(CANCEL_SECONDS),
        ):
            await self._manager.inject(session.server, call.login.user, session.ident, body)

    # -- streams, notifications, answers of the client ---------------------------------------------------

    async def _serve_directly(self, call: Call, session: HttpSession, receive: Receive, send: Send) -> None:
        """Let the SDK serve a stream, a notification or an answer, which ends with its connection."""
        status = 0
        session.shortcut.forget()
        begun = ended = False
        unread = [call.body] if call.scope["method"] == "POST" else []

        async def replayed() -> Message:
            if unread:
                return {"type": "http.request", "body": unread.pop(), "more_body": False}
            return await receive()

        async def noting(message: Message) -> None:
            nonlocal status, begun, ended
            status = message.get("status", status)
            begun, ended = True, message["type"] == "http.response.body" and not message.get("more_body")
            await send(message)

        cancel = anyio.CancelScope()
        opened = Open(call.login, lambda _: cancel.cancel(), stream=True)
        self.open.add(opened)
        shared = self._shared if call.scope["method"] == "GET" and session.end_stream is None else None
        try:
            if shared is not None:
                session.end_stream = cancel.cancel
                await shared.streams(session)
            with session.request(), cancel, self._manager.serving(session.server):
                await Detachable(call.scope, replayed, noting).served_by(self._manager.handle_request)
        finally:
            self.open.discard(opened)
            if shared is not None:
                session.end_stream = None
        if begun and not ended:
            await send({"type": "http.response.body", "body": b""})
        elif not begun:
            await send_json(send, 503, _error("the gateway is stopping"), RETRY)
        if call.scope["method"] == "DELETE" and status == 200:
            self._sessions.end(session)
            if self._shared is not None:
                await self._shared.end(session)
        elif self._shared is not None and status == 202:
            await self._shared.note(session, call.envelope.method, call.body)


def _error(message: str, ident: Any = None) -> bytes:
    error = {"code": SERVER_ERROR, "message": message}
    return json.dumps({"jsonrpc": "2.0", "id": ident, "error": error}).encode()
