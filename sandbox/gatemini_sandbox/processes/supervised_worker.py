"""Supervise one worker from the gateway: a sandbox process behind a socket, or a worker on threads of this process.

Everything here runs on the event loop but `make_ready`, which blocks. A process that ends, lies, or does not end a
chain it was to drop is killed; each of its chains then ends with WorkerLost's text.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Literal, Protocol

import anyio.to_thread

from gatemini_sandbox.errors import (
    GuestFault,
    GuestMissing,
    GuestTampered,
    HostExhausted,
    SandboxError,
    WorkerLost,
)
from gatemini_sandbox.messages import (
    Answer,
    Checked,
    Drop,
    Dropped,
    Frames,
    Ready,
    Refused,
    Request,
    Settings,
    answer_of,
    frame_size,
    pack,
)
from gatemini_sandbox.processes import spawn

logger = logging.getLogger(__name__)

Lane = Literal["small", "large"]
"""Kinds of processes: for small code, and for code that takes long to parse."""
START_SECONDS = 60.0
"""A process' start: a second of compiling without a cache, on a loaded machine."""
STOP_SECONDS = 8.0
"""How long a dropped chain may go on before its process is killed. A guest ends within an epoch tick (0.01 s), a
parser within its 5 s; the rest is a loaded machine."""
LATE_SECONDS = 0.5
"""From here on a process that has not stopped a dropped chain gets no new ones."""
READ_BYTES = 1 << 18
GONE = "the sandbox process of this chain ended"


class Listener(Protocol):
    """A chain's end of its session (host.Session)."""

    def answered(self, answer: Answer) -> None:
        """Raises GuestFault for an answer that cannot be."""
        ...

    def lost(self, text: str, *, unread: bool) -> None:
        """The process has ended; `unread`: before it had read what was sent last."""
        ...


