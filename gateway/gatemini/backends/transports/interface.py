"""The interface between a JSON-RPC conversation (`peer.py`) and the transports that carry it.

A transport is a function `open_…(config, receiver)` that gives an async context manager over a `Link`. The peer
writes through the link; the link passes received messages to the peer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import anyio

from gatemini.backends.wire import Frame, Piece, request_id
from gatemini.errors import BackendError
from gatemini.model import Json, Tool


class Receiver(Protocol):
    """The receiving side of a conversation."""

    def receive(self, piece: Piece, during: int | None = None) -> None:
        """Take one message; `during` is the request in whose response it came, where the transport knows."""

    def fail(self, error: BackendError) -> None:
        """End every open request with `error`: the connection is gone."""

    def fail_one(self, ident: int, error: BackendError) -> None:
        """End one open request with `error`."""

    def waiting(self, ident: int) -> bool:
        """Whether this request is still without an answer."""


class Link:
    """An open connection to one backend; the defaults are those of a transport without processes or sessions."""

    all_or_nothing = True
    """Whether a cancelled `send` has written nothing; else the message may have been delivered."""
    failure: BackendError | None = None
    """The cause of the end of the connection, once `closed` is set."""
    renew: Callable[[], Awaitable[None]] | None = None
    """Shakes hands again on this connection, where the server has forgotten its session."""

    def __init__(self, name: str, receiver: Receiver) -> None:
        self.closed = anyio.Event()
        """Set when the connection has ended."""
        self._name = name
        self._receiver = receiver

    @property
    def pid(self) -> int | None:
        """The process id of the backend, where it is a child process."""
        return None

    @property
    def skipped(self) -> int:
        """The number of received lines that were no JSON-RPC."""
        return 0

    def stderr_tail(self) -> list[str]:
        return []

    def send_now(self, message: Json) -> bool:
        """Write one message if that needs no waiting; False, with nothing written, if `send` has to."""
        del message
        return False

    async def send(self, message: Json, *, ident: int | None = None) -> None:
        """Write one message. Raises `BackendError` with `sent=False` if it was certainly not delivered."""
        raise NotImplementedError

    def abandon(self, ident: int) -> bool:
        """Release a request that no caller waits for; True if the backend needs no cancel notification."""
        del ident
        return False

    def learn(self, tools: Sequence[Tool]) -> None:
        """Take note of the listed tools; HTTP sends headers that depend on their schemas."""
        del tools

    def _answers(self, piece: Piece, during: int | None = None) -> bool:
        """Whether a caller waits for this message, which came in the response to the request `during`."""
        if isinstance(piece, Frame) and "method" in piece.message:
            return False
        ident = request_id(piece.message.get("id") if isinstance(piece, Frame) else piece.ident)
        ident = during if ident is None else ident
        return ident is not None and self._receiver.waiting(ident)


OpenLink = Callable[[Receiver], AbstractAsyncContextManager[Link]]
"""Opens a connection for a receiver; leaving the context ends the connection and every process it started."""
