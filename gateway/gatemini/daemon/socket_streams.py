"""One client's messages on the daemon's socket, as streams for the SDK.

As on stdio, except that writing needs no thread, that lines between proxy and daemon never reach the SDK, and that a
client has a limited number of requests in flight.
"""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import anyio
import orjson
from anyio.streams.memory import MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from gatemini.daemon.hello import MAX_HELLO_BYTES, Hello, read_hello
from gatemini.daemon.listener import peer_uid
from gatemini.daemon.turns import MOST_YOUNG, YOUNG_SECONDS, Turns
from gatemini.protocol.stdio.line_writer import LineWriter
from gatemini.protocol.stdio.shortcut import CANCELLED, Shortcut
from gatemini.protocol.stdio.stdio_streams import READ_CHUNK, LineSplitter, SdkLines, deliver
from gatemini.proxy.wire import PRIVATE

HELLO_SECONDS = 10.0
"""How long the first line of a connection may take."""
HELD_BYTES = 1 << 20
"""What may wait for a client that does not read; its calls wait from there on."""
BACKLOG_BYTES = 256 * 1024
"""Requests beyond the limit that are read all the same, to reach the answers and cancellations behind them."""
LOOK_SECONDS = 0.05
"""How often room for another request is looked for, where nothing else says that there is some."""

Item = SessionMessage | Exception
Saved = Callable[[JSONRPCRequest], Callable[[Any], None] | None]
"""Called with a request; returns what its result is to be passed to, if anything."""


