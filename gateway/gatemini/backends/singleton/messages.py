"""The messages about a singleton between the replica that runs it and another one; large ones lie in the store."""

from __future__ import annotations

import re
import secrets
from typing import Any, Literal

import msgspec
import orjson

from gatemini.backends.calls.large_messages import JsonText, Written, in_full
from gatemini.backends.wire import encode
from gatemini.errors import BackendError, BackendProtocol, StateUnavailable
from gatemini.model import Json
from gatemini.state.replicas.peers import Peers

TO_OWNER, FROM_OWNER = "to singleton", "from singleton"
"""Kinds of peer messages."""
INLINE_BYTES = 16 << 10
"""A larger message is a value of its own, which the receiver deletes: an inbox keeps its last messages for a minute."""
KEPT_SECONDS = 60.0
_REQUEST = re.compile(rb'\{"jsonrpc":"2\.0","id":(\d+),"method":')


class ToOwner(msgspec.Struct, array_like=True):
    """A JSON-RPC message to a backend; without one, the connection of the sender has ended."""

    backend: str
    life: str
    """The lease under which the backend was started: a message for an earlier one is refused."""
    message: bytes = b""


class FromOwner(msgspec.Struct, array_like=True):
    """What the replica that runs a backend sends to another one.

    `message`: a JSON-RPC message of the backend. `failed`: the request `ident` has no answer, and `message` is why.
    `leaves`: the backend is about to end, after the open calls. `ended`: it has ended. `lost`: only the connection has.
    """

    kind: Literal["message", "failed", "leaves", "ended", "lost"]
    ident: int = 0
    message: bytes = b""
    notes: tuple[str, ...] = ()
    size: int = 0
    """Bytes on the wire of the backend."""


class Failure(msgspec.Struct, array_like=True):
    """A BackendError, as it is sent to another replica."""

    code: str
    message: str
    sent: bool
    hint: str | None
    details: dict[str, Any]
    rpc_code: int | str | None = None
    rpc_data: Any = None

    @classmethod
    def of(cls, error: BackendError) -> Failure:
        rpc = (error.rpc_code, error.rpc_data) if isinstance(error, BackendProtocol) else ()
        return cls(error.code, error.message, error.sent, error.hint, error.details, *rpc)

    @property
    def written(self) -> bytes:
        return msgspec.json.encode(self)

    @property
    def error(self) -> BackendError:
        if self.code == BackendProtocol.code:
            return BackendProtocol(
                self.message,
                rpc_code=self.rpc_code,
                rpc_data=self.rpc_data,
                sent=self.sent,
                hint=self.hint,
                details=self.details,
            )
        kind = _ERRORS.get(self.code, BackendError)
        return kind(self.message, sent=self.sent, hint=self.hint, details=self.details)


_ERRORS = {kind.code: kind for kind in BackendError.__subclasses__()}


def request_of(message: bytes) -> int:
    """Return the id of a request as a conversation writes it; 0, which none has, for an answer or a notification."""
    found = _REQUEST.match(message)
    return int(found[1]) if found is not None else 0


def answer(ident: object, result: Any) -> bytes:
    """Return the JSON-RPC answer with a result; the large parts of it that are JSON text already are not read again."""
    message = {"jsonrpc": "2.0", "id": ident, "result": result}
    if not isinstance(result, dict):
        return encode(message)
    try:
        return orjson.dumps({**message, "result": _with_fragments(result)})
    except TypeError:  # nested deeper than orjson writes
        return encode({**message, "result": in_full(result)})


def _with_fragments(result: Json) -> Json:
    structured, content = result.get("structuredContent"), result.get("content")
    if isinstance(structured, Written):
        result = {**result, "structuredContent": orjson.Fragment(structured.text)}
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict):
        text = content[0].get("text")
        if isinstance(text, JsonText):
            result = {**result, "content": [{**content[0], "text": text.whole()}]}
    return result


async def send(peers: Peers, to: str, kind: str, link: str, message: ToOwner | FromOwner) -> None:
    """Send a message about the connection `link` to another replica. Raises StateUnavailable."""
    if len(message.message) > INLINE_BYTES:
        key = f"relayed:{secrets.token_hex(16)}"
        await peers.store.put(key, message.message, KEPT_SECONDS)
        message = msgspec.structs.replace(message, message=b"@" + key.encode())
    elif message.message:
        message = msgspec.structs.replace(message, message=b"=" + message.message)
    await peers.send(to, kind, link, msgspec.msgpack.encode(message))


async def body(peers: Peers, message: ToOwner | FromOwner) -> bytes:
    """Return the content of a message that has arrived. Raises StateUnavailable, also where it is gone."""
    if message.message[:1] != b"@":
        return message.message[1:]
    found = await peers.store.take(message.message[1:].decode())
    if found is None:
        raise StateUnavailable("a message of another replica has expired in the state store")
    return found
