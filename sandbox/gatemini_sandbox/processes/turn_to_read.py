"""Decide which thread of a sandbox process reads its socket: the main thread, or the guest thread that answered last.

A guest thread that has answered a short step reads the next request itself, so that no thread has to wake another one.
While it answers nobody reads; from the next tick on the main thread does.
"""

from __future__ import annotations

import os
import threading

from gatemini_sandbox.errors import GuestFault
from gatemini_sandbox.guests.worker import Worker
from gatemini_sandbox.messages import Conclude, Drop, Frames, Replies, Request, Run, request_of

READ_BYTES = 1 << 18


class Inbox:
    """Requests from the socket, for one thread at a time; the process ends when the gateway is gone."""

    def __init__(self) -> None:
        self._frames = Frames()
        self._waiting: list[Request] = []

    def next(self) -> Request:
        while not self._waiting:
            data = os.read(0, READ_BYTES)
            if not data:
                os._exit(0)
            self._waiting = [request_of(body) for body in self._frames.feed(data)]
        return self._waiting.pop(0)

    @property
    def empty(self) -> bool:
        return not self._waiting


class TurnToRead:
    """The turn to read an inbox, passed between the main thread and the threads of a worker."""

    def __init__(self, worker: Worker, inbox: Inbox) -> None:
        self._worker = worker
        self._inbox = inbox
        self._lock = threading.Lock()
        self._lent = False
        """Whether a guest thread will read once it has answered."""
        self._returned = threading.Semaphore(0)

    def read(self) -> None:
        """Read requests on the main thread whenever it has the turn; never returns."""
        while True:
            request = self._next()
            if not self._short(request):
                self._worker.handle(request)
                continue
            self._lent = True
            if self._worker.handle(request, self._read_on) or not self._took_back():
                self._returned.acquire()

    def tick(self) -> None:
        """Give the turn to the main thread if a guest thread is still at its answer."""
        if self._took_back():
            self._returned.release()

    def _read_on(self) -> None:
        """Read and answer on a guest thread as long as steps are short and the turn is its own."""
        while self._took_back():
            request = self._next()
            if self._short(request):
                self._lent = True
                self._worker.handle_here(request)
            else:
                self._returned.release()
                self._worker.handle_here(request)

    def _took_back(self) -> bool:
        with self._lock:
            lent, self._lent = self._lent, False
        return lent

    def _short(self, request: Run | Replies | Conclude | Drop) -> bool:
        """Whether a thread may read on after its answer: most steps take less than a tick, and none waits for it."""
        return isinstance(request, Replies) and self._inbox.empty

    def _next(self) -> Run | Replies | Conclude | Drop:
        try:
            request = self._inbox.next()
        except GuestFault:
            os._exit(1)
        if not isinstance(request, Run | Replies | Conclude | Drop):
            os._exit(1)
        return request
