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

_END = re.compile(rb"(?>\r\n|\n|\r(?!\Z)){2}")
_END_BYTES = 4
"""Of the longest end of an event."""
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
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[Event]:
        """The events that are complete now."""
        searched = max(0, len(self._rest) - _END_BYTES + 1)
        self._rest += data
        events, begin = [], 0
        for end in _END.finditer(self._rest, searched):
            events.append(Event(bytes(self._rest[begin : end.end()])))
            begin = end.end()
        del self._rest[:begin]
        return events

    def end(self) -> Iterator[Event]:
        """What the stream ended with, without its empty line."""
        if self._rest:
            yield Event(bytes(self._rest))
        self._rest.clear()


class ArrayOfEvents:
    """Writes the values of events as one JSON array: Gemini's streams for clients that want no server-sent events."""

    def __init__(self) -> None:
        self._splitter = EventSplitter()
        self._begun = False

    def feed(self, data: bytes) -> bytes:
        """The part of the array for these bytes of a stream of events."""
        return b"".join(map(self._item, self._splitter.feed(data)))

    def end(self) -> bytes:
        """The end of the array."""
        last = b"".join(map(self._item, self._splitter.end()))
        return last + (b"]" if self._begun else b"[]")

    def _item(self, event: Event) -> bytes:
        if event.value is None:
            return b""
        before = b",\r\n" if self._begun else b"["
        self._begun = True
        return before + compact(event.value)


def written(value: Any, name: str | None = None) -> bytes:
    """An event with this JSON as its data."""
    head = b"event: %b\n" % name.encode() if name else b""
    return b"%bdata: %b\n\n" % (head, compact(value))


def compact(value: Any) -> bytes:
    """JSON without white space, always valid UTF-8."""
    return encode(dump(value))
