"""One request in progress, and the clients that wait for its answer: usually one, more when a balancer repeats it.

The request runs in a task of the server, so that it outlives the connection it came on while somebody waits for it.
When no client waits for it any more, it is cancelled at once. If a client does not read, the request pauses, and its
answer does not pile up in memory.
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
"""Bytes of an answer that are kept for a client that joins; a longer one cannot be joined any more."""
UNSENT_BYTES = 1 << 20
"""Bytes that may wait for the client that reads fastest."""

Run = Callable[[Scope, Receive, Send], Awaitable[None]]


class Detachable:
    """What the SDK is given of a request. It keeps that of a handshake as long as the session, so it is emptied."""

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
        """Let the SDK serve the request, and let go of it."""
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
    """Whether it stands for itself: of 2026-07-28, or where no sessions are kept of the eras before."""
    forwarded: bool = False
    """Whether another replica has got it from its client."""
    short: bool = False
    """Whether it is answered without the SDK."""

    @property
    def answers(self) -> object:
        """The id of the request that the client answers with it."""
        return self.envelope.id if self.envelope.method is None else None


class Exchange:
    """A request that is being answered. `abandoned` is called once, when nobody waits for the answer any more."""

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
        """Set when nothing of it runs any more."""
        self.done = self.left = False
        self.elsewhere = self.claimed = False
        """Whether another replica answers it; whether others know that this one does."""
        self.chain: str | None = None
        """The id of the chain that was cut off with the request, if one was."""

    @property
    def can_join(self) -> bool:
        return not self._dropped and not self.left

    @property
    def begun(self) -> bool:
        return bool(self._messages) or self._dropped > 0

    async def run(self, app: Run, seconds: float) -> None:
        """Let the SDK answer the request; what it sends goes to all that wait."""
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
        # Its client may leave while another waits: the server cancels it then. When it is answered, as servers do, so
        # that the SDK need not cancel what reads here: the exception would keep all of the request in a reference cycle.
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
        """Send one client the answer from its beginning; whether it got all of it."""
        me = object()
        self._waiting[me] = anyio.Event()
        finished = False
        # A bare task: a task group for each request costs as much as all else that is done here.
        watch = asyncio.ensure_future(_gone(receive))
        watch.add_done_callback(lambda _: self._waiting[me].set() if me in self._waiting else None)
        try:
            finished = await self._copy(me, watch, send)
        finally:
            watch.cancel()
            del self._waiting[me]
            if not finished and not self._waiting:
                self.leave()
        return finished

    async def _copy(self, me: object, gone: asyncio.Future[None], send: Send) -> bool:
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
            self._waiting[me] = anyio.Event()
            await self._waiting[me].wait()

    def leave(self) -> None:
        """Stop: nobody waits, or the answer may not be given any more."""
        if self.left or self.done:
            return
        self.left = True
        self._taken.set()
        self._abandoned(self)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def refuse(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    """Answer with a whole JSON document."""
    length = (b"content-length", str(len(body)).encode())
    all_headers: list[Any] = [(b"content-type", b"application/json"), length, *headers]
    await send({"type": "http.response.start", "status": status, "headers": all_headers})
    await send({"type": "http.response.body", "body": body})
