"""The daemon's socket: only its user can connect; it is bound again if its file is deleted, and removed at the end."""

import os
import socket
import time
from contextlib import suppress

from gatemini.proxy.places import Place, private_folder, private_opener, take_lock

BACKLOG = 1024
PEER_BYTES = 12
"""Size of `struct ucred`: process, user and group."""


SPARE_DESCRIPTORS = 8


class SpareDescriptors:
    """Descriptors that are held back, so that a process which has none left can still answer its clients."""

    def __init__(self) -> None:
        self._held: list[int] = []
        self.take()

    def take(self) -> None:
        """Open descriptors until SPARE_DESCRIPTORS are held, or the process can have no more."""
        with suppress(OSError):
            while len(self._held) < SPARE_DESCRIPTORS:
                self._held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    def release(self) -> None:
        """Close them, so that something else can use them."""
        while self._held:
            os.close(self._held.pop())


class LockLost(Exception):
    """Another daemon holds the lock of this place."""


class Listener:
    """The listening socket of one place, and the lock that is held for life."""

    def __init__(self, place: Place, lock: int) -> None:
        self.place = place
        self._locks = [lock]
        self._facts: tuple[int, int] | None = None
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def open(self) -> None:
        """Bind and listen, and leave the process id. Raises OSError."""
        fresh = listening_at(self.place.sock, BACKLOG)
        self.sock.close()
        self.sock = fresh
        self._facts = _facts(self.place.sock)
        with open(self.place.pid, "w", encoding="ascii", opener=private_opener) as file:
            file.write(f"{os.getpid()} {time.time():.2f}\n")

    def missing(self) -> bool:
        """Whether clients can no longer find the socket."""
        return _facts(self.place.sock) != self._facts

    def repair(self) -> None:
        """Bind anew after the socket, or the whole folder, was deleted. Raises LockLost, OSError or PlaceRefused."""
        private_folder(self.place.folder)
        if _facts(self.place.lock) != _facts(self._locks[-1]):
            lock = take_lock(self.place.lock)
            if lock is None:
                raise LockLost
            self._locks.append(lock)
        self.open()

    def close(self) -> None:
        """Stop accepting; remove the socket and the process id where they are still ours."""
        self.sock.close()
        if self._facts is not None and not self.missing():
            for path in (self.place.sock, self.place.pid):
                with suppress(OSError):
                    os.unlink(path)
        self._facts = None


def listening_at(path: str, backlog: int) -> socket.socket:
    """A socket that listens there for this user alone; a file of that name is replaced. Raises OSError."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        with suppress(FileNotFoundError):
            os.unlink(path)
        listening.bind(path)
    finally:
        os.umask(before)
    listening.listen(backlog)
    listening.setblocking(False)
    return listening


def peer_uid(sock: socket.socket) -> int:
    """The user of the process at the other end; our own where the system has no way to ask."""
    if not hasattr(socket, "SO_PEERCRED"):
        return os.getuid()
    return int.from_bytes(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER_BYTES)[4:8], "little")


def _facts(path: str | int) -> tuple[int, int] | None:
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino
