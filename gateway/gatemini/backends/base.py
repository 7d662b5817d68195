"""What every kind of backend has in common: its states, its status, and the seam between peer and transport.

A transport is a function `open_…(…, peer)` giving an async context manager over a `Link`; the peer writes
through the link and the link hands what arrives to the peer. Above: `session.py`, `actor.py`, `manager.py`
and the transports. Below: errors and the model.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, Protocol

import anyio

from gatemini.backends.wire import Piece
from gatemini.errors import BackendError
from gatemini.model import Json, Tool

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

LOGGED = "notifications/message"
"""A notification of what the sender logs."""
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Of what is logged (RFC 5424), the least urgent first."""

Era = Literal["modern", "legacy"]
"""Which handshake a backend speaks: `server/discover` (2026-07-28) or `initialize` (until 2025-11-25)."""

ProgressFn = Callable[[float, float | None, str | None], None]
"""Called with progress, total (if known) and message (if any), on the event loop."""


AskFn = Callable[[str, Json], Awaitable[Json]]
"""Answers what a backend asks of the client (method, params → result); raises `RpcError` to refuse."""

TellFn = Callable[[str, str, Json], None]
"""Called with a backend's name and a notification of it (method, params) that is meant for the client."""


class RpcError(Exception):
    """The answer to a backend's request that is refused: a JSON-RPC code and the reason."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True, eq=False)
class Caller:
    """On whose behalf calls are made. One object for all calls of a chain: backends tell by it whom to ask."""

    session: str | None = None
    """Whose instance of a dedicated backend serves, and who is meant when several chains are at work."""
    can: Json = field(default_factory=dict)
    """What the client can be asked, as MCP's client capabilities; empty where nobody can be."""
    ask: AskFn | None = None
    tell: TellFn | None = None
    log_level: str | None = None
    """From which level on the client wants to see what backends log."""

    @property
    def owner(self) -> object:
        """Calls with the same owner have the same client behind them."""
        return self if self.session is None else self.session


NOBODY = Caller()


class Clients(Protocol):
    """The gateway's clients as backends meet them outside of any call."""

    async def can(self) -> Json:
        """The client capabilities to announce in a handshake; may wait a bounded time for a client to speak."""
        ...

    async def ask(self, method: str, params: Json) -> Json:
        """Answer what a backend asks while no call is open; raises `RpcError` to refuse."""
        ...


class NoClients:
    """For a gateway that nobody can be asked through."""

    async def can(self) -> Json:
        return {}

    async def ask(self, method: str, params: Json) -> Json:
        del params
        raise RpcError(METHOD_NOT_FOUND, f"no client is there that could answer {method}")


class State(StrEnum):
    STARTING = "starting"
    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class BackendStatus:
    """One backend as `doctor`, `gatemini://health` and `status` show it; a snapshot."""

    name: str
    state: State
    transport: str
    dynamic: bool = False
    era: Era | None = None
    protocol_version: str | None = None
    server_info: Json | None = None
    instructions: str | None = None
    capabilities: Json = field(default_factory=dict)
    pid: int | None = None
    tools: int = 0
    error: str | None = None
    remedy: str | None = None
    """What to do about the error."""
    stderr_tail: list[str] = field(default_factory=list)
    repairs: list[str] = field(default_factory=list)
    skipped_lines: int = 0
    stray_replies: int = 0
    restarts: int = 0
    calls_open: int = 0
    instances: int | None = None
    idle_instances: int | None = None
    rss: int | None = None
    peak_rss: int | None = None
    max_memory_mb: int | None = None
    circuit: str = "closed"
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Events:
    """What the actor tells the manager, synchronously on the event loop."""

    tools: Callable[[str, list[Tool]], None]
    state: Callable[[str, State], None]
    era: Callable[[str, Era], None]


SILENT = Events(
    tools=lambda _name, _tools: None,
    state=lambda _name, _state: None,
    era=lambda _name, _era: None,
)
"""For backends that do not speak for their name: instances of a pool, and those that were replaced."""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What a backend said about itself when connecting."""

    era: Era
    protocol_version: str
    server_info: Json | None = None
    capabilities: Json = field(default_factory=dict)
    instructions: str | None = None


class Receiver(Protocol):
    """The side of the peer that a link feeds."""

    def receive(self, piece: Piece, during: int | None = None) -> None:
        """Take one message; `during` is the request it came along with, where the transport tells."""

    def fail(self, error: BackendError) -> None:
        """The connection is gone: every open request ends with `error`."""

    def fail_one(self, ident: int, error: BackendError) -> None:
        """One request cannot be answered any more."""

    def waiting(self, ident: int) -> bool:
        """Whether this request is still without an answer."""


class Link(Protocol):
    """An open connection to one backend."""

    closed: anyio.Event
    """Set when the other side is gone."""

    all_or_nothing: bool
    """A `send` that was given up has written nothing; else it may have gone out."""

    @property
    def pid(self) -> int | None: ...

    @property
    def skipped(self) -> int: ...

    @property
    def failure(self) -> BackendError | None:
        """Why the connection ended, once `closed` is set."""

    def stderr_tail(self) -> list[str]: ...

    def post(self, message: Json, *, ident: int) -> bool:
        """Write a request without waiting; False where that would wait, or is not known: then `send` is to follow."""

    async def send(self, message: Json, *, ident: int | None = None) -> None:
        """Write one message. Raises `BackendError` with `sent=False` if it certainly did not go out."""

    def abandon(self, ident: int) -> bool:
        """Nobody waits for this request any more; True if the backend need not be told by a message."""

    def learn(self, tools: Sequence[Tool]) -> None:
        """The backend's tools as last listed, for links that send more than the message."""


OpenLink = Callable[[Receiver], AbstractAsyncContextManager[Link]]
"""Opens a connection that feeds the given receiver; leaving the context ends it and everything it started."""
