"""Requests that only one replica can serve: the one that got it sends it there, and passes the answer on as it comes."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable

import anyio
import anyio.abc
import msgspec
from anyio.streams.memory import MemoryObjectSendStream
from starlette.types import Message, Receive, Send

from gatemini.errors import StateUnavailable
from gatemini.http.replicas.post import Letter, Post
from gatemini.policy.principal import Principal

logger = logging.getLogger(__name__)

CHECK_SECONDS = 1.0
"""Between two looks whether the other replica still lives."""
WAITING_PIECES = 10_000
"""Pieces of an answer that may wait for a client that reads slowly."""

REQUEST, PIECE, GONE, NOT_HERE = "request", "piece", "gone", "not here"


class Forwarded(msgspec.Struct, array_like=True):
    """A request with its login, which was checked where it came in."""

    principal: Principal
    method: str
    headers: list[tuple[bytes, bytes]]
    body: bytes


class Piece(msgspec.Struct, array_like=True):
    """The head of an answer (`status` is not 0), or a part of its body."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    more: bool

    @classmethod
    def of(cls, message: Message) -> Piece:
        headers = [(bytes(name), bytes(value)) for name, value in message.get("headers", ())]
        more = message["type"] == "http.response.start" or bool(message.get("more_body"))
        return cls(message.get("status", 0), headers, message.get("body", b""), more)

    @property
    def message(self) -> Message:
        if self.status:
            return {"type": "http.response.start", "status": self.status, "headers": self.headers}
        return {"type": "http.response.body", "body": self.body, "more_body": self.more}


class NotHere(Exception):
    """What another replica asks for is not going on here."""


class OwnerLost(Exception):
    """The replica that was answering is gone; its client has to ask again."""


Serve = Callable[[Forwarded, Receive, Send], Awaitable[None]]
_Pieces = MemoryObjectSendStream[Piece | None]


class Relay:
    """Forwarded requests of one replica, in both directions. `serve` answers one here, or raises NotHere."""

    def __init__(self, post: Post, serve: Serve) -> None:
        self._post = post
        self._serve = serve
        self._tasks: anyio.abc.TaskGroup | None = None
        self._sent: dict[str, _Pieces] = {}
        self._served: dict[str, anyio.Event] = {}
        post.handlers |= {
            REQUEST: self._requested,
            PIECE: lambda letter: self._arrived(letter, msgspec.msgpack.decode(letter.data, type=Piece)),
            NOT_HERE: lambda letter: self._arrived(letter, None),
            GONE: self._given_up,
        }

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Own the requests that others have sent until cancelled."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            task_status.started()
            await anyio.sleep_forever()

    # -- requests that came in here -------------------------------------------------------------------

    async def forward(self, owner: str, request: Forwarded, send: Send) -> bool:
        """Have another replica answer; False where it is gone, or has nothing to do with the request.

        Raises OwnerLost where it goes after the answer has begun. Cancelling it cancels the request there.
        """
        if owner == self._post.replica or not await self._post.alive(owner):
            return False
        exchange = secrets.token_hex(8)
        give, take = anyio.create_memory_object_stream[Piece | None](WAITING_PIECES)
        self._sent[exchange] = give
        begun = over = False
        try:
            await self._post.send(owner, REQUEST, exchange, msgspec.msgpack.encode(request))
            while not over:
                with anyio.move_on_after(CHECK_SECONDS) as wait:
                    piece = await take.receive()
                if wait.cancelled_caught:
                    over = not await self._post.alive(owner)
                    continue
                if piece is None:
                    over = True
                    return False
                begun, over = True, not piece.more
                await send(piece.message)
                if over:
                    return True
        finally:
            del self._sent[exchange]
            give.close()
            take.close()
            if not over:
                with anyio.move_on_after(CHECK_SECONDS, shield=True):
                    await self._post.send(owner, GONE, exchange)
        if begun:
            raise OwnerLost(f"replica {owner} is gone")
        return False

    def _arrived(self, letter: Letter, piece: Piece | None) -> None:
        waiting = self._sent.get(letter.exchange)
        if waiting is not None:
            try:
                waiting.send_nowait(piece)
            except anyio.WouldBlock:
                logger.warning("an answer of another replica is cut: its client reads too slowly")
                waiting.close()

    # -- requests that came in elsewhere ---------------------------------------------------------------

    def _requested(self, letter: Letter) -> None:
        if self._tasks is not None:
            self._tasks.start_soon(self._answer, letter)

    def _given_up(self, letter: Letter) -> None:
        if letter.exchange in self._served:
            self._served[letter.exchange].set()

    async def _answer(self, letter: Letter) -> None:
        gone = self._served[letter.exchange] = anyio.Event()

        async def receive() -> Message:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            piece = msgspec.msgpack.encode(Piece.of(message))
            await self._post.send(letter.sender, PIECE, letter.exchange, piece)

        async def watch() -> None:
            while not gone.is_set():
                await anyio.sleep(CHECK_SECONDS)
                if not await self._post.alive(letter.sender):
                    gone.set()

        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watch)
                request = msgspec.msgpack.decode(letter.data, type=Forwarded)
                try:
                    await self._serve(request, receive, send)
                except NotHere:
                    await self._post.send(letter.sender, NOT_HERE, letter.exchange)
                tasks.cancel_scope.cancel()
        except* StateUnavailable:
            logger.warning("a request of another replica could not be answered: the store is gone")
        except* Exception:
            logger.exception("a request of another replica failed")
        finally:
            del self._served[letter.exchange]
