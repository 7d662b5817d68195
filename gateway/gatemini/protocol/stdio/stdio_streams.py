"""The client's side of stdio: lines on the claimed stdin and stdout, as streams for the SDK.

The SDK's own transport is not used: it reads with one thread per line and writes blocking. Here reading is linear in
the message size, writing never blocks the event loop, and the shortcut sees each line first.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Protocol, Self

import anyio
import anyio.to_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from gatemini.protocol.stdio.descriptors import Wire
from gatemini.protocol.stdio.line_writer import LineWriter
from gatemini.protocol.stdio.shortcut import CANCELLED, Shortcut
from gatemini.proxy.lines import look

logger = logging.getLogger(__name__)

MAX_LINE_BYTES = 256 * 1024 * 1024
"""Bounds one message from the client; a longer line is dropped with a warning on stderr."""

READ_CHUNK = 256 * 1024
"""Bytes of one read: a pipe holds 64 KiB, a socket may hold more."""

LAST_ANSWERS_SECONDS = 1.0
"""Bounds the wait for answers once the client has closed stdin: clients end a server that is there two seconds later."""

LISTEN = "subscriptions/listen"
"""A request that stays open as long as the connection."""

BOM = "\ufeff"
"""Some writers begin their stream, or each line, with a byte order mark."""
NOTIFICATION = "notifications/"
"""Prefix of the method of every notification."""

ReadStream = MemoryObjectReceiveStream[SessionMessage | Exception]


class Receives(Protocol):
    """Takes the messages of a client."""

    async def send(self, item: SessionMessage, /) -> None: ...


class LineSplitter:
    """Splits what a client writes into lines; one that is too long is dropped with a warning."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []  # of the line being read, joined once: linear in its size
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that are complete now."""
        *ends, rest = chunk.split(b"\n")
        lines: list[bytes] = []
        for end in ends:
            if self._size + len(end) > MAX_LINE_BYTES:
                logger.warning("dropped a client message of more than %d bytes", MAX_LINE_BYTES)
            else:
                lines.append(b"".join([*self._parts, end]) if self._parts else end)
            self._parts, self._size = [], 0
        self._size += len(rest)
        if self._size > MAX_LINE_BYTES:
            self._parts = []  # count the rest of the line, keep nothing
        elif rest:
            self._parts.append(rest)
        return lines

    @property
    def rest(self) -> bytes:
        """The beginning of a line that is not complete."""
        return b"".join(self._parts)


class OpenRequests:
    """Messages on their way to the SDK; `open` are the ids of requests that it has not answered."""

    def __init__(self, stream: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        self._stream = stream
        self.open: set[str | int | None] = set()

    async def send(self, item: SessionMessage, /) -> None:
        message = item.message
        if isinstance(message, JSONRPCRequest) and message.method != LISTEN:
            self.open.add(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method == CANCELLED:
            ident = (message.params or {}).get("requestId")
            if isinstance(ident, str | int):  # anything else is passed on, and means no request
                self.open.discard(ident)
        await self._stream.send(item)


class SdkLines:
    """A `LineWriter` as the stream that the SDK writes its messages to."""

    def __init__(self, lines: LineWriter, requests: OpenRequests | None = None) -> None:
        self._lines = lines
        self._requests = requests

    async def send(self, item: SessionMessage, /) -> None:
        if self._lines.gone:
            raise anyio.BrokenResourceError
        if self._requests is not None and isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self._requests.open.discard(item.message.id)
        line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        await self._lines.send(line)

    async def aclose(self) -> None:
        """Keep the descriptor open: it belongs to the process."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        return None


@asynccontextmanager
async def serve_wire(wire: Wire, shortcut: Shortcut) -> AsyncIterator[tuple[ReadStream, SdkLines]]:
    """Yield the streams of messages that the `shortcut` does not serve; reading ends when the client closes stdin or
    stdout.
    """
    incoming, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    lines = LineWriter(wire.stdout)
    requests = OpenRequests(incoming)
    async with anyio.create_task_group() as group:
        shortcut.attach(group, lines)
        reading = anyio.CancelScope()
        group.start_soon(_read_lines, wire.stdin, shortcut, incoming, requests, lines, reading)
        group.start_soon(_watch, lines, reading)
        try:
            yield read_stream, SdkLines(lines, requests)
        finally:
            group.cancel_scope.cancel()
            read_stream.close()


async def _watch(lines: LineWriter, reading: anyio.CancelScope) -> None:
    """End reading when the client stops reading, even where another process keeps stdin open."""
    await lines.lost.wait()
    reading.cancel()


