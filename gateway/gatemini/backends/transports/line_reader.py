"""Read JSON-RPC messages from a byte stream, one a line, in time linear in its size and bounded in memory."""

from __future__ import annotations

from collections.abc import Callable

from gatemini.backends.wire import HEAD_BYTES, Broken, Piece, decode, id_of
from gatemini.processes.workers.compute_process import LARGE_BYTES


class LineReader:
    """Takes chunks of any size and gives messages.

    Keeps at most `max_bytes` of an unfinished line: a longer one is dropped as it arrives and reported once it ends, as a
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
        self._tail = b""
        self.skipped = 0

    def feed(self, chunk: bytes) -> list[Piece]:
        """All messages that `chunk` completes."""
        pieces: list[Piece] = []
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            self._take(chunk[start:end])
            self._finish(pieces)
            start = end + 1
        if start < len(chunk):
            self._take(chunk[start:] if start else chunk)
        return pieces

    def end(self) -> list[Piece]:
        """The messages of the last line, if the stream ended without a newline."""
        pieces: list[Piece] = []
        self._finish(pieces)
        return pieces

    def _take(self, part: bytes) -> None:
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

    def _finish(self, pieces: list[Piece]) -> None:
        if self._dropping is not None:
            head, self._dropping = self._dropping, None
            tail, self._tail = self._tail, b""
            if head.lstrip()[:1] in (b"{", b"["):
                reason = f"the answer is larger than {self._max:,} bytes (max_message_mb)"
                pieces.append(Broken(reason, ident=id_of(head, tail), too_large=True))
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
