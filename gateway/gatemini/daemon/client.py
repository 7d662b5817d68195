"""Send a request of a terminal's command to a running daemon: for its state, or a call of one of the gateway's tools."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from gatemini import __version__
from gatemini.proxy.places import (
    Place,
    PlaceRefused,
    fallback_folder,
    private_folder,
    socket_folder,
    take_lock,
)

ANSWER_SECONDS = 10.0
"""How long a daemon may take to answer; one that loads its configuration answers late."""
LOOK_SECONDS = 0.02
GREETING_SECONDS = 60.0
"""How long a daemon that starts may take to load its configuration."""
CLIENT = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "terminal", "version": __version__},
    "io.modelcontextprotocol/clientCapabilities": {},
}
"""What each request says about its client, in the era without a handshake."""


class Unanswered(Exception):
    """A daemon holds the socket and does not answer; the message says which."""


def ask(
    place: Place,
    command: str,
    *,
    environ: Mapping[str, str] | None = None,
    seconds: float = ANSWER_SECONDS,
    **arguments: Any,
) -> dict[str, Any] | None:
    """The answer of the daemon of this place, None where none runs. Raises Unanswered.

    `environ`: variables for a daemon that starts, as a client brings them.
    """
    sock = _connected(place, seconds)
    if sock is None:
        return None
    with sock:
        try:
            _greet(sock, environ, control=command, arguments=arguments)
            with sock.makefile("rb") as lines:
                line = lines.readline()
            answer = json.loads(line) if line else None
        except (OSError, ValueError) as error:
            raise Unanswered(f"the daemon at {place.sock} does not answer: {error}") from error
    if not isinstance(answer, dict):
        raise Unanswered(f"the daemon at {place.sock} closed the connection without an answer")
    return answer


def call_tool(
    place: Place,
    name: str,
    arguments: dict[str, Any],
    *,
    environ: Mapping[str, str],
    whole: bool,
    on_call: Callable[[dict[str, Any]], None],
) -> dict[str, Any] | None:
    """The MCP result of a tool, by the daemon of this place; None where none runs. Raises Unanswered.

    `whole`: results are not reduced. `on_call` receives each finished call to a backend: tool, outcome, ms.
    """
    sock = _connected(place, GREETING_SECONDS)
    if sock is None:
        return None
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": name, "arguments": arguments, "_meta": CLIENT},
    }
    about = {"cwd": os.getcwd(), "arguments": {"terminal": True, "whole": whole}}
    with sock:
        try:
            _greet(sock, environ, **about)
            with sock.makefile("rb") as lines:
                greeting = json.loads(lines.readline() or b"{}")
                if greeting.get("gatemini") != 1:
                    reason = greeting.get("reason") or "it closed the connection"
                    raise Unanswered(f"the daemon at {place.sock} serves nobody: {reason}")
                sock.settimeout(None)  # the request has its own limit of time
                _send(sock, request)
                return _result(sock, lines, on_call)
        except (OSError, ValueError) as error:
            raise Unanswered(f"the daemon at {place.sock} does not answer: {error}") from error


def _connected(place: Place, seconds: float) -> socket.socket | None:
    """A connection to the daemon of this place, which waits so long for each answer; None where none runs.

    Raises Unanswered.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(seconds)
    try:
        sock.connect(place.sock)
    except OSError as error:
        sock.close()
        if isinstance(error, FileNotFoundError | ConnectionRefusedError):
            return None
        raise Unanswered(f"{place.sock}: {error}") from error
    return sock


def _greet(sock: socket.socket, environ: Mapping[str, str] | None, **about: Any) -> None:
    """Send the first line of a connection; `about` are further members of it."""
    if environ is not None:
        about["environ"] = dict(environ)
    _send(sock, {"gatemini": 1, "version": __version__, "pid": os.getpid(), **about})


def _send(sock: socket.socket, message: dict[str, Any]) -> None:
    sock.sendall(json.dumps(message).encode() + b"\n")


def _result(
    sock: socket.socket, lines: BinaryIO, on_call: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Read until the answer of the only request. Raises Unanswered."""
    for line in lines:
        message = json.loads(line)
        if message.get("gatemini") == "call":
            on_call(message)
        elif message.get("gatemini") == "draining":
            _send(sock, {"gatemini": "held"})
        elif message.get("id") == 1 and "method" not in message:
            _send(sock, {"gatemini": "bye"})
            if "error" in message:
                raise Unanswered(f"the daemon refused the request: {message['error'].get('message')}")
            return dict(message["result"])
    raise Unanswered("the daemon ended while the request was open: it may have been carried out")


def all_places(environ: Mapping[str, str]) -> Iterator[Place]:
    """The places of all daemons of this user that have a socket."""
    folders = [f"/run/user/{os.getuid()}/gatemini", fallback_folder()]
    with suppress(PlaceRefused):
        folders.insert(0, socket_folder(dict(environ))[0])
    for folder in dict.fromkeys(folders):
        if not os.path.isdir(folder):
            continue
        try:
            private_folder(folder)
        except PlaceRefused:
            continue
        for path in sorted(Path(folder).glob("*.sock")):
            yield Place(folder, path.stem)


def ended(place: Place, seconds: float) -> int | None:
    """Wait until no daemon holds the place; a descriptor with its lock, None where one still does."""
    until = time.monotonic() + seconds
    while (lock := take_lock(place.lock)) is None and time.monotonic() < until:
        time.sleep(LOOK_SECONDS)
    return lock
