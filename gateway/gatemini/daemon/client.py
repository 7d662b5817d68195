"""Ask a running daemon something, from a command of the terminal."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

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


class Unanswered(Exception):
    """A daemon holds the socket and does not answer; the message says which."""


def ask(
    place: Place, command: str, *, environ: Mapping[str, str] | None = None, **arguments: Any
) -> dict[str, Any] | None:
    """The answer of the daemon of this place, None where none runs. Raises Unanswered.

    `environ`: variables for a daemon that starts, as a client brings them.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(ANSWER_SECONDS)
        try:
            sock.connect(place.sock)
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        except OSError as error:
            raise Unanswered(f"{place.sock}: {error}") from error
        hello: dict[str, Any] = {
            "gatemini": 1,
            "version": __version__,
            "pid": os.getpid(),
            "control": command,
        }
        if environ is not None:
            hello["environ"] = dict(environ)
        try:
            sock.sendall(json.dumps({**hello, "arguments": arguments}).encode() + b"\n")
            with sock.makefile("rb") as lines:
                line = lines.readline()
            answer = json.loads(line) if line else None
        except (OSError, ValueError) as error:
            raise Unanswered(f"the daemon at {place.sock} does not answer: {error}") from error
    if not isinstance(answer, dict):
        raise Unanswered(f"the daemon at {place.sock} closed the connection without an answer")
    return answer


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