async def _read_lines(
    fd: int,
    shortcut: Shortcut,
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
    requests: OpenRequests,
    answers: LineWriter,
    reading: anyio.CancelScope,
) -> None:
    splitter = LineSplitter()
    with reading, incoming:
        while chunk := await _read_some(fd):
            for line in splitter.feed(chunk):
                if not shortcut.takes(line):
                    await deliver(line, requests, answers)
        if rest := splitter.rest:
            await deliver(rest, requests, answers)
        with anyio.move_on_after(LAST_ANSWERS_SECONDS):
            while requests.open or shortcut.in_flight:  # noqa: ASYNC110 - two owners of requests, once in a process
                await anyio.sleep(0.01)
            await answers.flushed()


async def deliver(line: bytes, incoming: Receives, answers: LineWriter) -> None:
    """Pass a message on; refuse an invalid one where it has an id, so that the client does not wait for an answer."""
    text = line.decode("utf-8", "replace").lstrip(f"{BOM} \t\r")
    if not text:
        return
    try:
        message = jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValueError:  # pydantic's ValidationError is one
        await _deliver_unusual(text, incoming, answers)
        return
    if isinstance(message, JSONRPCNotification) and not message.method.startswith(NOTIFICATION):
        # A request whose id is null or fractional, which the SDK takes for a notification.
        logger.warning("a request without a valid id: %.200r", text)
        await answers.send(_refusal(None, "the id of a request is a string or an integer"))
        return
    await incoming.send(SessionMessage(message))


async def _deliver_unusual(text: str, incoming: Receives, answers: LineWriter) -> None:
    """Pass on arrays of messages (revision 2025-03-26) and text with lone surrogates; refuse anything else."""
    try:
        parsed = json.loads(text)
        if isinstance(parsed, list):
            for message in parsed:
                await deliver(json.dumps(message).encode(), incoming, answers)
            return
        written = json.dumps(parsed, ensure_ascii=False)
        # Some clients cut a text inside a character: half of a surrogate pair is left.
        whole = written.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    except (ValueError, RecursionError) as exc:
        logger.warning("not JSON: %.200r", text)
        await _refuse_unreadable(text, isinstance(exc, RecursionError), incoming, answers)
        return
    try:
        await incoming.send(SessionMessage(jsonrpc_message_adapter.validate_json(whole, by_name=False)))
    except ValueError:
        await _refuse(parsed, incoming, answers)


async def _refuse_unreadable(text: str, deep: bool, incoming: Receives, answers: LineWriter) -> None:
    """Answer a line that cannot be parsed, under its id where its beginning or end tells that."""
    found = next(iter(look(text.encode("utf-8", "replace"))), {})
    ident = found.get("id")
    if not isinstance(ident, str | int) or isinstance(ident, bool):
        ident = None
    reason = "the line is JSON that is nested too deeply" if deep else "the line is not valid JSON"
    if ident is not None and "method" not in found:  # the beginning of an answer
        error = ErrorData(code=PARSE_ERROR, message=reason)
        await incoming.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=ident, error=error)))
    else:
        await answers.send(_refusal(ident, reason, PARSE_ERROR))


async def _refuse(parsed: Any, incoming: Receives, answers: LineWriter) -> None:
    logger.warning("not a JSON-RPC message: %.200r", parsed)
    ident = parsed.get("id") if isinstance(parsed, dict) else None
    if not isinstance(ident, str | int) or isinstance(ident, bool):
        return
    if "method" in parsed:
        await answers.send(_refusal(ident, "not a valid JSON-RPC 2.0 request"))
    elif "result" in parsed or "error" in parsed:
        # The sender of the request learns at once that no answer will come.
        text = "the client's answer is no valid JSON-RPC 2.0 response"
        error = ErrorData(code=INVALID_REQUEST, message=text)
        await incoming.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=ident, error=error)))


def _refusal(ident: str | int | None, message: str, code: int = INVALID_REQUEST) -> bytes:
    error = {"code": code, "message": message}
    return json.dumps({"jsonrpc": "2.0", "id": ident, "error": error}).encode() + b"\n"


async def _read_some(fd: int) -> bytes:
    """Return up to READ_CHUNK bytes as soon as there are any; empty at the end."""
    try:
        await anyio.wait_readable(fd)
    except (OSError, NotImplementedError, ValueError):
        # A regular file or a Windows handle cannot be waited for: a thread blocks on it.
        return await anyio.to_thread.run_sync(os.read, fd, READ_CHUNK, abandon_on_cancel=True)
    try:
        return os.read(fd, READ_CHUNK)
    except BlockingIOError:
        return await _read_some(fd)
    except OSError as exc:
        logger.warning("reading from the client failed: %s", exc)
        return b""
