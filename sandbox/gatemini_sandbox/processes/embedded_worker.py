"""A worker on threads of the gateway's own process: for embedding, and where the walls of a process cannot be had."""

from __future__ import annotations

import asyncio
import contextlib
from typing import cast

from gatemini_sandbox.guests.worker import OfSession, Worker
from gatemini_sandbox.messages import Answer, Request
from gatemini_sandbox.processes.supervised_worker import GONE, SupervisedWorker


class ThreadWorker(SupervisedWorker):
    """A worker in this process. Its threads hand every answer to the loop that runs the session."""

    _worker: Worker | None = None
    _loop: asyncio.AbstractEventLoop | None = None

    def _start(self) -> None:
        worker = Worker(self.settings, self._emit)
        worker.start_threads()
        self._worker, self.cache_problem = worker, worker.engine.cache_problem

    def _attach(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def send(self, request: Request) -> None:
        if self._worker is not None:
            self._worker.handle(cast("OfSession", request))

    def _emit(self, answer: Answer) -> None:
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: no session waits any more
                loop.call_soon_threadsafe(self._received, answer)

    def close(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()
        if not self.gone:
            self._lose(GONE)
