"""Forward a request that only one replica can serve to that replica, and pass its answer to the client as it comes."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio
import anyio.abc
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from starlette.types import Message, Receive, Send

from gatemini.errors import StateUnavailable
from gatemini.http.auth.login import TokenFacts
from gatemini.policy.principal import Principal
from gatemini.state.replicas.peers import PeerMessage, Peers

logger = logging.getLogger(__name__)

CHECK_SECONDS = 1.0
"""Between two checks that the other replica is alive."""
WAITING_PIECES = 10_000
"""Pieces of an answer that may wait for a client that reads slowly."""
WAITING_BYTES = 16 << 20
"""Bytes in these pieces."""

REQUEST, PIECE, GONE, NOT_IN_PROGRESS = "request", "piece", "gone", "not here"


class Forwarded(msgspec.Struct, array_like=True):
    """A request with its login, which the replica that received it has checked."""

    principal: Principal
    method: str
    headers: list[tuple[bytes, bytes]]
    body: bytes
    begins: bool = False
    """Whether the other replica runs it as a new request; else it only answers what continues a request in progress there."""
    token: TokenFacts = TokenFacts()


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


class NotInProgress(Exception):
    """A forwarded request belongs to nothing that is in progress at this replica."""


class OwnerLost(Exception):
    """The rest of an answer cannot be received from the other replica; the client has to send its request again."""


Serve = Callable[[Forwarded, Receive, Send], Awaitable[None]]


class _Waiting:
    """The pieces of one answer that wait for its client."""

    def __init__(self) -> None:
        self.bytes = 0
        """In the bodies of the pieces that wait."""
        self.give: MemoryObjectSendStream[Piece | None]
        self.take: MemoryObjectReceiveStream[Piece | None]
        self.give, self.take = anyio.create_memory_object_stream(WAITING_PIECES)

    def add(self, piece: Piece | None) -> bool:
        """Add a piece; False where too much waits already."""
        self.bytes += len(piece.body) if piece is not None else 0
        try:
            self.give.send_nowait(piece)
        except anyio.WouldBlock:
            return False
        return self.bytes <= WAITING_BYTES

    async def next(self) -> Piece | None:
        """Return the next piece; None where there is no answer. Raises EndOfStream."""
        piece = await self.take.receive()
        self.bytes -= len(piece.body) if piece is not None else 0
        return piece


class Relay:
    """Forwarded requests of one replica, in both directions. `serve` answers one at this replica, or raises NotInProgress."""

    def __init__(self, peers: Peers, serve: Serve) -> None:
        self._peers = peers
        self._serve = serve
        self._tasks: anyio.abc.TaskGroup | None = None
        self._sent: dict[str, _Waiting] = {}
        """Exchange that another replica answers → where its pieces go."""
        self._served: dict[str, anyio.Event] = {}
        """Exchange that is answered for another replica → set when its client is gone."""
        peers.handlers |= {
            REQUEST: self._start_answer,
            PIECE: lambda message: self._add_piece(message, msgspec.msgpack.decode(message.data, type=Piece)),
            NOT_IN_PROGRESS: lambda message: self._add_piece(message, None),
            GONE: self._client_gone,
        }

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Own the answers to requests of other replicas until cancelled."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            task_status.started()
            await anyio.sleep_forever()

    # -- requests that this replica forwards ------------------------------------------------------------

    async def forward(self, owner: str, request: Forwarded, send: Send) -> bool:
        """Pass on the answer of another replica; False where that is gone, or has nothing the request belongs to.

        Raises StateUnavailable where the request could not be sent, OwnerLost where the rest of the answer is lost: serving
        the request again would repeat its calls. Its cancellation cancels the request at the other replica, too.
        """
        if owner == self._peers.replica or not await self._peers.alive(owner):
            return False
        exchange = secrets.token_hex(8)
        waiting = self._sent[exchange] = _Waiting()
        answered: bool | None = None
        try:
            with waiting.give, waiting.take:
                await self._peers.send(owner, REQUEST, exchange, msgspec.msgpack.encode(request))
                try:
                    answered = await self._pass_pieces(owner, waiting, send)
                except (StateUnavailable, anyio.EndOfStream) as error:
                    raise OwnerLost(f"the answer of replica {owner} is lost: {error!r}") from error
                return answered
        finally:
            self._sent.pop(exchange, None)
            if answered is None:
                with anyio.move_on_after(CHECK_SECONDS, shield=True), suppress(StateUnavailable):
                    await self._peers.send(owner, GONE, exchange)

    async def _pass_pieces(self, owner: str, waiting: _Waiting, send: Send) -> bool:
        """Send the client what arrives; False where nothing did. Raises OwnerLost, StateUnavailable, EndOfStream."""
        begun, head = False, None
        while True:
            with anyio.move_on_after(CHECK_SECONDS) as wait:
                piece = await waiting.next()
            if wait.cancelled_caught:
                if await self._peers.alive(owner):
                    continue
                if begun:
                    raise OwnerLost(f"replica {owner} is gone")
                return False
            if piece is None:
                return False
            if head is None and not begun and _has_length(piece.message):
                head = piece.message  # no answer yet without its body: another one may take its place
                continue
            begun = True
            if head is not None:
                await send(head)
                head = None
            await send(piece.message)
            if not piece.more:
                return True

    def _add_piece(self, message: PeerMessage, piece: Piece | None) -> None:
        waiting = self._sent.get(message.exchange)
        if waiting is not None and not waiting.add(piece):
            logger.warning("an answer of another replica is cut off: its client reads too slowly")
            del self._sent[message.exchange]
            waiting.give.close()

    # -- requests of other replicas ---------------------------------------------------------------------

    def _start_answer(self, message: PeerMessage) -> None:
        if self._tasks is not None:
            self._tasks.start_soon(self._answer, message)

    def _client_gone(self, message: PeerMessage) -> None:
        if message.exchange in self._served:
            self._served[message.exchange].set()

    async def _answer(self, message: PeerMessage) -> None:
        gone = self._served[message.exchange] = anyio.Event()

        async def receive() -> Message:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(part: Message) -> None:
            piece = msgspec.msgpack.encode(Piece.of(part))
            await self._peers.send(message.sender, PIECE, message.exchange, piece)

        async def watch() -> None:
            while not gone.is_set():
                await anyio.sleep(CHECK_SECONDS)
                if not await self._peers.alive(message.sender):
                    gone.set()

        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watch)
                request = msgspec.msgpack.decode(message.data, type=Forwarded)
                try:
                    await self._serve(request, receive, send)
                except NotInProgress:
                    await self._peers.send(message.sender, NOT_IN_PROGRESS, message.exchange)
                tasks.cancel_scope.cancel()
        except* StateUnavailable:
            logger.warning("a request of another replica could not be answered: the store is gone")
        except* Exception:
            logger.exception("a request of another replica failed")
        finally:
            del self._served[message.exchange]


def _has_length(message: Message) -> bool:
    """Whether this is the head of an answer that comes in one piece, not of a stream."""
    headers = message.get("headers", ()) if message["type"] == "http.response.start" else ()
    return any(bytes(name).lower() == b"content-length" for name, _ in headers)