class SocketWriter(LineWriter):
    """Writes whole lines in order; `run` writes what the socket does not take at once."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock.fileno())
        self._held = bytearray()
        self._more = anyio.Event()
        self._less = anyio.Event()

    def send_now(self, line: bytes) -> bool:
        """Write a line, or hold a little of what a slow client has not read; False where it holds too much."""
        if len(self._held) > HELD_BYTES or self.gone:
            return False
        self._put(line)
        return True

    async def send(self, line: bytes) -> None:
        async with self._turn:
            while len(self._held) > HELD_BYTES and not self.gone:
                self._less = anyio.Event()
                await self._less.wait()
            if not self.gone:
                self._put(line)

    async def run(self) -> None:
        """Write what is held, until cancelled or the client is gone."""
        while not self.gone:
            if not self._held:
                self._more = anyio.Event()
                await self._more.wait()
            await anyio.wait_writable(self._fd)
            self._write_held()

    async def flushed(self) -> None:
        """Wait until nothing is held."""
        while self._held and not self.gone:
            self._less = anyio.Event()
            await self._less.wait()

    def _put(self, line: bytes) -> None:
        self._held += line
        if len(self._held) == len(line):
            self._write_held()
        if self._held:
            self._more.set()

    def _write_held(self) -> None:
        try:
            while self._held:
                with memoryview(self._held) as view:
                    sent = os.write(self._fd, view[:READ_CHUNK])
                del self._held[:sent]
        except BlockingIOError:
            pass
        except OSError as exc:
            self._lost(exc)
            self.lost.set()
        if len(self._held) <= HELD_BYTES or self.gone:
            self._less.set()


class _Incoming:
    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def send(self, item: SessionMessage, /) -> None:
        await self._exchange.to_sdk(item)


class Exchange(SdkLines):
    """The SDK's side of one connection: counts what is open, and numbers requests to the client.

    `first_id` keeps the numbers of two daemons apart: a client may answer late what an earlier one asked.
    """

    def __init__(
        self,
        writer: SocketWriter,
        shortcut: Shortcut,
        incoming: MemoryObjectSendStream[Item],
        first_id: int,
        saved: Saved,
    ) -> None:
        super().__init__(writer)
        self.writer = writer
        self.open: dict[str | int, float] = {}
        """Requests that the SDK serves, and when they began."""
        self.requests = 0
        """Requests that this client ever sent."""
        self._shortcut = shortcut
        self._incoming = incoming
        self._first_id = first_id
        self._saved = saved
        self._saving: dict[str | int, Callable[[Any], None]] = {}
        self.freed = anyio.Event()
        self.incoming = _Incoming(self)
        shortcut.on_free = lambda: self.freed.set()

    @property
    def in_flight(self) -> int:
        return len(self.open) + self._shortcut.in_flight

    def young(self, seconds: float) -> int:
        """How many open requests began within so many seconds."""
        since = time.monotonic() - seconds
        return sum(at > since for at in (*self.open.values(), *self._shortcut.began()))

    async def take(self, line: bytes) -> None:
        """Serve one line of the client."""
        if self._shortcut.takes(line):
            self.requests += 1
        else:
            await deliver(line, self.incoming, self.writer)

    async def to_sdk(self, item: SessionMessage) -> None:
        message = item.message
        if isinstance(message, JSONRPCRequest):
            self.open[message.id] = time.monotonic()
            self.requests += 1
            receive = self._saved(message)
            if receive is not None:
                self._saving[message.id] = receive
        elif isinstance(message, JSONRPCResponse | JSONRPCError):
            if isinstance(message.id, int) and message.id > self._first_id:
                item = SessionMessage(message.model_copy(update={"id": message.id - self._first_id}))
        elif message.method == CANCELLED and message.params:
            self._answered(message.params.get("requestId"))
        await self._incoming.send(item)

    async def send(self, item: SessionMessage, /) -> None:
        message = item.message
        if isinstance(message, JSONRPCRequest) and isinstance(message.id, int):
            item = SessionMessage(message.model_copy(update={"id": message.id + self._first_id}))
        elif isinstance(message, JSONRPCNotification) and message.method == CANCELLED and message.params:
            number = message.params.get("requestId")
            if isinstance(number, int):
                params = {**message.params, "requestId": number + self._first_id}
                item = SessionMessage(message.model_copy(update={"params": params}))
        elif isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
            receive = self._saving.pop(message.id, None)
            if receive is not None and isinstance(message, JSONRPCResponse):
                receive(message.result)
            self._answered(message.id)
        await super().send(item)

    def _answered(self, ident: Any) -> None:
        self.open.pop(ident, None)
        self.freed.set()

    def close(self) -> None:
        """No more messages of the client: the SDK ends this connection."""
        self._incoming.close()


class Reader:
    """Reads the lines of one client, at most `limit` requests at a time; `private` gets those of the proxy itself."""

    def __init__(
        self,
        sock: socket.socket,
        exchange: Exchange,
        limit: int,
        turns: Turns,
        private: Callable[[dict[str, Any]], None],
    ) -> None:
        self._fd = sock.fileno()
        self._exchange = exchange
        self._limit = limit
        self._turns = turns
        self._private = private
        self._backlog: deque[bytes] = deque()
        self._backlog_bytes = 0

    async def run(self, begun: bytes) -> None:
        """Serve lines until the client closes its side; `begun` was read already. A last part is no line."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._work_off)
            await self._lines(begun)
            tasks.cancel_scope.cancel()

    async def _lines(self, begun: bytes) -> None:
        splitter, chunk = LineSplitter(), begun
        while True:
            for line in splitter.feed(chunk):
                await self._line(line)
            chunk = await self._read()
            if not chunk:
                return

    async def _read(self) -> bytes:
        while self._backlog_bytes > BACKLOG_BYTES:  # noqa: ASYNC110 - rare, and nobody waits for it
            await anyio.sleep(LOOK_SECONDS)
        while True:
            await anyio.wait_readable(self._fd)
            try:
                return os.read(self._fd, READ_CHUNK)
            except BlockingIOError:
                continue
            except OSError:
                return b""

    async def _line(self, line: bytes) -> None:
        if line.startswith(PRIVATE):
            self._private(_parsed(line))
            return
        if self._backlog or self._full():
            message = _parsed(line)
            if "method" in message and "id" in message:
                self._backlog.append(line)
                self._backlog_bytes += len(line)
                self._exchange.freed.set()
                return
            if message.get("method") == CANCELLED and self._drop(message.get("params")):
                return
        await self._turns.next(self)
        await self._exchange.take(line)

    def _full(self) -> bool:
        """Whether no further request may start now."""
        if self._exchange.in_flight >= self._limit:
            return True
        return self._turns.contended(self) and self._exchange.young(YOUNG_SECONDS) >= MOST_YOUNG

    def _drop(self, params: Any) -> bool:
        """Forget a request that was cancelled before it began."""
        ident = params.get("requestId") if isinstance(params, dict) else None
        for line in self._backlog:
            if _parsed(line).get("id") == ident:
                self._backlog.remove(line)
                self._backlog_bytes -= len(line)
                return True
        return False

    async def _work_off(self) -> None:
        while True:
            if not self._backlog or self._full():
                self._exchange.freed = anyio.Event()
                with anyio.move_on_after(LOOK_SECONDS if self._backlog else None):
                    await self._exchange.freed.wait()
                continue
            await self._turns.next(self)
            if self._backlog:  # it may have been cancelled meanwhile
                line = self._backlog.popleft()
                self._backlog_bytes -= len(line)
                await self._exchange.take(line)


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


async def read_greeting(sock: socket.socket) -> tuple[Hello | None, bytes]:
    """The first line of a connection, and what is behind it already; None where it is none, or comes of another user."""
    if peer_uid(sock) != os.getuid():
        return None, b""
    line = begun = b""
    with anyio.move_on_after(HELLO_SECONDS):
        line, begun = await _first_line(sock)
    return read_hello(line), begun


async def _first_line(sock: socket.socket) -> tuple[bytes, bytes]:
    data = b""
    while b"\n" not in data and len(data) < MAX_HELLO_BYTES:
        await anyio.wait_readable(sock)
        try:
            more = sock.recv(READ_CHUNK)
        except BlockingIOError:
            continue
        except OSError:
            break
        if not more:
            break
        data += more
    line, _, rest = data.partition(b"\n")
    return line, rest
