"""The replica that runs a singleton: answer the requests of other replicas by it, as if it were their own server."""

from __future__ import annotations

import itertools
import json
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
import anyio.abc
import orjson

from gatemini.backends.actor import Backend
from gatemini.backends.calls.callers import INTERNAL_ERROR, METHOD_NOT_FOUND, Caller, RpcError
from gatemini.backends.calls.failures import NOT_RUN, circuit_open
from gatemini.backends.conversation.handshake import META_SERVER, MODERN_VERSION, as_object
from gatemini.backends.conversation.peer import CANCELLED, LISTEN, Reply
from gatemini.backends.mcp_session import McpSession
from gatemini.backends.singleton import messages
from gatemini.backends.singleton.messages import FROM_OWNER, Failure, FromOwner, ToOwner
from gatemini.backends.status import ServerFacts
from gatemini.backends.wire import encode
from gatemini.errors import BackendCrashed, BackendError, BackendProtocol, StateUnavailable
from gatemini.model import Json
from gatemini.state.replicas.peers import ALIVE_SECONDS, Peers

logger = logging.getLogger(__name__)

RETRY_SECONDS = 0.1
"""Between two attempts to send an answer while the store cannot be reached."""
LAST_WORD_SECONDS = 1.0
"""How long the end of a backend may take to be sent to another replica."""
MOST_WAITING = 1000
"""Notifications that may wait for the store; more are dropped."""
NO_LIMIT = float("inf")
CALLS = frozenset({"tools/call", "resources/read", "prompts/get", "completion/complete"})
"""Requests that count against the limits of the backend, as at the replica that sends them."""


