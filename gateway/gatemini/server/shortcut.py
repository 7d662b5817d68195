"""`tools/call` without the SDK's detour, once the SDK has served one from the same client.

Nearly everything an agent sends is `tools/call`. The SDK checks the client's era, capabilities and identity anew
for each of them, and validates each answer twice; that costs more than most calls. A request that says of its
client exactly what an earlier one said, which the SDK has accepted, is therefore answered from here: parsed once,
run, written once. Everything else goes the SDK's way, and so do all calls of clients of 2026-07-28 that may be
asked (elicitation, sampling, roots), whose calls are answered in rounds. Above: gateway.py (teaches it), stdio.py (shows it each line). Below: surface.py.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import anyio
import anyio.abc
import orjson
from mcp.server.context import ServerRequestContext
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from gatemini.backends.callers import AskFn
from gatemini.model import Json
from gatemini.server.asking import asks_now
from gatemini.server.questions import can_be_asked
from gatemini.server.relay import Relay, wanted_level
from gatemini.server.surface import Surface

logger = logging.getLogger(__name__)

ENVELOPE_KEYS = (PROTOCOL_VERSION_META_KEY, CLIENT_INFO_META_KEY, CLIENT_CAPABILITIES_META_KEY)
"""What a request of the stateless era says of its client; one of the handshake era has none of them."""

PLAIN_PARAMS = frozenset({"name", "arguments", "_meta"})

ID_DIGITS = 20
"""Of an id that is a whole number: what 64 bits hold."""

CALL = "tools/call"
CANCELLED = "notifications/cancelled"

Ident = str | int


class Lines(Protocol):
    """Where answers go."""

    def send_now(self, line: bytes) -> bool:
        """Write a line if that cannot block; whether it was written."""
        ...

    async def send(self, line: bytes) -> None: ...


@dataclass(frozen=True, slots=True)
class _Call:
    """One request on its way; cancelling its scope means that nobody waits for the answer."""

    ident: Ident
    name: str
    arguments: Json | None
    progress: Ident | None
    log_level: str | None
    scope: anyio.CancelScope


class Shortcut:
    """One connection's short way to the meta-tools. `attach` comes before the first line."""

    def __init__(self, surface: Surface) -> None:
        self._surface = surface
        self._tasks: anyio.abc.TaskGroup | None = None
        self._lines: Lines | None = None
        self._client: list[Any] | None = None
        self._stamp: Json = {}
        self._modern = False
        self._can: Json = {}
        self._ask: AskFn | None = None
        self._open: dict[Ident, _Call] = {}

    def attach(self, tasks: anyio.abc.TaskGroup, lines: Lines) -> None:
        """The tasks calls run in, and where their answers go."""
        self._tasks, self._lines = tasks, lines

    def learn(self, context: ServerRequestContext[Any, Any], server_info: Json) -> None:
        """The SDK is serving this `tools/call`: others that say the same of their client may come here."""
        version, capabilities = context.protocol_version, context.session.client_capabilities
        modern, can = version in MODERN_PROTOCOL_VERSIONS, can_be_asked(capabilities, version)
        if capabilities is None or (modern and can):
            return
        envelope = _envelope((context.params or {}).get("_meta"))
        if envelope == self._client and (modern, can) == (self._modern, self._can):
            return
        self._client = envelope
        self._stamp = {SERVER_INFO_META_KEY: server_info} if modern else {}
        self._modern, self._can = modern, can
        # Not beside the call that taught us, which ends: on one pair of pipes it is the same.
        self._ask = self._surface.redacted(asks_now(context.session, can, version)) if can else None

    def takes(self, line: bytes) -> bool:
        """Look at a line from the client; True when it is served from here."""
        if self._client is None:
            return False
        if b"tools/call" not in line and CANCELLED.encode() not in line:
            if b'"initialize"' in line:
                self._client = None  # whoever speaks from now on has to be looked at by the SDK
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
        """The request, if it is like one that was served before in all but name, arguments and progress."""
        meta, name, arguments = params.get("_meta"), params.get("name"), params.get("arguments")
        if not _is_ident(ident) or not isinstance(name, str) or not isinstance(arguments, dict | None):
            return None
        if not PLAIN_PARAMS.issuperset(params) or not isinstance(meta, dict | None):
            return None
        progress = meta.get("progressToken") if meta else None
        if _envelope(meta) != self._client or not (progress is None or _is_ident(progress)):
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
            # The connection is ending; a client that still reads should not wait for this answer.
            self._send_now(_failure(call.ident, CONNECTION_CLOSED, "Connection closed"))
            raise
        finally:
            if self._open.get(_key(call.ident)) is call:
                del self._open[_key(call.ident)]
        if not call.scope.cancel_called and self._lines is not None:  # a cancelled request is never answered
            await self._lines.send(_line(answer))

    async def _answer(self, call: _Call) -> Json:
        relay = Relay(
            self._tell,
            self._surface.redactor,
            token=call.progress,
            log_level=call.log_level,
            modern=self._modern,
        )
        try:
            client = relay.client(self._can, self._ask)
            result = await self._surface.call_tool(call.name, call.arguments, client)
        except Exception:
            logger.exception("%s failed", call.name)
            return _failure(call.ident, INTERNAL_ERROR, "Internal server error")
        if self._stamp:
            result = {
                **result,
                "_meta": {**result.get("_meta", {}), **self._stamp},
                "resultType": "complete",
            }
        return {"jsonrpc": "2.0", "id": call.ident, "result": result}

    def _tell(self, method: str, params: Json) -> None:
        """Left out where it would have to wait."""
        self._send_now({"jsonrpc": "2.0", "method": method, "params": params})

    def _send_now(self, message: Json) -> None:
        if self._lines is not None and not self._lines.send_now(_line(message)):
            logger.debug("left out, since the client does not read: %s", message.get("method", "an error"))


def _envelope(meta: Any) -> list[Any]:
    return [meta.get(key) for key in ENVELOPE_KEYS] if isinstance(meta, Mapping) else [None] * 3


def _is_ident(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _key(ident: Ident) -> Ident:
    """Ids that came back as text are the same ids; Python refuses to read numbers of thousands of digits."""
    number = isinstance(ident, str) and len(ident) <= ID_DIGITS and ident.isascii() and ident.isdigit()
    return int(ident) if number else ident


def _failure(ident: Ident, code: int, text: str) -> Json:
    return {"jsonrpc": "2.0", "id": ident, "error": {"code": code, "message": text}}


def _line(message: Json) -> bytes:
    try:
        return orjson.dumps(message) + b"\n"
    except TypeError:  # integers beyond 64 bits, half surrogates
        return json.dumps(message).encode() + b"\n"
