"""Messages too large to be read on the event loop: read in the compute process, with their large parts as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import anyio.lowlevel
import orjson

from gatemini.backends.wire import Broken, Frame, Piece, decode, id_of
from gatemini.model import Json
from gatemini.processes.workers.compute_process import LARGE_BYTES, compute, decoded
from gatemini.processes.workers.worker_pool import WorkerFailed, WorkerLost

ENDS = 4096
"""Bytes at each end of a message in which its id is searched, when it could not be read."""


BEGINNING = 100
"""Characters of a `JsonText` that are a string."""


class JsonText(str):
    """The beginning of a text that is the JSON of an object or array; `written` is that JSON without white space.

    Only the beginning is a string: decoding tens of megabytes twice would hold the event loop.
    """

    __slots__ = ("_data", "kept", "nulls", "written")

    _data: memoryview
    written: str
    kept: int
    """Integers beyond 2^53 that became strings."""
    nulls: int
    """Numbers without JSON (NaN, Infinity, beyond a double) that became null."""

    @classmethod
    def of(cls, data: memoryview, written: str, kept: int, nulls: int = 0) -> JsonText:
        made = cls(written[:BEGINNING])
        made._data, made.written, made.kept, made.nulls = data, written, kept, nulls
        return made

    def whole(self) -> str:
        """The text as it was sent."""
        return str(self._data, "utf-8", "surrogatepass")


@dataclass(frozen=True, slots=True)
class Written:
    """A large object or array of which only the JSON text is held, without white space.

    `key` is the one member of an object that has no other.
    """

    text: str
    key: str | None = None

    def value(self) -> Any:
        """All of it, as a value."""
        return orjson.loads(self.text)

    def member(self) -> Written | str | None:
        """The value of the one member, where it is text, an object or an array."""
        inner = self.text[len(orjson.dumps(self.key)) + 2 : -1]
        if inner[:1] == '"':
            return str(orjson.loads(inner))
        return Written(inner) if inner[:1] in "{[" else None


async def read_messages(body: bytes) -> list[Piece]:
    """The messages in a body or an event; a large one is read in the compute process."""
    return decode(body) if len(body) <= LARGE_BYTES else await read_large([body])


async def read_large(parts: Sequence[bytes]) -> list[Piece]:
    """The messages in a large line or body, as `wire.decode` gives them.

    Structured content is a `Written` where it is large, and a lone text a `JsonText` where it is JSON.
    """
    try:
        pieces, body = await compute({"op": "message"}, parts)
    except (WorkerLost, WorkerFailed) as error:
        ident = id_of(parts[0][:ENDS], b"".join(parts[-2:])[-ENDS:])
        return [] if ident is None else [Broken(f"the answer could not be read: {error}", ident)]
    found: list[Piece] = []
    for piece in pieces:
        if "broken" in piece:
            found.append(Broken(piece["broken"], piece["id"]))
            continue
        message = orjson.loads(body[slice(*piece["message"])])
        for large in piece["large"]:
            await _put(message, large, body)
        found.append(Frame(message, tuple(piece["notes"]), piece["size"]))
    return found


def in_full(result: Json) -> Json:
    """The result with every `JsonText` and `Written` in it as what it stands for."""
    structured, content = result.get("structuredContent"), result.get("content")
    if isinstance(structured, Written):
        result = {**result, "structuredContent": structured.value()}
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict):
        text = content[0].get("text")
        if isinstance(text, JsonText):
            result = {**result, "content": [{**content[0], "text": text.whole()}]}
    return result


async def _put(message: Any, large: dict[str, Any], body: memoryview) -> None:
    """Put a large part in its place in the message."""
    *path, last = large["at"]
    for key in path:
        message = message[key]
    if large["kind"] == "items":
        message[last] = made = []
        for chunk in large["chunks"]:
            made += orjson.loads(body[slice(*chunk)])
            await anyio.lowlevel.checkpoint()
        return
    data = body[slice(*large["text"])]
    if large["kind"] == "text" and large["json"] is not None:
        written = await decoded(body[slice(*large["json"])])
        message[last] = JsonText.of(data, written, large["kept"], large["nulls"])
        return
    text = await decoded(data)
    if large["kind"] == "text":
        message[last] = text
        return
    message[last] = Written(text, large["key"])