class Connection:
    """The connection of another replica to a backend of this one."""

    def __init__(self, peers: Peers, replica: str, link: str, find: Callable[[], Backend | None]) -> None:
        """`find` returns the backend, once it is ready."""
        self._peers, self._replica, self._link, self._find = peers, replica, link, find
        self._give, self._take = anyio.create_memory_object_stream[ToOwner](NO_LIMIT)
        self._open: dict[int, anyio.CancelScope] = {}
        self._questions: dict[int, anyio.Event] = {}
        """Open questions of the backend, each with what is set once its answer is in `_answers`."""
        self._answers: dict[int, Json] = {}
        self._idents = itertools.count(1)
        self._waiting: deque[FromOwner] = deque()
        self._more = anyio.Event()
        self._sending = anyio.Lock()
        self._caller = Caller(session=f"{replica} {link}", ask=self._ask, tell=self._tell)
        """All calls of a replica have one: which of its clients a message of the backend is for is decided there."""

    def receive(self, message: ToOwner) -> None:
        """Take a message of the other replica."""
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # it has just ended
            self._give.send_nowait(message)

    def post(self, message: FromOwner) -> None:
        """Have a notification sent, in order with all else."""
        if len(self._waiting) < MOST_WAITING:
            self._waiting.append(message)
            self._more.set()

    async def run(self) -> None:
        """Serve the other replica until it has closed the connection or is gone, or the backend ends."""
        last = FromOwner("ended")
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._send_posted)
                tasks.start_soon(self._watch, tasks.cancel_scope)
                async for message in self._take:
                    if not message.message or not await self._dispatch(message, tasks):
                        break
                tasks.cancel_scope.cancel()
            last = FromOwner("lost")  # not cancelled from outside: the backend goes on
        finally:
            self._give.close()
            self._take.close()
            with anyio.move_on_after(LAST_WORD_SECONDS, shield=True), suppress(StateUnavailable):
                for left in (*self._waiting, last):
                    await messages.send(self._peers, self._replica, FROM_OWNER, self._link, left)

    async def _watch(self, scope: anyio.CancelScope) -> None:
        """End the connection when the other replica is gone."""
        while True:
            await anyio.sleep(ALIVE_SECONDS)
            with suppress(StateUnavailable):
                if not await self._peers.alive(self._replica):
                    scope.cancel()

    async def _dispatch(self, packed: ToOwner, tasks: anyio.abc.TaskGroup) -> bool:
        """Begin what a message asks for; False where a message is lost, after which the connection is of no use."""
        try:
            body = await messages.body(self._peers, packed)
            message = json.loads(body)  # exact also for integers beyond 64 bits and half surrogates
        except StateUnavailable as error:
            logger.warning(
                "%s: the connection of another replica is ended: %s", packed.backend, error.message
            )
            return False
        except RecursionError:
            refused = BackendProtocol("the arguments are nested too deeply to reach another replica")
            self.post(FromOwner("failed", messages.request_of(body), Failure.of(refused).written))
            return True
        method, ident = message.get("method"), message.get("id")
        if method is None:
            if (answered := self._questions.get(ident)) is not None:
                self._answers[ident] = message
                answered.set()
        elif method == CANCELLED:
            if (scope := self._open.get(as_object(message.get("params")).get("requestId", 0))) is not None:
                scope.cancel()
        elif ident is not None:
            tasks.start_soon(self._answer, ident, method, as_object(message.get("params")))
        return True

    # -- requests of the other replica ------------------------------------------------------------------

    async def _answer(self, ident: int, method: str, params: Json) -> None:
        with anyio.CancelScope() as scope:
            self._open[ident] = scope
            try:
                await self._answer_with(ident, method, params)
            except RpcError as error:
                refusal = {"code": error.code, "message": error.message}
                text = orjson.dumps({"jsonrpc": "2.0", "id": ident, "error": refusal})
                await self._send(FromOwner("message", message=text))
            except BackendError as error:
                await self._send(FromOwner("failed", ident, Failure.of(error).written))
            finally:
                del self._open[ident]

    async def _answer_with(self, ident: int, method: str, params: Json) -> None:
        backend = await self._ready()
        session, facts = backend.session, backend.facts
        if session is None or facts is None:
            raise BackendCrashed(f"{backend.config.name} has just ended", hint=NOT_RUN)
        if method not in CALLS:
            await self._send_result(ident, await self._uncounted(backend, session, facts, method, params))
            return
        await backend.limits.take_place(NO_LIMIT)
        try:
            reply = await self._passed(session, ident, method, params)
            backend.answered()
            await self._send_result(ident, reply)  # within the place: a backend that is to end waits for it
        finally:
            backend.limits.leave_place()

    async def _ready(self) -> Backend:
        """Wait until the backend is ready: the other replica has a time limit, and cancels."""
        while (backend := self._find()) is None:  # noqa: ASYNC110 - another one may replace it
            await anyio.sleep(RETRY_SECONDS)
        return backend

    async def _uncounted(
        self, backend: Backend, session: McpSession, facts: ServerFacts, method: str, params: Json
    ) -> Reply:
        if method in ("initialize", "server/discover"):
            return Reply(handshake(facts, method), ())
        if method == "ping":
            if backend.breaker.circuit != "closed":
                raise circuit_open(backend.config.name, backend.breaker.next_probe(anyio.current_time()))
            return Reply({}, ())
        if method == LISTEN:  # changes are sent without it
            await anyio.sleep_forever()
        return await session.peer.request(method, params, timeout=NO_LIMIT)

    async def _passed(self, session: McpSession, ident: int, method: str, params: Json) -> Reply:
        """Pass a call on to the backend."""
        token = as_object(params.get("_meta")).get("progressToken")

        def progressed(progress: float, total: float | None, message: str | None) -> None:
            found = {"progress": progress, "total": total, "message": message}
            known = {key: value for key, value in found.items() if value is not None}
            self._notify("notifications/progress", {"progressToken": token, **known})

        return await session.peer.request(
            method,
            params,
            timeout=NO_LIMIT,
            on_progress=progressed if token is not None else None,
            caller=self._caller,
        )

    async def _send_result(self, ident: int, reply: Reply) -> None:
        text = messages.answer(ident, reply.result)
        await self._send(FromOwner("message", ident, text, reply.notes, reply.size))

    # -- questions and notifications of the backend -----------------------------------------------------

    async def _ask(self, method: str, params: Json) -> Json:
        """Pass a question of the backend to the other replica."""
        ident = next(self._idents)
        answered = self._questions[ident] = anyio.Event()
        try:
            question = {"jsonrpc": "2.0", "id": ident, "method": method, "params": params}
            await self._send(FromOwner("message", message=encode(question)))
            await answered.wait()
            answer = self._answers[ident]
        finally:
            del self._questions[ident]
            self._answers.pop(ident, None)
        if "error" in answer:
            error = as_object(answer["error"])
            raise RpcError(error.get("code", INTERNAL_ERROR), str(error.get("message", "")))
        return as_object(answer.get("result"))

    def _tell(self, backend: str, method: str, params: Json) -> None:
        del backend
        self._notify(method, params)

    def _notify(self, method: str, params: Json) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        self.post(FromOwner("message", message=encode(message)))

    # -- sending ----------------------------------------------------------------------------------------

    async def _send_posted(self) -> None:
        while True:
            await self._more.wait()
            self._more = anyio.Event()
            await self._flush()

    async def _send(self, message: FromOwner) -> None:
        """Send a message after those that wait; return when the store has it."""
        self._waiting.append(message)
        await self._flush()

    async def _flush(self) -> None:
        async with self._sending:
            while self._waiting:
                await self._deliver(self._waiting[0])
                self._waiting.popleft()

    async def _deliver(self, message: FromOwner) -> None:
        """Send one message, when the store can be reached: an answer that is lost would leave a call open."""
        while True:
            try:
                await messages.send(self._peers, self._replica, FROM_OWNER, self._link, message)
                return
            except StateUnavailable:
                await anyio.sleep(RETRY_SECONDS)


def handshake(facts: ServerFacts, method: str) -> Json:
    """Return the result of a handshake with a server that has these facts; raises RpcError for one of the other era."""
    modern = facts.era == "modern"
    if modern is not (method == "server/discover"):
        raise RpcError(METHOD_NOT_FOUND, f"the server does not speak the revisions of {method}")
    result: dict[str, Any] = {"capabilities": facts.capabilities}
    if facts.instructions is not None:
        result["instructions"] = facts.instructions
    if modern:
        meta = {} if facts.server_info is None else {META_SERVER: facts.server_info}
        return {**result, "supportedVersions": [MODERN_VERSION], "_meta": meta}
    return {**result, "protocolVersion": facts.protocol_version, "serverInfo": facts.server_info or {}}
