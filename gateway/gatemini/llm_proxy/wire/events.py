"""Server-sent events of a stream, each with its very bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gatemini.output.json.json_text import dump
from gatemini.text.utf8 import encode

_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LINE = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True)
class Event:
    """One event with the empty line that ends it."""

    raw: bytes

    @cached_property
    def value(self) -> Any:
        """The JSON of its data; None where there is none (comments, `[DONE]`)."""
        lines = [line for line in _LINE.split(self.raw) if line.startswith(b"data:")]
        try:
            return json.loads(b"\n".join(line[5:] for line in lines)) if lines else None
        except ValueError:
            return None


class EventSplitter:
    """Splits the bytes of a stream into events."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Event]:
        """The events that are complete now."""
        self._rest += data
        begin = 0
        for end in _END.finditer(self._rest):
            yield Event(self._rest[begin : end.end()])
            begin = end.end()
        self._rest = self._rest[begin:]

    def end(self) -> Iterator[Event]:
        """What the stream ended with, without its empty line."""
        if self._rest:
            yield Event(self._rest)
        self._rest = b""


def written(value: Any, name: str | None = None) -> bytes:
    """An event with this JSON as its data."""
    head = b"event: %b\n" % name.encode() if name else b""
    return b"%bdata: %b\n\n" % (head, compact(value))


def compact(value: Any) -> bytes:
    """JSON without white space, always valid UTF-8."""
    return encode(dump(value))
