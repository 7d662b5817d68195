"""The callers behind tool calls, and what backends may ask of them and send them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from gatemini.model import Json

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

LOGGED = "notifications/message"
"""The notification with which a server sends a log message."""
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Log levels (RFC 5424), the least urgent first."""

ProgressFn = Callable[[float, float | None, str | None], None]
"""Called with progress, total (if known) and message (if any), on the event loop."""

AskFn = Callable[[str, Json], Awaitable[Json]]
"""Answers a request of a backend to the client (method, params → result); raises `RpcError` to refuse."""

TellFn = Callable[[str, str, Json], None]
"""Called with a backend's name and a notification (method, params) for the client."""


class RpcError(Exception):
    """The refusal of a backend's request: a JSON-RPC error code and the reason."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True, eq=False)
class Caller:
    """The client on whose behalf calls are made. All calls of one chain share one object."""

    session: str | None = None
    """Selects the instance of a dedicated backend; calls with the same session have the same client."""
    can: Json = field(default_factory=dict)
    """The client's MCP capabilities: what a backend may ask of it."""
    ask: AskFn | None = None
    tell: TellFn | None = None
    time_left: Callable[[], float] | None = None
    """Seconds for which a call may be kept alive by progress; None: progress does not restart its timeout."""
    log_level: str | None = None
    """The lowest level of backend log messages that the client wants."""
    principal: str = ""
    """On whose behalf the client calls."""
    user: tuple[str, str] | None = None
    """The issuer and the subject of the token with which it has logged in here; None for the gateway's own user."""
    is_remote: bool = False
    """Whether the client may be on another machine."""

    @property
    def opens_urls(self) -> bool:
        """Whether the client takes elicitations by URL."""
        elicitation = self.can.get("elicitation")
        return self.ask is not None and isinstance(elicitation, dict) and "url" in elicitation

    @property
    def owner(self) -> object:
        """Equal for calls of the same client."""
        return self if self.session is None else self.session


NOBODY = Caller()


class Clients:
    """The gateway's clients, for requests of backends outside of any call; without any, each request is refused."""

    def of(self, session: str | None, backend: str) -> Clients:
        """Return the client of one session, for a backend that serves it alone; all that may use the backend for None."""
        del session, backend
        return self

    async def can(self) -> Json:
        """The client capabilities to announce in a handshake; may wait a bounded time for a client to connect."""
        return {}

    async def ask(self, method: str, params: Json) -> Json:
        """Answer a backend's request; raises `RpcError` to refuse."""
        del params
        raise RpcError(METHOD_NOT_FOUND, f"no client is connected that could answer {method}")
