"""Connections of the HTTP server: how many at once, and how long a client may neither write nor read.

uvicorn refuses a connection over its limit only after that connection has sent a request, and waits without limit for
the first header.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 10.0
"""How long the header of a request may take, from its first byte or from the connection's start."""
UNREAD_SECONDS = 60.0
"""How long a client may go without reading what is sent to it."""
REFUSED_SECONDS = 1.0
"""How long a refused connection stays open for its client to read the refusal."""
REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\n"
    b"content-type: text/plain\r\ncontent-length: 21\r\n\r\ntoo many connections\n"
)


class OneWrite:
    """A transport that sends what is written within one turn of the loop at once.

    uvicorn writes header and body of an answer apart: two system calls, two packets, and a client that wakes up twice.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not data:
            return
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        parts, self._parts = self._parts, []
        if parts:
            self._transport.write(b"".join(parts))


class BoundedConnection(H11Protocol):
    """One connection; refused at once where there are `limit_concurrency` of them already."""

    _timer: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        most = self.limit_concurrency
        if most is not None and len(self.connections) >= most:
            self._refused, self.transport = True, transport
            transport.write(REFUSAL)
            # Closing with unread bytes would reset the connection before the client has read the refusal.
            if transport.can_write_eof():
                transport.write_eof()
            self._timer = self.loop.call_later(REFUSED_SECONDS, transport.close)
            return
        super().connection_made(OneWrite(transport, self.loop))  # type: ignore[arg-type]
        self.limit_concurrency = None  # it was checked above
        self._wait_for_header()

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._stop_waiting()
        elif self._timer is None and (before is None or before.response_complete):
            self._wait_for_header()

    def on_response_complete(self) -> None:
        if self.conn.their_state is h11.SEND_BODY and self._timer is None:
            # Answered before the body was read; closing now would reset the connection under the answer.
            self._wait_for_header()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_unread()

    def eof_received(self) -> None:
        if self._refused:
            self.transport.close()
        else:
            super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._stop_unread()
        if not self._refused:
            super().connection_lost(exc)

    def shutdown(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self._stop_waiting()
        super().shutdown()

    def _wait_for_header(self) -> None:
        self._timer = self.loop.call_later(HEADER_SECONDS, self._too_slow)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _too_slow(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.transport.close()
