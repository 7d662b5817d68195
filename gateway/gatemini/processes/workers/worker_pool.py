"""Processes that compute for the event loop: bytes to a module's `answer` function, bytes back.

`anyio.to_process` is not used: it pickles on the event loop (a gap of 60 ms for 40 MB), imports the program's main
module into each worker, and ends idle workers only when the next request comes.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import mmap
import socket
import sys
from collections.abc import Callable, Sequence

import anyio
import anyio.to_thread

from gatemini.processes.process_mark import clear_mark
from gatemini.processes.workers.worker import ANSWER, RAISED, REQUEST

IDLE_SECONDS = 60.0
"""How long a process without work is kept."""

CANCELLED_SECONDS = 0.5
"""How long a process may still compute for a cancelled request before it is killed."""

EXIT_SECONDS = 5.0
"""How long the exit of a process whose connection has closed is waited for."""

MAPPED_BYTES = 1 << 20
"""Answers above this size are received into memory that the system maps page by page."""

WRITTEN_BYTES = 1 << 20
"""Bytes of a request given to the transport at a time: it copies what the process does not read at once."""

Answer = bytes | bytearray | memoryview

logger = logging.getLogger(__name__)


class WorkerLost(Exception):
    """A worker process ended before it had answered."""


class WorkerFailed(Exception):
    """`answer` raised an exception; the message is its type and text."""


class WorkerPool:
    """A process that runs `module.answer(request) -> bytes`, started when it is needed.

    It answers one request at a time. Where no process can be started, `answer` runs on a thread.
    """

    def __init__(self, module: str, *, idle_seconds: float = IDLE_SECONDS) -> None:
        self._module = module
        self._idle_seconds = idle_seconds
        self._turns = anyio.Lock(fast_acquire=True)
        self._workers: set[_Worker] = set()
        self._idle: _Worker | None = None
        self._ending: set[_Worker] = set()
        self._closed = False

    @property
    def pids(self) -> list[int]:
        """Of the processes that run now."""
        return [worker.process.pid for worker in self._workers]

    async def ask(self, request: bytes | Sequence[bytes]) -> Answer:
        """The answer to one request, which may come in parts. Raises WorkerFailed, or WorkerLost when the process ends.

        Cancelled, the request's process has half a second to finish before it is killed.
        """
        parts = [request] if isinstance(request, bytes | bytearray) else request
        async with self._turns:
            worker = await self._worker()
            if worker is None:
                return await anyio.to_thread.run_sync(self._on_thread, parts, abandon_on_cancel=True)
            try:
                return await worker.ask(parts)
            finally:
                if worker.busy:
                    asyncio.get_running_loop().call_later(CANCELLED_SECONDS, self._end_if_busy, worker)
                else:
                    self._put_back(worker)

    async def close(self) -> None:
        """End every process and wait for that; requests in flight raise WorkerLost."""
        self._closed = True
        for worker in tuple(self._workers):
            self._end(worker)
        with anyio.move_on_after(EXIT_SECONDS, shield=True):
            for worker in tuple(self._ending):
                await worker.process.wait()
                self._ending.discard(worker)

    async def _worker(self) -> _Worker | None:
        if self._closed:
            raise WorkerLost(f"the processes for {self._module} are closed")
        if self._idle is not None:
            worker, self._idle = self._idle, None
            worker.keep()
            return worker
        if sys.platform == "win32":  # a socket cannot be a process's standard input there
            return None
        try:
            worker = await _started(self._module, self._lost)
        except OSError as error:
            logger.warning("no process can be started for %s, a thread is used: %s", self._module, error)
            return None
        self._workers.add(worker)
        return worker

    def _put_back(self, worker: _Worker) -> None:
        if worker not in self._workers:
            return
        if self._closed or self._idle is not None:
            self._end(worker)
            return
        self._idle = worker
        worker.let_go_after(self._idle_seconds, self._end)

    def _end_if_busy(self, worker: _Worker) -> None:
        """Kill a process that still works for a request that was cancelled; one that is done serves on."""
        if worker.busy:
            self._end(worker)
        else:
            self._put_back(worker)

    def _end(self, worker: _Worker) -> None:
        self._lost(worker)
        worker.kill()

    def _lost(self, worker: _Worker) -> None:
        self._workers.discard(worker)
        self._ending = {one for one in self._ending if one.process.returncode is None} | {worker}
        if worker is self._idle:
            self._idle = None

    def _on_thread(self, parts: Sequence[bytes]) -> bytes:
        try:
            return bytes(importlib.import_module(self._module).answer(bytearray(b"".join(parts))))
        except Exception as error:
            raise WorkerFailed(f"{type(error).__name__}: {error}") from error


class _Worker(asyncio.BufferedProtocol):
    """One process and the connection to it."""

    process: asyncio.subprocess.Process

    def __init__(self, on_lost: Callable[[_Worker], None]) -> None:
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Answer] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._writable = anyio.Event()
        self._writable.set()
        self._expect(bytearray(ANSWER.size), head=True)

    @property
    def busy(self) -> bool:
        """Whether it computes an answer."""
        return self._answer is not None

    async def ask(self, parts: Sequence[bytes]) -> Answer:
        transport = self._transport
        if transport is None or transport.is_closing():
            raise await self._gone()
        self._answer = asyncio.get_running_loop().create_future()
        answer = self._answer
        try:
            transport.write(REQUEST.pack(sum(map(len, parts))))
            for part in parts:
                for at in range(0, len(part), WRITTEN_BYTES):
                    transport.write(memoryview(part)[at : at + WRITTEN_BYTES])
                    await self._writable.wait()
            return await answer
        except ConnectionError as error:
            raise await self._gone() from error

    async def _gone(self) -> WorkerLost:
        """The exception for a process that ended, with how it ended."""
        with anyio.move_on_after(EXIT_SECONDS):
            await self.process.wait()
        code = self.process.returncode
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"exited with code {code}"
        return WorkerLost(f"a worker process {how} before it had answered")

    def keep(self) -> None:
        """It has work again: it is not let go."""
        if self._timer is not None:
            self._timer.cancel()

    def let_go_after(self, seconds: float, end: Callable[[_Worker], None]) -> None:
        self.keep()
        self._timer = asyncio.get_running_loop().call_later(seconds, end, self)

    def kill(self) -> None:
        self.keep()
        if self._transport is not None:
            self._transport.abort()
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it may have ended by itself
                self.process.kill()

    # -- what asyncio calls ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self._transport = transport

    def pause_writing(self) -> None:
        self._writable = anyio.Event()

    def resume_writing(self) -> None:
        self._writable.set()

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return self._view[self._at :]

    def buffer_updated(self, nbytes: int) -> None:
        self._at += nbytes
        if self._at < len(self._view):
            return
        data = self._data
        if self._head:
            size, self._status = ANSWER.unpack(data)
            # A bytearray would be filled with zeros first: 30 ms for 90 MB.
            self._expect(bytearray(size) if size <= MAPPED_BYTES else mmap.mmap(-1, size), head=False)
            if size:
                return
            data = self._data
        self._expect(bytearray(ANSWER.size), head=True)
        answer, self._answer = self._answer, None
        if answer is None or answer.done():  # its request was cancelled
            return
        if self._status == RAISED:
            answer.set_exception(WorkerFailed(bytes(data).decode("utf-8", "replace")))
        else:
            answer.set_result(data if isinstance(data, bytearray) else memoryview(data))

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._writable.set()
        self._on_lost(self)
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(ConnectionError())

    def _expect(self, data: bytearray | mmap.mmap, *, head: bool) -> None:
        self._data, self._view, self._at, self._head = data, memoryview(data), 0, head


async def _started(module: str, on_lost: Callable[[_Worker], None]) -> _Worker:
    """A process that imports `module`; raises OSError."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-s",
            "-m",
            "gatemini.processes.workers.worker",
            module,
            stdin=theirs.fileno(),
            stdout=asyncio.subprocess.DEVNULL,
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    clear_mark(process.pid)
    loop = asyncio.get_running_loop()
    _, worker = await loop.create_connection(lambda: _Worker(on_lost), sock=ours)
    worker.process = process
    return worker
