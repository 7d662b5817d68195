"""What a client hears while its call is open: progress that only grows, and what backends log meanwhile.

Made anew for each call of a client; how a message is sent is the caller's business, and one that would have to
wait is left out. Above: gateway.py, shortcut.py, parking.py. Below: chain/client.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from mcp_types import LOG_LEVEL_META_KEY

from gatemini.backends.callers import LEVELS, LOGGED, AskFn, Caller
from gatemini.chain.client import CallRecord, ChainClient
from gatemini.config.secrets import Redactor
from gatemini.model import Json
from gatemini.server.session import Session

PROGRESS = "notifications/progress"

Send = Callable[[str, Json], None]
"""Sends a notification (method, params) if that can be done at once."""


class Steps:
    """The progress of one chain: whole numbers for finished calls, fractions for what open ones report."""

    def __init__(self) -> None:
        self._done = 0
        self._shown = 0.0

    def finished(self) -> float:
        self._done += 1
        self._shown = float(self._done)
        return self._shown

    def within(self, progress: float, total: float | None) -> float | None:
        """Where an open call stands, always beyond what was shown and below the next whole number."""
        wanted = self._shown
        if total is not None and total > 0 and math.isfinite(progress / total):
            wanted = self._done + min(progress / total, 0.99)
        if wanted <= self._shown:
            wanted = self._shown + (self._done + 1 - self._shown) / 8
        if not self._shown < wanted < self._done + 1:
            return None  # what is left is less than a float can tell
        self._shown = wanted
        return wanted


class Relay:
    """Tells one client, during one of its calls, what it wants to know.

    `token` is its progress token, `log_level` from which level on it takes log messages; None for neither.
    `modern` clients (2026-07-28) hear of nothing else.
    """

    def __init__(
        self, send: Send, redactor: Redactor, *, token: str | int | None, log_level: str | None, modern: bool
    ) -> None:
        self._send = send
        self._redactor = redactor
        self._token = token
        self._modern = modern
        self._steps = Steps()
        self.log_level = log_level

    def client(self, can: Json | None = None, ask: AskFn | None = None) -> ChainClient:
        """The client as the chain meets it; `can` is what it may be asked, and `ask` how."""
        caller = Caller(can=can or {}, ask=ask, tell=self.tell, log_level=self.log_level)
        if self._token is None:
            return ChainClient(caller)
        return ChainClient(caller, self.call_done, self.call_progress)

    @property
    def shows_progress(self) -> bool:
        return self._token is not None

    def call_done(self, record: CallRecord) -> None:
        self._progress(self._steps.finished(), record.told())

    def call_progress(
        self, record: CallRecord, progress: float, total: float | None, message: str | None
    ) -> None:
        step = self._steps.within(progress, total)
        if step is not None:
            of = "" if total is None else f"/{total:g}"
            self._progress(step, f"{record.tool}: {message or f'{progress:g}{of}'}")

    def tell(self, backend: str, method: str, params: Json) -> None:
        """A backend's notification that is meant for the client."""
        if method == LOGGED:
            level = params["level"]
            if self.log_level is None or LEVELS.index(level) < LEVELS.index(self.log_level):
                return
            name = f"{backend}/{params['logger']}" if isinstance(params.get("logger"), str) else backend
            params = {"level": level, "logger": name, "data": params.get("data")}
        elif self._modern:
            return  # that revision knows no other
        self._send(method, self._redactor.value(params))

    def _progress(self, step: float, message: str) -> None:
        if self._token is not None:
            told = {"progressToken": self._token, "progress": step, "message": self._redactor.redact(message)}
            self._send(PROGRESS, told)


def progress_token(meta: Mapping[str, Any] | None) -> str | int | None:
    """The token a request brings along; 0 is one like any other."""
    meta = meta or {}
    token = meta.get("progress_token", meta.get("progressToken"))
    return token if isinstance(token, str | int) and not isinstance(token, bool) else None


def wanted_level(session: Session, meta: Mapping[str, Any] | None, *, modern: bool) -> str | None:
    """From which level on log messages are sent during a request: on 2026-07-28 each request says so itself."""
    if not modern:
        return session.log_level
    level = (meta or {}).get(LOG_LEVEL_META_KEY)
    return level if level in LEVELS else None
