"""The client's side of stdio: lines on the claimed stdin and stdout, as streams the SDK serves.

Reading is linear in the message size; writing never blocks the event loop. Above: direct.py. Below:
descriptors.py and the SDK's message types.
"""

from __future__ import annotations

import logging
import os
import select
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from gatemini.server.descriptors import Wire

logger = logging.getLogger(__name__)

MAX_LINE_BYTES = 256 * 1024 * 1024
"""Bounds one message from the client; a longer line is dropped with a warning on stderr."""

READ_CHUNK = 256 * 1024
"""Bytes asked for in one read: a pipe holds 64 KiB, a socket may hold more."""

PIPE_BUF = 4096
"""What POSIX promises a writable pipe takes without blocking."""

ReadStream = MemoryObjectReceiveStream[SessionMessage | Exception]
WriteStream = MemoryObjectSendStream[SessionMessage]


@asynccontextmanager
async def serve_wire(wire: Wire) -> AsyncIterator[tuple[ReadStream, WriteStream]]:
    """Streams of messages over `wire`; the read stream ends when the client closes stdin."""
    incoming, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_stream, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as group:
        group.start_soon(_read_lines, wire.stdin, incoming)
        group.start_soon(_write_lines, wire.stdout, outgoing)
        try:
            yield read_stream, write_stream
        finally:
            group.cancel_scope.cancel()
            read_stream.close()
            write_stream.close()


async def _read_lines(fd: int, incoming: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
    parts: list[bytes] = []  # pieces of the line being read, joined once: linear in its size
    size = 0
    async with incoming:
        while True:
            chunk = await _read_some(fd)
            if not chunk:
                if parts:
                    await _deliver(b"".join(parts), incoming)
                return
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                whole = b"".join([*parts, line]) if parts else line
                parts, oversized, size = [], size + len(line) > MAX_LINE_BYTES, 0
                if oversized:
                    logger.warning("dropped a client message of more than %d bytes", MAX_LINE_BYTES)
                else:
                    await _deliver(whole, incoming)
            if rest:
                size += len(rest)
                if size <= MAX_LINE_BYTES:
                    parts.append(rest)
                else:
                    parts = []  # keep counting, keep nothing


async def _deliver(line: bytes, incoming: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
    if not line.strip():
        return
    try:
        message = jsonrpc_message_adapter.validate_json(line.decode("utf-8", "replace"), by_name=False)
    except ValueError as exc:  # pydantic's ValidationError is one: the SDK answers or logs it
        await incoming.send(exc)
    else:
        await incoming.send(SessionMessage(message))


async def _read_some(fd: int) -> bytes:
    """Up to READ_CHUNK bytes as soon as there are any; empty at the end."""
    try:
        await anyio.wait_readable(fd)
    except (OSError, NotImplementedError, ValueError):
        # A regular file or a Windows handle cannot be waited for: let a thread block on it.
        return await anyio.to_thread.run_sync(os.read, fd, READ_CHUNK, abandon_on_cancel=True)
    try:
        return os.read(fd, READ_CHUNK)
    except BlockingIOError:
        return await _read_some(fd)
    except OSError as exc:
        logger.warning("reading from the client failed: %s", exc)
        return b""


async def _write_lines(fd: int, outgoing: MemoryObjectReceiveStream[SessionMessage]) -> None:
    async with outgoing:
        async for item in outgoing:
            line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
            try:
                if len(line) <= PIPE_BUF and _writable_now(fd):
                    os.write(fd, line)
                else:  # the client may be slow to read: a thread may block on it, the loop may not
                    await anyio.to_thread.run_sync(_write_all, fd, line, abandon_on_cancel=True)
            except OSError as exc:
                logger.warning("the client is gone: %s", exc)
                return


def _writable_now(fd: int) -> bool:
    if sys.platform == "win32":
        return False
    poll = select.poll()  # not select(): that one refuses descriptors above 1023
    poll.register(fd, select.POLLOUT)
    return any(events & select.POLLOUT for _, events in poll.poll(0))


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            select.select([], [fd], [])
