"""The state of a backend, and the events that report its changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from gatemini.model import Json, Offer, Tool

Era = Literal["modern", "legacy"]
"""The handshake of a backend: `server/discover` (2026-07-28) or `initialize` (until 2025-11-25)."""


class State(StrEnum):
    STARTING = "starting"
    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    STOPPED = "stopped"
    LOGIN_REQUIRED = "login_required"
    """It waits for a login that a person makes."""


@dataclass(frozen=True, slots=True)
class BackendStatus:
    """A snapshot of one backend, as `doctor`, `gatemini://health` and `status` show it."""

    name: str
    state: State
    transport: str
    era: Era | None = None
    protocol_version: str | None = None
    server_info: Json | None = None
    instructions: str | None = None
    pid: int | None = None
    tools: int = 0
    error: str | None = None
    remedy: str | None = None
    """How to repair the cause of the error."""
    stderr_tail: list[str] = field(default_factory=list)
    repairs: list[str] = field(default_factory=list)
    skipped_lines: int = 0
    stray_replies: int = 0
    restarts: int = 0
    calls_open: int = 0
    offers: tuple[Offer, ...] = ()
    """Resources and prompts."""
    instances: int | None = None
    idle_instances: int | None = None
    rss: int | None = None
    peak_rss: int | None = None
    max_memory_mb: int | None = None
    circuit: str = "closed"
    login: Json | None = None
    """Of a backend with a login: when its token ends, whether it is renewed by itself, its scopes."""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What a server stated about itself in the handshake."""

    era: Era
    protocol_version: str
    server_info: Json | None = None
    capabilities: Json = field(default_factory=dict)
    instructions: str | None = None


def _ignored(*_: object) -> None:
    """For events without a listener."""


@dataclass(frozen=True, slots=True)
class Events:
    """Callbacks of a backend, called synchronously on the event loop."""

    tools: Callable[[str, list[Tool]], None] = _ignored
    state: Callable[[str, State], None] = _ignored
    era: Callable[[str, Era], None] = _ignored
    offers: Callable[[str, list[Offer]], None] = _ignored


SILENT = Events()
"""For instances of a dedicated backend and for replaced backends, which do not report under their name."""
