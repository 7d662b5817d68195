"""One request of a client, as ASGI messages, and the reply to it.

Plain ASGI and no framework: header fields, bodies and broken connections pass as they are.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from typing import Any

import anyio

Fields = list[tuple[bytes, bytes]]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

HOP_BY_HOP = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    )
)
"""Fields about one connection only, with those that `Connection` names (RFC 9110, 7.6.1)."""
SESSION_FIELD = b"x-gatemini-session"
ENCODINGS = b"accept-encoding"


class ClientGone(Exception):
    """The client hung up before its request was complete."""


class ClientRequest:
    """Method, target, fields and body of a request."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.raw_path: bytes = scope.get("raw_path") or self.path.encode()
        self.query: bytes = scope["query_string"]
        self.received: Fields = [(bytes(name), bytes(value)) for name, value in scope["headers"]]
        self._receive = receive
        self._complete = anyio.Event()

    def field(self, name: bytes) -> str | None:
        """The value of a field; None where there is none."""
        return next((value.decode("latin-1") for key, value in self.received if key == name), None)

    @property
    def fields(self) -> Fields:
        """The fields for the provider: all but those of this connection, of this proxy, and the host."""
        left_out = {SESSION_FIELD, b"host", b"expect"}
        if any(name == b"transfer-encoding" for name, _ in self.received):
            left_out.add(b"content-length")  # which does not count beside it (RFC 9112, 6.3)
        return _of_no_connection(self.received, left_out)

    @property
    def fields_for_reading(self) -> Fields:
        """The same for an answer that is looked into, which must not be compressed."""
        kept = [(name, value) for name, value in self.fields if name != ENCODINGS]
        return [*kept, (ENCODINGS, b"identity")]

    @property
    def has_body(self) -> bool:
        return any(name in (b"content-length", b"transfer-encoding") for name, _ in self.received)

    async def body(self) -> AsyncIterator[bytes]:
        """The parts of the body. Raises ClientGone."""
        more = not self._complete.is_set()
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            more = message.get("more_body", False)
            if not more:
                self._complete.set()
            if message.get("body"):
                yield message["body"]

    async def gone(self) -> None:
        """Return when the client hangs up after its whole request."""
        await self._complete.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass


class Reply:
    """The answer to one request."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = False

    async def begin(self, status: int, fields: Fields) -> None:
        self.begun = True
        await self._send({"type": "http.response.start", "status": status, "headers": fields})

    async def part(self, body: bytes) -> None:
        if body:
            await self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def end(self) -> None:
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def whole(self, status: int, fields: Fields, body: bytes) -> None:
        """A reply in one piece."""
        await self.begin(status, [*fields, (b"content-length", b"%d" % len(body))])
        await self.part(body)
        await self.end()


def end_to_end(fields: Iterable[tuple[bytes, bytes]], *, changed_body: bool = False) -> Fields:
    """The fields of an answer for the client; those that describe the very bytes go where the body changes."""
    return _of_no_connection(fields, {b"content-length", b"content-encoding"} if changed_body else set())


def _of_no_connection(fields: Iterable[tuple[bytes, bytes]], left_out: set[bytes]) -> Fields:
    found = list(fields)
    named = b",".join(value for name, value in found if name.lower() == b"connection").lower().split(b",")
    left_out |= HOP_BY_HOP | {name.strip() for name in named}
    return [(name, value) for name, value in found if name.lower() not in left_out]
