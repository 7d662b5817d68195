"""One request in progress, and the clients that wait for its answer: usually one, more when a balancer repeats it.

The request runs in a task of the server, so that it outlives the connection it came on while another client waits for it.
When no client waits for it any more, it is cancelled at once. It pauses while no client reads, so that its answer does not
grow in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anyio
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from gatemini.http.auth.login import Login
from gatemini.http.body import Envelope

KEPT_BYTES = 8 << 20
"""Bytes of an answer that are kept for a client that joins; a longer answer cannot be joined."""
UNSENT_BYTES = 1 << 20
"""Bytes that may wait for the client that reads fastest; then the request pauses."""

Run = Callable[[Scope, Receive, Send], Awaitable[None]]


class Detachable:
    """An ASGI request that is emptied after use: the SDK keeps that of a handshake as long as the session."""

    __slots__ = ("_receive", "_send", "scope")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = dict(scope)
        self._receive: Receive | None = receive
        self._send: Send | None = send

    async def receive(self) -> Message:
        return {"type": "http.disconnect"} if self._receive is None else await self._receive()

    async def send(self, message: Message) -> None:
        if self._send is not None:
            await self._send(message)

    async def served_by(self, app: Run) -> None:
        """Let an application serve the request, and empty it."""
        try:
            await app(self.scope, self.receive, self.send)
        finally:
            self._receive = self._send = None
            self.scope.clear()


@dataclass(slots=True)
class Call:
    """One HTTP request after its login."""

    scope: Scope
    headers: Headers
    login: Login
    body: bytes
    envelope: Envelope
    modern: bool
    """Whether it needs no handshake: it is of 2026-07-28, or sessions of the handshake eras are not kept."""
    forwarded: bool = False
    """Whether another replica received it from its client."""
    begins: bool = False
    """Whether it was forwarded because this replica is the home of its session."""
    short: bool = False
    """Whether it is answered without the SDK."""

    @property
    def answers(self) -> object:
        """The id of the gateway's request that it answers; None where it is no answer."""
        return self.envelope.id if self.envelope.method is None else None


@dataclass(eq=False, slots=True)
class Open:
    """A request or stream that is open for a login; `stop` ends it, and gets the login if that does not hold any more."""

    login: Login
    stop: Callable[[Login | None], None]
    stream: bool
    """Whether it is a stream of notifications, whose end loses no work."""


class Exchange:
    """A request that is being answered. `abandoned` is called once, when no client waits for the answer any more."""

    def __init__(self, scope: Scope, body: bytes, abandoned: Callable[[Exchange], None]) -> None:
        self._request = scope
        self._body: bytes | None = body
        self._abandoned = abandoned
        self._messages: list[Message] = []
        self._dropped = 0
        self._kept = self._unsent = 0
        self._read = 0
        self._waiting: dict[object, anyio.Event] = {}
        self._taken = anyio.Event()
        self._answered = anyio.Event()
        self.scope = anyio.CancelScope()
        self.ended = anyio.Event()
        """Set when its task has ended."""
        self._ended_login: Login | None = None
        self.done = self.left = False
        self.elsewhere = self.claimed = False
        """`elsewhere`: another replica answers it. `claimed`: other replicas can find that this one answers it."""
        self.chain: str | None = None
        """The id of the chain that was cut off with the request, if one was."""

    @property
    def can_join(self) -> bool:
        return not self._dropped and not self.left

    def ended_with(self, login: Login) -> bool:
        """Whether it was ended because this login, or an equal one, does not hold any more."""
        return self._ended_login is not None and self._ended_login.key == login.key

    @property
    def begun(self) -> bool:
        return bool(self._messages) or self._dropped > 0

    async def run(self, app: Run, seconds: float) -> None:
        """Let an application answer the request within so many seconds; all clients that wait get the answer."""
        self.scope.deadline = anyio.current_time() + seconds
        try:
            with self.scope:
                await Detachable(self._request, self._receive, self._send).served_by(app)
        finally:
            self.done = True
            self._wake()

    async def _receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        # A client that disconnects is not reported, since another may wait; the server cancels the request after the last.
        # The end of the answer is, as ASGI servers do: otherwise the SDK cancels the task that waits for this message, and
        # the exception keeps the whole request in a reference cycle.
        await self._answered.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        size = len(message.get("body", b""))
        self._messages.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            self._answered.set()
        self._kept += size
        self._unsent += size
        if message["type"] == "http.response.body" and not message.get("more_body"):
            self.done = True  # a client that leaves with its whole answer cancels nothing
        while self._kept > KEPT_BYTES and self._dropped < self._read:
            self._kept -= len(self._messages.pop(0).get("body", b""))
            self._dropped += 1
        self._wake()
        while self._unsent > UNSENT_BYTES and not self.left:
            self._taken = anyio.Event()
            await self._taken.wait()

    def _wake(self) -> None:
        for event in self._waiting.values():
            event.set()

    async def follow(self, receive: Receive, send: Send) -> bool:
        """Send one client the answer from its beginning; return whether it got all of it."""
        client = object()
        self._waiting[client] = anyio.Event()
        finished = False
        # A bare task: a task group for each request costs as much as the rest of this method.
        watch = asyncio.ensure_future(_disconnected(receive))
        watch.add_done_callback(lambda _: self._waiting[client].set() if client in self._waiting else None)
        try:
            finished = await self._copy(client, watch, send)
        finally:
            watch.cancel()
            del self._waiting[client]
            if not finished and not self._waiting:
                self.leave()
        return finished

    async def _copy(self, client: object, gone: asyncio.Future[None], send: Send) -> bool:
        position = 0
        while True:
            while position < self._dropped + len(self._messages):
                message = self._messages[position - self._dropped]
                await send(message)
                position += 1
                if position > self._read:
                    self._read = position
                    self._unsent -= len(message.get("body", b""))
                    self._taken.set()
            if self.done:
                return True
            if gone.done():
                return False
            self._waiting[client] = anyio.Event()
            await self._waiting[client].wait()

    def leave(self, ended: Login | None = None) -> None:
        """Stop the request: no client waits for it, or its login has `ended`."""
        if self.left or self.done:
            return
        self._ended_login = ended
        self.left = True
        self._taken.set()
        self._abandoned(self)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def send_json(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    """Send a whole answer with a JSON body."""
    length = (b"content-length", str(len(body)).encode())
    all_headers: list[Any] = [(b"content-type", b"application/json"), length, *headers]
    await send({"type": "http.response.start", "status": status, "headers": all_headers})
    await send({"type": "http.response.body", "body": body})
