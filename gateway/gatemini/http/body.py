"""Read the body of a request within limits of size and time, and the fields that decide how it is served."""

from __future__ import annotations

from typing import Any

import anyio
import msgspec
from starlette.types import Message, Receive

BODY_SECONDS = 30.0
"""How long the body of a request may take to arrive."""
SESSION_META = "gatemini/session"
"""Key in `_meta` by which a client of 2026-07-28 names its session."""
SESSION_KEY_CHARS = 128


class BodyRefused(Exception):
    """The body is too large, too slow or incomplete; `status` is 0 where the client is gone and gets no answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Envelope(msgspec.Struct):
    """The members of a JSON-RPC message that decide how it is served; the SDK reads and checks all of it."""

    jsonrpc: Any = None
    id: Any = None
    method: Any = None
    params: Any = None

    @property
    def is_request(self) -> bool:
        """Whether it is a request, which is answered: it has a method and an id."""
        return isinstance(self.method, str) and isinstance(self.id, str | int)

    @property
    def continues(self) -> bool:
        """Whether it continues work in progress: it is an answer or a notification, or has answers for a parked chain."""
        return not self.is_request or self.request_state is not None

    @property
    def request_state(self) -> object:
        """The state that identifies the parked chain it continues, as the client sent it."""
        return self.params.get("requestState") if isinstance(self.params, dict) else None

    def session_key(self) -> str | None:
        """Return the key of the session that the message names. Raises BodyRefused for one that is not allowed."""
        meta = self.params.get("_meta") if isinstance(self.params, dict) else None
        key = meta.get(SESSION_META) if isinstance(meta, dict) else None
        if key is None:
            return None
        if not isinstance(key, str) or not 0 < len(key) <= SESSION_KEY_CHARS or not key.isprintable():
            raise BodyRefused(400, f"_meta.{SESSION_META}: allowed are 1 to {SESSION_KEY_CHARS} characters")
        return key


async def read_body(receive: Receive, declared: str | None, most: int) -> bytes:
    """Return the whole body. Raises BodyRefused."""
    if declared is not None and declared.isdecimal() and int(declared) > most:
        raise BodyRefused(413, f"the body has {declared} bytes, allowed are {most} (http.max_body)")
    parts: list[bytes] = []
    size = 0
    with anyio.move_on_after(BODY_SECONDS):
        while True:
            message: Message = await receive()
            if message["type"] != "http.request":
                raise BodyRefused(0, "the client hung up")
            part = message.get("body", b"")
            size += len(part)
            if size > most:
                raise BodyRefused(413, f"the body has more than {most} bytes (http.max_body)")
            parts.append(part)
            if not message.get("more_body", False):
                return parts[0] if len(parts) == 1 else b"".join(parts)
    raise BodyRefused(408, f"the body did not arrive within {BODY_SECONDS:g} s")


def read_envelope(body: bytes) -> Envelope:
    """Read what decides how a message is served; an empty one where it is no JSON-RPC object, which the SDK refuses."""
    try:
        return msgspec.json.decode(body, type=Envelope)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return Envelope()
