"""Commands of the terminal on a Unix socket: each connection has one, and gets one line."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import orjson

from gatemini.daemon.hello import Hello
from gatemini.daemon.socket_streams import HELLO_SECONDS, read_greeting

MOST_COMMANDS = 8
"""Commands that are answered at once; further ones wait."""
ACCEPT_PAUSE = 0.01
"""After a connection that could not be accepted."""

Answers = Callable[[Hello], Awaitable[dict[str, Any]]]


async def serve_commands(listening: socket.socket, answer: Answers) -> None:
    """Answer the commands of this user until cancelled, for a process that serves its clients elsewhere."""
    places = anyio.Semaphore(MOST_COMMANDS)

    async def serve_one(sock: socket.socket) -> None:
        try:
            with sock, anyio.move_on_after(HELLO_SECONDS):
                hello, _ = await read_greeting(sock)
                if hello is not None:
                    await send_answer(sock, await answer(hello))
        finally:
            places.release()

    async with anyio.create_task_group() as tasks:
        while True:
            await anyio.wait_readable(listening)
            try:
                sock, _ = listening.accept()
            except OSError:
                await anyio.sleep(ACCEPT_PAUSE)
                continue
            sock.setblocking(False)
            await places.acquire()
            tasks.start_soon(serve_one, sock)


async def send_answer(sock: socket.socket, answer: dict[str, Any]) -> None:
    """Write the answer to a command as one line; a client that has gone gets nothing."""
    view = memoryview(orjson.dumps(answer, default=str) + b"\n")
    while view:
        await anyio.wait_writable(sock)
        try:
            view = view[sock.send(view) :]
        except BlockingIOError:
            continue
        except OSError:
            return
