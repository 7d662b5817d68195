"""One client on the socket: greeting, session, SDK server, until it leaves or the daemon drains."""

from __future__ import annotations

import logging
import select
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import anyio
import orjson
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest

from gatemini import __version__
from gatemini.chain.client import CallRecord
from gatemini.daemon.hello import FEATURES, Hello
from gatemini.daemon.saved_answers import SavedAnswers
from gatemini.daemon.socket_streams import Exchange, Reader, SocketWriter
from gatemini.daemon.turns import Turns
from gatemini.protocol.mcp_server import build_server
from gatemini.protocol.sessions.client_session import Session
from gatemini.protocol.stdio.shortcut import Shortcut
from gatemini.proxy.memory import Identity

if TYPE_CHECKING:
    from gatemini.app import App

logger = logging.getLogger(__name__)

LEAVING_SECONDS = 3.0
"""How long open requests of a client that has closed its side may still be answered; the proxy waits for 2 s."""
LOOK_SECONDS = 0.05


class Connection:
    """One proxy that is connected. The daemon sets `ended` when nothing of it is left."""

    def __init__(self, sock: socket.socket, hello: Hello) -> None:
        self.sock = sock
        self.hello = hello
        self.since = time.time()
        self.session: Session | None = None
        self.exchange: Exchange | None = None
        self.bye = self.held = False
        self.ended = anyio.Event()
        self._writer = SocketWriter(sock)
        self._scope = anyio.CancelScope()

    @property
    def in_flight(self) -> int:
        return self.exchange.in_flight if self.exchange is not None else 0

    @property
    def settled(self) -> bool:
        """Whether the proxy holds further requests, and all it sent before are answered."""
        return self.held and self.in_flight == 0

    def tell(self, kind: str, **more: Any) -> None:
        """Send the proxy a line of its own."""
        self._writer.send_now(orjson.dumps({"gatemini": kind, **more}) + b"\n")

    def _tell_call(self, record: CallRecord) -> None:
        self.tell("call", tool=record.tool, outcome=record.outcome, ms=record.ms)

    def end(self) -> None:
        """Close the connection, whatever is open: the proxy answers the open requests with an error."""
        self._writer.gone = True
        self._scope.cancel()

    async def serve(
        self, app: App, session: Session, limit: int, turns: Turns, answers: SavedAnswers, begun: bytes
    ) -> None:
        """Serve the client until it leaves. `begun` are bytes behind its hello."""
        self.session = session
        with self._scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._writer.run)
                greeting = {"gatemini": 1, "version": __version__, "features": FEATURES}
                await self._writer.send(orjson.dumps(greeting) + b"\n")
                await self._speak(app, session, limit, turns, answers, begun)
                with anyio.move_on_after(LEAVING_SECONDS):
                    await self._writer.flushed()
                tasks.cancel_scope.cancel()

    async def _speak(
        self, app: App, session: Session, limit: int, turns: Turns, answers: SavedAnswers, begun: bytes
    ) -> None:
        surface = app.surface(session, whole=self.hello.arguments.get("whole") is True)
        if self.hello.arguments.get("terminal") is True:
            surface.on_call = self._tell_call
        surface.on_chain = lambda request, chain: self.tell("chain", request=request, chain=chain)
        shortcut = Shortcut(surface)
        server = build_server(surface, shortcut)
        incoming, messages = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        first_id = (time.time_ns() // 1_000_000 % (1 << 32)) << 20  # stays below 2^53
        exchange = Exchange(self._writer, shortcut, incoming, first_id, _saver(answers))
        self.exchange = exchange
        async with anyio.create_task_group() as tasks:
            shortcut.attach(tasks, self._writer)
            tasks.start_soon(
                self._read, Reader(self.sock, exchange, limit, turns, self._private), exchange, begun
            )
            tasks.start_soon(self._until_lost, exchange)
            await server.run(messages, exchange, server.create_initialization_options())
            tasks.cancel_scope.cancel()

    async def _read(self, reader: Reader, exchange: Exchange, begun: bytes) -> None:
        await reader.run(begun)
        if self.bye:  # it only closed its side: what is open may still be answered
            with anyio.move_on_after(LEAVING_SECONDS):
                while exchange.in_flight and not _hung_up(self.sock):  # noqa: ASYNC110 - no event tells that
                    await anyio.sleep(LOOK_SECONDS)
        exchange.close()

    async def _until_lost(self, exchange: Exchange) -> None:
        await self._writer.lost.wait()
        exchange.close()

    def _private(self, message: dict[str, Any]) -> None:
        if message.get("gatemini") == "bye":
            self.bye = True
        elif message.get("gatemini") == "held":
            self.held = True


def _saver(answers: SavedAnswers) -> Callable[[JSONRPCRequest], Callable[[Any], None] | None]:
    identity = Identity()

    def saves(request: JSONRPCRequest) -> Callable[[Any], None] | None:
        key = identity.key(request.method, request.params or {})
        return None if key is None else lambda result: answers.put(key, result)

    return saves


def _hung_up(sock: socket.socket) -> bool:
    poll = select.poll()
    poll.register(sock.fileno(), 0)
    return bool(poll.poll(0))
