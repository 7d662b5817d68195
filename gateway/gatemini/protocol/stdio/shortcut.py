"""Serve `tools/call` without the SDK, once the SDK has served one of the same client.

Nearly every message of an agent is a `tools/call`. The SDK checks the client's revision, capabilities and identity for
each of them and validates each answer twice, which costs more than most calls. A request whose envelope equals one that
the SDK has accepted is parsed once, run, and written once here: that saves 58 % of what the gateway adds to a call.
Everything else goes to the SDK, and so do all calls of 2026-07-28 clients that take requests (elicitation,
sampling, roots), whose calls are answered in rounds.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.abc
import orjson
from mcp.server.context import ServerRequestContext
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, SERVER_INFO_META_KEY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from gatemini.backends.calls.callers import AskFn
from gatemini.model import Json
from gatemini.protocol.asking import asks_now
from gatemini.protocol.plain_calls import CALL, PLAIN_PARAMS, Ident, envelope, failure, written
from gatemini.protocol.questions.translation import can_be_asked
from gatemini.protocol.relay import Relay, wanted_level
from gatemini.protocol.stdio.line_writer import LineWriter
from gatemini.protocol.surface import Surface

logger = logging.getLogger(__name__)

ID_DIGITS = 20
"""Most digits of an id that is read as a number: what 64 bits hold."""

CANCELLED = "notifications/cancelled"


@dataclass(frozen=True, slots=True)
class _Call:
    """One request in flight; its scope is cancelled when the client cancels it."""

    ident: Ident
    name: str
    arguments: Json | None
    progress: Ident | None
    log_level: str | None
    scope: anyio.CancelScope
    began: float = field(default_factory=time.monotonic)


class Shortcut:
    """Serves `tools/call` for one connection. `attach` is called before the first line."""

    def __init__(self, surface: Surface) -> None:
        self._surface = surface
        self._tasks: anyio.abc.TaskGroup | None = None
        self._lines: LineWriter | None = None
        self._client: list[Any] | None = None
        self._stamp: Json = {}
        self._modern = False
        self._can: Json = {}
        self._ask: AskFn | None = None
        self._open: dict[Ident, _Call] = {}
        self.on_free: Callable[[], None] | None = None
        """Called when a call is no longer in flight."""

    def attach(self, tasks: anyio.abc.TaskGroup, lines: LineWriter) -> None:
        """Set the task group that calls run in and the writer of their answers."""
        self._tasks, self._lines = tasks, lines

    def learn(self, context: ServerRequestContext[Any, Any], server_info: Json) -> None:
        """Accept requests with the same envelope as this `tools/call`, which the SDK is serving."""
        version, capabilities = context.protocol_version, context.session.client_capabilities
        modern, can = version in MODERN_PROTOCOL_VERSIONS, can_be_asked(capabilities, version)
        if capabilities is None or (modern and can):
            return
        described = envelope((context.params or {}).get("_meta"))
        if described == self._client and (modern, can) == (self._modern, self._can):
            return
        self._client = described
        self._stamp = {SERVER_INFO_META_KEY: server_info} if modern else {}
        self._modern, self._can = modern, can
        # Not related to the call being served, which ends: on one pair of pipes that makes no difference.
        self._ask = self._surface.redacted(asks_now(context.session, can, version)) if can else None

    @property
    def in_flight(self) -> int:
        return len(self._open)

    def began(self) -> Iterator[float]:
        """Yield when each call in flight began, by the monotonic clock."""
        return (call.began for call in self._open.values())

    def takes(self, line: bytes) -> bool:
        """Look at a line from the client; return True when it is served here."""
        if self._client is None:
            return False
        if b"tools/call" not in line and CANCELLED.encode() not in line:
            if b'"initialize"' in line:
                self._client = None  # the SDK has to accept the new client first
            return False
        try:
            message = orjson.loads(line)
        except orjson.JSONDecodeError:
            return False
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            return False
        params = message.get("params")
        if not isinstance(params, dict):
            return False
        if message.get("method") == CANCELLED:
            return self._cancel(params.get("requestId"))
        call = self._read(message.get("id"), params) if message.get("method") == CALL else None
        if call is None or self._tasks is None:
            return False
        self._open[_key(call.ident)] = call
        self._tasks.start_soon(self._serve, call)
        return True

    def _read(self, ident: Any, params: Json) -> _Call | None:
        """Return the request if it equals an accepted one except for name, arguments and progress token."""
        meta, name, arguments = params.get("_meta"), params.get("name"), params.get("arguments")
        if not _is_ident(ident) or not isinstance(name, str) or not isinstance(arguments, dict | None):
            return None
        if not PLAIN_PARAMS.issuperset(params) or not isinstance(meta, dict | None):
            return None
        progress = meta.get("progressToken") if meta else None
        if envelope(meta) != self._client or not (progress is None or _is_ident(progress)):
            return None
        level = wanted_level(self._surface.session, meta, modern=self._modern)
        return _Call(ident, name, arguments, progress, level, anyio.CancelScope())

    def _cancel(self, ident: Any) -> bool:
        call = self._open.get(_key(ident)) if _is_ident(ident) else None
        if call is None:
            return False
        call.scope.cancel()
        return True

    async def _serve(self, call: _Call) -> None:
        try:
            with call.scope:
                answer = await self._answer(call)
        except anyio.get_cancelled_exc_class():
            # The connection is ending: a client that still reads must not wait for this answer.
            self._send_now(failure(call.ident, CONNECTION_CLOSED, "Connection closed"))
            raise
        finally:
            if self._open.get(_key(call.ident)) is call:
                del self._open[_key(call.ident)]
            if self.on_free is not None:
                self.on_free()
        if not call.scope.cancel_called and self._lines is not None:  # a cancelled request gets no answer
            await self._lines.send(written(answer) + b"\n")

    async def _answer(self, call: _Call) -> Json:
        relay = Relay(
            self._tell,
            self._surface.redactor,
            token=call.progress,
            log_level=call.log_level,
            modern=self._modern,
            begun=self._surface.tells_begin(call.ident),
        )
        try:
            client = relay.client(self._can, self._ask)
            result = await self._surface.call_tool(call.name, call.arguments, client)
        except Exception:
            logger.exception("%s failed", call.name)
            return failure(call.ident, INTERNAL_ERROR, "Internal server error")
        finally:
            relay.drop_progress()
        if self._stamp:
            result = {
                **result,
                "_meta": {**result.get("_meta", {}), **self._stamp},
                "resultType": "complete",
            }
        return {"jsonrpc": "2.0", "id": call.ident, "result": result}

    def _tell(self, method: str, params: Json) -> None:
        """Send a notification, or drop it where it would have to wait."""
        self._send_now({"jsonrpc": "2.0", "method": method, "params": params})

    def _send_now(self, message: Json) -> None:
        if self._lines is not None and not self._lines.send_now(written(message) + b"\n"):
            logger.debug("dropped, since the client does not read: %s", message.get("method", "an error"))


def _is_ident(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _key(ident: Ident) -> Ident:
    """Return ids in text form as numbers: some clients cancel with `"7"` what they sent as `7`. Python refuses to read
    numbers of thousands of digits.
    """
    number = isinstance(ident, str) and len(ident) <= ID_DIGITS and ident.isascii() and ident.isdigit()
    return int(ident) if number else ident
