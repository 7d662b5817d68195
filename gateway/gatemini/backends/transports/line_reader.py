"""Read JSON-RPC messages from a byte stream, one a line, in time linear in its size and bounded in memory."""

from __future__ import annotations

from collections.abc import Callable

from gatemini.backends.wire import HEAD_BYTES, Broken, Piece, decode, id_of
from gatemini.processes.compute import LARGE_BYTES

JUNK_SHOWN = 20
"""Lines without a message that are logged, of those that come together."""


class LineReader:
    """Takes chunks of any size and gives messages.

    Keeps at most `max_bytes` of an unfinished line: a longer one is dropped as it arrives and reported once, as a
    `Broken` with `too_large`. `skipped` counts lines that were no JSON-RPC. A line of more than `LARGE_BYTES` is passed
    to `on_large`, in parts, to be decoded elsewhere.
    """

    def __init__(
        self,
        max_bytes: int,
        *,
        on_junk: Callable[[bytes], None] | None = None,
        on_large: Callable[[list[bytes]], None] | None = None,
    ) -> None:
        self._max = max_bytes
        self._on_junk = on_junk
        self._on_large = on_large
        self._parts: list[bytes] = []
        self._size = 0
        self._dropping: bytes | None = None  # head of the over-long line being dropped
        self._reported = False
        self._tail = b""
        self.skipped = 0

    def feed(self, chunk: bytes) -> list[Piece]:
        """All messages that `chunk` completes."""
        pieces: list[Piece] = []
        start = self._pass_over(chunk)
        while (end := chunk.find(b"\n", start)) >= 0:
            self._take(chunk[start:end], pieces)
            self._finish(pieces)
            start = end + 1
        if start < len(chunk):
            self._take(chunk[start:] if start else chunk, pieces)
        return pieces

    def _pass_over(self, chunk: bytes) -> int:
        """Count whole lines without a bracket, which cannot be messages, at once; the position after them."""
        if self._parts or self._dropping is not None or b"{" in chunk or b"[" in chunk:
            return 0
        end = chunk.rfind(b"\n") + 1
        lines = [line for line in chunk[:end].split(b"\n") if line.strip()]
        for line in lines[:JUNK_SHOWN]:
            self.skip(line)
        self.skipped += max(0, len(lines) - JUNK_SHOWN)
        return end

    def end(self) -> list[Piece]:
        """The messages of the last line, if the stream ended without a newline."""
        pieces: list[Piece] = []
        self._finish(pieces)
        return pieces

    def _take(self, part: bytes, pieces: list[Piece]) -> None:
        if self._dropping is not None:
            self._tail = (self._tail + part[-HEAD_BYTES:])[-HEAD_BYTES:]
            return
        self._parts.append(part)
        self._size += len(part)
        if self._size <= self._max:
            return
        line = b"".join(self._parts)
        self._parts, self._size = [], 0
        self._dropping, self._tail = line[:HEAD_BYTES], line[-HEAD_BYTES:]
        # With the id at the start the call can fail now, and need not wait for the end of the line.
        ident = id_of(self._dropping)
        self._reported = ident is not None
        if self._reported:
            pieces.append(self._oversized(ident))

    def _finish(self, pieces: list[Piece]) -> None:
        if self._dropping is not None:
            head, self._dropping = self._dropping, None
            tail, self._tail = self._tail, b""
            if self._reported:
                return
            if head.lstrip()[:1] in (b"{", b"["):
                pieces.append(self._oversized(id_of(b"", tail)))
            else:
                self.skip(head)
            return
        if not self._parts:
            return
        parts, size = self._parts, self._size
        self._parts, self._size = [], 0
        if size <= LARGE_BYTES and len(parts) > 1:
            parts = [b"".join(parts)]
        if size > LARGE_BYTES and self._on_large is not None:
            self._on_large(parts)
            return
        pieces.extend(self.read(parts))

    def read(self, parts: list[bytes]) -> list[Piece]:
        """The messages of one line."""
        line = b"".join(parts)
        if not line or line.isspace():
            return []
        decoded = decode(line)
        if not decoded:
            self.skip(line)
        return decoded

    def skip(self, line: bytes) -> None:
        """Count a line without a message."""
        self.skipped += 1
        if self._on_junk is not None:
            self._on_junk(line)

    def _oversized(self, ident: int | str | None) -> Broken:
        return Broken(
            f"the answer is larger than {self._max:,} bytes (max_message_mb)", ident=ident, too_large=True
        )
