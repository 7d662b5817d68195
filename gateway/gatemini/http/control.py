"""The control socket of an HTTP server: what `gatemini status`, `stop` and `approve` ask of it."""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.abc
import orjson

from gatemini.daemon import console
from gatemini.daemon.hello import Hello, read_hello
from gatemini.daemon.listener import Listener, peer_uid
from gatemini.daemon.socket_streams import HELLO_SECONDS, first_line, send_line


class Control:
    """Answers commands of the same user until cancelled."""

    def __init__(
        self,
        listener: Listener,
        status: Callable[[], dict[str, Any]],
        stop: Callable[[bool], float],
        approvals: Callable[[Hello], Awaitable[dict[str, Any]]],
    ) -> None:
        self._listener = listener
        self._status = status
        self._stop = stop
        """Begins the end, at once for True; returns how many seconds it may take."""
        self._approvals = approvals
        """Answers what `gatemini approve` asks."""

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            while True:
                await anyio.wait_readable(self._listener.sock)
                try:
                    sock, _ = self._listener.sock.accept()
                except OSError:
                    await anyio.sleep(0.01)
                    continue
                sock.setblocking(False)
                tasks.start_soon(self._answer, sock)

    async def _answer(self, sock: socket.socket) -> None:
        with sock, anyio.move_on_after(HELLO_SECONDS):
            if peer_uid(sock) != os.getuid():
                return
            hello = read_hello((await first_line(sock))[0])
            if hello is None:
                return
            if not hello.control:
                await _send(sock, {"gatemini": "failed", "reason": "this process serves HTTP, not stdio"})
            elif hello.control == "status":
                await _send(sock, {**self._status(), "socket": self._listener.place.sock})
            elif hello.control == "stop":
                seconds = self._stop(bool(hello.arguments.get("now")))
                await _send(sock, {"ok": True, "pid": os.getpid(), "drain_seconds": seconds})
            elif hello.control in (console.LIST, console.DECIDE):
                await _send(sock, await self._approvals(hello))
            else:
                text = f"an HTTP server does not take the command {hello.control}"
                await _send(sock, {"ok": False, "error": text})


async def _send(sock: socket.socket, answer: dict[str, Any]) -> None:
    await send_line(sock, orjson.dumps(answer, default=str) + b"\n")