class SupervisedWorker:
    """One worker with the sessions that are open in it."""

    def __init__(self, settings: Settings, lane: Lane, on_change: Callable[[SupervisedWorker], None]) -> None:
        self.settings = settings
        self.lane = lane
        self.ready = self.gone = False
        self.confinement: list[str] = []
        self.cache_problem = ""
        self._on_change = on_change  # called when it is lost, or when a session of it has ended
        self._sessions: dict[int, Listener] = {}
        self._dropping: dict[int, asyncio.TimerHandle | None] = {}
        self._starting = threading.Lock()
        self._failure: SandboxError | None = (
            None  # what kept it from starting, for the sessions that waited for it
        )

    @property
    def guests(self) -> int:
        return len(self._sessions) + len(self._dropping)

    @property
    def late(self) -> bool:
        """Whether a dropped chain should have stopped by now."""
        due = time.monotonic() + STOP_SECONDS - LATE_SECONDS
        return any(timer is not None and timer.when() < due for timer in self._dropping.values())

    async def until_ready(self) -> None:
        """Wait for the start. Raises SandboxError for what keeps it from being ready."""
        if not self.ready:
            try:
                await anyio.to_thread.run_sync(self.make_ready, abandon_on_cancel=True)
            except RuntimeError as exc:
                raise HostExhausted(f"no thread to start the sandbox on: {exc}") from None
        self._attach(asyncio.get_running_loop())

    def make_ready(self) -> None:
        """Start it; blocking, idempotent. Raises SandboxError."""
        with self._starting:
            if self._failure is not None:
                raise self._failure
            if self.gone:
                raise WorkerLost(GONE)
            if not self.ready:
                try:
                    self._start()
                except SandboxError as exc:
                    self.gone, self._failure = True, exc
                    raise
                if self.gone:  # closed meanwhile
                    self.close()
                    raise WorkerLost(GONE)
                self.ready = True

    def open(self, session: int, listener: Listener) -> None:
        self._sessions[session] = listener

    def end(self, session: int) -> None:
        """The session's last answer has come."""
        if self._sessions.pop(session, None) is not None:
            self._on_change(self)

    def drop(self, session: int) -> None:
        """End a session whatever it is doing, and kill the process if it cannot."""
        if self._sessions.pop(session, None) is None or self.gone:
            return
        if not self.ready:  # it knows nothing of the session yet
            return self._on_change(self)
        with contextlib.suppress(RuntimeError):  # without a loop nothing can wait for the end either
            loop = asyncio.get_running_loop()
            self._dropping[session] = loop.call_later(STOP_SECONDS, self._does_not_stop)
        self.send(Drop(session))

    def send(self, request: Request) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """End it; sessions still open are lost. Blocking for a moment."""
        raise NotImplementedError

    def _start(self) -> None:
        raise NotImplementedError

    def _attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Receive answers on this loop."""

    def _does_not_stop(self) -> None:
        logger.warning("a dropped chain did not stop within %g s", STOP_SECONDS)

    def _received(self, answer: Answer) -> None:
        if isinstance(answer, Ready | Checked):
            raise GuestFault("an answer to nothing")
        if isinstance(answer, Dropped):
            timer = self._dropping.pop(answer.session, None)
            if timer is not None:
                timer.cancel()
            self._on_change(self)
        elif (listener := self._sessions.get(answer.session)) is not None:
            listener.answered(answer)
        elif answer.session not in self._dropping:
            raise GuestFault("an answer for no session")

    def _lose(self, text: str, *, unread: bool = False) -> None:
        """Mark the process as lost, and fail the sessions that wait for it."""
        self.gone, self.ready = True, False
        sessions, self._sessions = self._sessions, {}
        for timer in self._dropping.values():
            if timer is not None:
                timer.cancel()
        self._dropping.clear()
        for listener in sessions.values():
            listener.lost(text, unread=unread)
        self._on_change(self)


class ProcessWorker(SupervisedWorker):
    """A sandbox process."""

    def __init__(self, settings: Settings, lane: Lane, on_change: Callable[[SupervisedWorker], None]) -> None:
        super().__init__(settings, lane, on_change)
        self._child: spawn.Child | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._frames = Frames()
        self._unsent: list[memoryview] = []

    @property
    def pid(self) -> int | None:
        return None if self._child is None else self._child.pid

    def _start(self) -> None:
        try:
            self._child = child = spawn.take()
        except OSError as exc:  # no more processes, or descriptors for its socket
            raise WorkerLost(f"no sandbox process can be started: {exc.strerror or exc}") from None
        try:
            answer = exchange(child.socket, self.settings, START_SECONDS)
            if isinstance(answer, Refused):
                raise error_of(answer)
            if not isinstance(answer, Ready):
                raise WorkerLost("a sandbox process did not start")
        except SandboxError:
            child.kill()
            child.reap()
            raise
        child.socket.setblocking(False)
        self.confinement, self.cache_problem = answer.walls, answer.cache_problem

    def _attach(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop is loop or self._child is None:
            return
        self._detach()
        self._loop = loop
        loop.add_reader(self._child.socket, self._readable)
        if self._unsent:
            loop.add_writer(self._child.socket, self._flush)

    def _detach(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None and not loop.is_closed() and self._child is not None:
            loop.remove_reader(self._child.socket)
            loop.remove_writer(self._child.socket)

    def send(self, request: Request) -> None:
        """Hand over a message; what the socket does not take at once goes when it can. Never blocks."""
        if self._child is None or self.gone:
            return
        self._unsent.append(memoryview(pack(request)))
        if len(self._unsent) == 1:
            self._flush()
            if self._unsent and self._loop is not None:
                self._loop.add_writer(self._child.socket, self._flush)

    def _flush(self) -> None:
        if self._child is None:
            return
        try:
            while self._unsent:
                sent = self._child.socket.send(self._unsent[0])
                if sent < len(self._unsent[0]):
                    self._unsent[0] = self._unsent[0][sent:]
                else:
                    del self._unsent[0]
        except BlockingIOError:
            return
        except OSError:
            return self._lose(GONE, unread=True)
        if self._loop is not None:
            self._loop.remove_writer(self._child.socket)

    def _readable(self) -> None:
        if self._child is None:
            return
        try:
            data = self._child.socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except ConnectionResetError:  # how the kernel ends a socket with something unread in it
            return self._lose(GONE, unread=True)
        except OSError:
            data = b""
        if not data:
            return self._lose(GONE)
        try:
            for body in self._frames.feed(data):
                self._received(answer_of(body))
        except GuestFault as exc:
            self._lose(f"the sandbox process of this chain sent nonsense: {exc}")

    def _does_not_stop(self) -> None:
        self._lose("the sandbox process of this chain was stuck and has been ended")

    def _lose(self, text: str, *, unread: bool = False) -> None:
        child, loop = self._child, self._loop
        self._detach()
        self._child = None
        self._unsent.clear()
        if child is not None:
            child.kill()
            if loop is not None and loop.is_running():
                loop.run_in_executor(None, child.reap)
            else:
                child.reap()
        super()._lose(text, unread=unread)

    def close(self) -> None:
        child = self._child
        if child is not None:
            self._detach()
            self._child = None
            child.kill()
            child.reap()
        if not self.gone:
            self._lose(GONE)


def exchange(to: socket.socket, request: Request, seconds: float) -> Answer:
    """One message there and one back; blocking. Raises WorkerLost."""
    until = time.monotonic() + seconds
    try:
        to.settimeout(seconds)
        to.sendall(pack(request))
        head = b"".join(_received(to, 4, until))
        return answer_of(b"".join(_received(to, frame_size(head), until)))
    except TimeoutError:
        raise WorkerLost("a sandbox process did not answer in time") from None
    except OSError as exc:
        raise WorkerLost(f"a sandbox process ended: {exc.strerror or exc}") from None
    except GuestFault as exc:
        raise WorkerLost(f"a sandbox process sent nonsense: {exc}") from None


def _received(source: socket.socket, size: int, until: float) -> Iterator[bytes]:
    while size > 0:
        source.settimeout(max(0.001, until - time.monotonic()))
        data = source.recv(min(size, READ_BYTES))
        if not data:
            raise OSError("it closed its socket")
        yield data
        size -= len(data)


_ERRORS = {kind.code: kind for kind in (GuestMissing, GuestTampered, HostExhausted, GuestFault)}


def error_of(refused: Refused) -> SandboxError:
    """The error that a worker met, as itself."""
    return _ERRORS.get(refused.code, SandboxError)(refused.text)
