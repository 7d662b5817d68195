"""Notifications to a client while its call is open: growing progress, and log messages of backends.

One `Relay` serves one call. A notification that would have to wait is dropped.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from mcp_types import LOG_LEVEL_META_KEY

from gatemini.backends.calls.callers import LEVELS, LOGGED, AskFn, Caller
from gatemini.chain.client import CallRecord, ChainClient
from gatemini.config.variables.redaction import Redactor
from gatemini.model import Json
from gatemini.protocol.sessions.client_session import Session

PROGRESS = "notifications/progress"
_TRACE_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")

PROGRESS_SECONDS = 0.05
"""How long a progress message waits: meanwhile a later one replaces it, and the answer makes it needless.

A client handles an answer as soon as it has read it, and then a progress message read together with it has a token that
is no longer known: the TypeScript SDK reports that as an error.
"""

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
        """Return the progress of an open call, above what was shown and below the next whole number."""
        wanted = self._shown
        if total is not None and total > 0 and math.isfinite(progress / total):
            wanted = self._done + min(progress / total, 0.99)
        if wanted <= self._shown:
            wanted = self._shown + (self._done + 1 - self._shown) / 8
        if not self._shown < wanted < self._done + 1:
            return None  # a float cannot express a smaller step
        self._shown = wanted
        return wanted


class Relay:
    """Sends one client the notifications it wants during one of its calls.

    `token` is its progress token, `log_level` the least level of log messages that it receives; None for neither.
    `modern` clients (2026-07-28) receive no other notifications. `begun` gets the id of the chain that the call starts,
    which is `chain` if that is given. `trace` is the id of the trace that the call belongs to.
    """

    def __init__(
        self,
        send: Send,
        redactor: Redactor,
        *,
        token: str | int | None,
        log_level: str | None,
        modern: bool,
        begun: Callable[[str], None] | None = None,
        chain: str | None = None,
        trace: str = "",
    ) -> None:
        self._send = send
        self._redactor = redactor
        self._token = token
        self._modern = modern
        self._steps = Steps()
        self._pending: Json | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.log_level = log_level
        self._begun, self._chain, self._trace = begun, chain, trace

    def client(self, can: Json | None = None, ask: AskFn | None = None) -> ChainClient:
        """Return the client for the chain; `can` is its capabilities, and `ask` sends it requests."""
        caller = Caller(can=can or {}, ask=ask, tell=self.tell, log_level=self.log_level)
        if self._token is None:
            return ChainClient(caller, on_begin=self._begun, chain=self._chain, trace=self._trace)
        done, progress = self.call_done, self.call_progress
        return ChainClient(caller, done, progress, self._begun, self._chain, trace=self._trace)

    def follow(self, call: Relay | None) -> None:
        """Send what another call of the same client wants from now on; nothing while none is open (None)."""
        self.drop_progress()
        self._send, self._token = (call._send, call._token) if call else (drop, None)

    def drop_progress(self) -> None:
        """Forget progress that is not sent yet, because the answer is ready."""
        if self._timer is not None:
            self._timer.cancel()
        self._pending = self._timer = None

    def call_done(self, record: CallRecord) -> None:
        self._progress(self._steps.finished(), record.progress_line())

    def call_progress(
        self, record: CallRecord, progress: float, total: float | None, message: str | None
    ) -> None:
        step = self._steps.within(progress, total)
        if step is not None:
            of = "" if total is None else f"/{total:g}"
            self._progress(step, f"{record.tool}: {message or f'{progress:g}{of}'}")

    def tell(self, backend: str, method: str, params: Json) -> None:
        """Pass on a backend's notification."""
        if method == LOGGED:
            level = params["level"]
            if self.log_level is None or LEVELS.index(level) < LEVELS.index(self.log_level):
                return
            name = f"{backend}/{params['logger']}" if isinstance(params.get("logger"), str) else backend
            params = {"level": level, "logger": name, "data": params.get("data")}
        elif self._modern:
            return  # that revision has no other notification
        self._send(method, self._redactor.value(params))

    def _progress(self, step: float, message: str) -> None:
        if self._token is None:
            return
        text = self._redactor.redact(message)
        self._pending = {"progressToken": self._token, "progress": step, "message": text}
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PROGRESS_SECONDS, self._send_pending)

    def _send_pending(self) -> None:
        params, self._pending, self._timer = self._pending, None, None
        if params is not None:
            self._send(PROGRESS, params)


def drop(_method: str, _params: Json) -> None:
    """Send nothing."""


def progress_token(meta: Mapping[str, Any] | None) -> str | int | None:
    """Return the progress token of a request; 0 is a valid one."""
    meta = meta or {}
    token = meta.get("progress_token", meta.get("progressToken"))
    return token if isinstance(token, str | int) and not isinstance(token, bool) else None


def trace_of(meta: Mapping[str, Any] | None) -> str:
    """Return the id in a request's `traceparent` (W3C Trace Context), "" for none that is valid."""
    given = (meta or {}).get("traceparent")
    found = _TRACE_PARENT.fullmatch(given) if isinstance(given, str) else None
    return found[1] if found is not None and found[1].strip("0") else ""


def wanted_level(session: Session, meta: Mapping[str, Any] | None, *, modern: bool) -> str | None:
    """Return the least level of log messages during a request: on 2026-07-28 each request names it."""
    if not modern:
        return session.log_level
    level = (meta or {}).get(LOG_LEVEL_META_KEY)
    return level if level in LEVELS else None
