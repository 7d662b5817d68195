"""Messages too large to be read on the event loop: read in the compute process, with their large parts as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import anyio
import orjson

from gatemini.backends.wire import Broken, Frame, Piece, id_of
from gatemini.processes.compute import compute
from gatemini.processes.pool import WorkerFailed, WorkerLost

ENDS = 4096
"""Bytes at each end of a message in which its id is searched, when it could not be read."""


class JsonText(str):
    """A text that is the JSON of an object or array; `written` is that JSON as JavaScript writes it."""

    __slots__ = ("kept", "written")

    written: str
    kept: int
    """Integers beyond 2^53 that became strings."""

    @classmethod
    def of(cls, text: str, written: str, kept: int) -> JsonText:
        made = cls(text)
        made.written, made.kept = written, kept
        return made


@dataclass(frozen=True, slots=True)
class Written:
    """A large object or array of which only the text is held, as JavaScript writes it.

    `sample` is its beginning as a value; `cut` are the containers and strings in it that go on.
    """

    text: str
    sample: Any
    cut: Sequence[Any] = ()

    def value(self) -> Any:
        """All of it, as a value."""
        return orjson.loads(self.text)

    def only(self, key: str) -> Written | str | None:
        """What is under this key where there is no other; else None."""
        if not isinstance(self.sample, dict) or self.sample.keys() != {key} or self.goes_on(self.sample):
            return None
        inner = self.text[len(orjson.dumps(key)) + 2 : -1]
        if inner[:1] == '"':
            return str(orjson.loads(inner))
        return Written(inner, self.sample[key], self.cut) if inner[:1] in "{[" else None

    def goes_on(self, part: Any) -> bool:
        """Whether there is more of this part of `sample` than it shows."""
        return any(part is one for one in self.cut)


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


async def json_text(text: str) -> str:
    """The text, as a `JsonText` if it is JSON; for results that came over no wire."""
    try:
        header, body = await compute({"op": "text"}, [text.encode("utf-8", "surrogatepass")])
    except (WorkerLost, WorkerFailed):
        return text
    return _json_text(text, header, body)


def _json_text(text: str, large: dict[str, Any], body: memoryview) -> str:
    if large["json"] is None:
        return text
    return JsonText.of(text, str(body[slice(*large["json"])], "utf-8"), large["kept"])


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
    text = str(body[slice(*large["text"])], "utf-8")
    if large["kind"] == "text":
        message[last] = _json_text(text, large, body)
        return
    sample = large["sample"]
    cut = []
    for way in large["cut"]:
        part = sample
        for key in way:
            part = part[key]
        cut.append(part)
    message[last] = Written(text, sample, cut)
