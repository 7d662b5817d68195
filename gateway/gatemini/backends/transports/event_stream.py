"""Read server-sent events from a byte stream: linear in its size, bounded, any split.

Not httpx-sse, because an event may have tens of megabytes and must not be decoded as text first (`wire.py` repairs
invalid UTF-8). Blanks around JSON do not matter, so a blank or a carriage return around data stays with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO

BOM = b"\xef\xbb\xbf"
DATA = b"data:"
FIELD_BYTES = 8192
"""Bytes of a line that are kept if it is no data; the rest, of a long comment, is dropped."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `data` is None when it was larger than the limit."""

    name: str
    data: bytes | None


class EventReader:
    """Takes chunks, gives whole events; `retry_ms` and `last_id` are the latest of the stream."""

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._line = b""
        self._in_data = False
        """Whether the unfinished line is data; its start is in `_data` then, so that nothing is copied at its end."""
        self._data = BytesIO()
        self._too_large = False
        self._name = ""
        self._ident: str | None = None
        self.last_id: str | None = None
        self.retry_ms: int | None = None

    def end(self) -> list[Event]:
        """The last event of a stream that ended without an empty line; it may be cut off."""
        before = self.last_id
        events = self.feed(b"\n\n")
        self._ident = self.last_id = before
        return events

    def feed(self, chunk: bytes) -> list[Event]:
        """All events that `chunk` completes."""
        events: list[Event] = []
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            self._take(part)
            line, self._line = self._line.removesuffix(b"\r"), b""
            if self._in_data:
                self._in_data = False
            elif line:
                self._field(line)
            elif (event := self._dispatch()) is not None:
                events.append(event)
        self._take(rest)
        return events

    def _take(self, part: bytes) -> None:
        """Take the next part of a line."""
        if self._in_data:
            self._add(part)
            return
        line = (self._line + part).removeprefix(BOM)
        bare = line[:1] in (b"{", b"[")  # some servers leave out `data:` before a message
        if not bare and not line.startswith(DATA):
            self._line = line[:FIELD_BYTES]
            return
        self._line, self._in_data = b"", True
        if self._data.tell():
            self._add(b"\n")
        self._add(line if bare else line[len(DATA) :])

    def _add(self, value: bytes) -> None:
        if self._data.tell() + len(value) > self._max:
            self._too_large = True
        if not self._too_large:
            self._data.write(value)

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"event":
            self._name = value.decode("utf-8", "replace")
        elif name == b"id" and b"\x00" not in value:
            self._ident = value.decode("latin-1")
        elif name == b"retry" and value.isdigit() and len(value) < 10:
            self.retry_ms = int(value)

    def _dispatch(self) -> Event | None:
        data, name, too_large = self._data, self._name or "message", self._too_large
        self._data, self._name, self._too_large = BytesIO(), "", False
        self.last_id = self._ident
        if too_large:
            return Event(name, None)
        return Event(name, data.getvalue()) if data.tell() else None
