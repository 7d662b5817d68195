"""Read server-sent events from a byte stream: linear in its size, bounded, any line ending, any split.

Not httpx-sse, because an event may have tens of megabytes and must not be decoded as text first (`wire.py` repairs
invalid UTF-8).
"""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO

DECIDED = len(b"data: ")
"""The number of bytes of a line after which it is known whether it is data."""
BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `data` is None when it was larger than the limit."""

    name: str
    data: bytes | None
    ident: str | None = None


class EventReader:
    """Takes chunks, gives whole events; `retry_ms` and `last_id` are the latest of the stream."""

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._line: list[bytes] = []
        self._line_size = 0
        self._in_data = False  # the unfinished line is data, and its start is in `_data`
        self._data = BytesIO()
        self._has_data = False
        self._size = 0
        self._name = ""
        self._too_large = False
        self._skip_newline = False
        self._begins, self._head = True, b""
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
        if self._begins:
            head = self._head + chunk
            if len(head) < len(BOM) and BOM.startswith(head):
                self._head = head
                return []
            self._begins, chunk = False, head.removeprefix(BOM)
        if self._skip_newline and chunk[:1] == b"\n":
            chunk = chunk[1:]
        if not chunk:
            return []
        self._skip_newline = chunk[-1:] == b"\r"
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        events: list[Event] = []
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            self._take(part)
            line, size = b"".join(self._line), self._line_size
            self._line, self._line_size = [], 0
            if line:
                self._field(line)
            elif not size and (event := self._dispatch()) is not None:
                events.append(event)
            self._in_data = False
        self._take(rest)
        return events

    def _take(self, part: bytes) -> None:
        decided = self._line_size >= DECIDED
        self._line_size += len(part)
        if self._in_data:
            self._add(part)
        elif self._line_size > self._max + DECIDED:
            self._too_large, self._line = True, []
        elif part:
            self._line.append(part)
            if self._line_size >= DECIDED and not decided:
                self._begin_data()

    def _begin_data(self) -> None:
        """Add a data line as it arrives, so that nothing is copied on the event loop at its end."""
        head = b"".join(self._line)
        if head.startswith(b"data:"):
            head = head.removeprefix(b"data:").removeprefix(b" ")
        elif head[:1] not in (b"{", b"["):  # some servers leave out `data:` before a message
            return
        self._line, self._in_data = [], True
        self._start_data(head)

    def _start_data(self, value: bytes) -> None:
        if self._has_data:
            self._add(b"\n")
        self._has_data = True
        self._add(value)

    def _add(self, value: bytes) -> None:
        self._size += len(value)
        if self._size > self._max:
            self._too_large, self._data = True, BytesIO()
        elif not self._too_large and value:
            self._data.write(value)

    def _field(self, line: bytes) -> None:
        if line[:1] in (b"{", b"["):
            line = b"data:" + line
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._start_data(value)
        elif name == b"event":
            self._name = value.decode("utf-8", "replace")
        elif name == b"id" and b"\x00" not in value:
            self._ident = value.decode("latin-1")
        elif name == b"retry" and value.isdigit() and len(value) < 10:
            self.retry_ms = int(value)

    def _dispatch(self) -> Event | None:
        data, name, too_large, had = self._data, self._name, self._too_large, self._has_data
        self._data, self._size, self._name = BytesIO(), 0, ""
        self._too_large = self._has_data = False
        self.last_id = self._ident
        if not had and not too_large:
            return None
        return Event(name or "message", None if too_large else data.getvalue(), self.last_id)
