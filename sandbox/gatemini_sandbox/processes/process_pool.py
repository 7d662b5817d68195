"""The processes of a sandbox: started, shared among chains, replaced when they are lost, ended when they idle."""

from __future__ import annotations

import asyncio
import importlib
import itertools
import logging
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import anyio

from gatemini_sandbox.errors import SandboxError, SessionClosed
from gatemini_sandbox.limits import MIB, Limits
from gatemini_sandbox.messages import Settings
from gatemini_sandbox.processes import spawn
from gatemini_sandbox.processes.supervised_worker import Lane, ProcessWorker, SupervisedWorker

logger = logging.getLogger(__name__)

Isolation = Literal["thread", "process"]
IDLE_SECONDS = 60.0
"""How long a process beyond the usual ones is kept without a chain."""


def usual_processes() -> int:
    """Sandbox processes where nothing else is configured: one on two cores or fewer, else two."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 1 if cores <= 2 else 2


class Pool:
    """Links to the cores that chains run in. `warm` may be called from any thread, all else belongs to the event loop."""

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        cache_dir: Path | None = None,
        isolation: Isolation = "process",
        processes: int | None = None,
        guests_per_process: int = 32,
        watched: frozenset[str] = frozenset(),
    ) -> None:
        self.limits = limits or Limits()
        self.isolation: Isolation = "thread" if sys.platform == "win32" else isolation
        self.running = anyio.CapacityLimiter(self.limits.guests)
        """Places of guests that compute; those that wait for calls hold none."""
        self.held: dict[int, int] = {}
        """Bytes of each guest that waits, in whatever process."""
        self._processes = processes or usual_processes()
        if self.isolation == "thread":
            self._processes = 1
            spawn.drop_early()
        self._guests_per_process = guests_per_process
        self._cache_dir = None if cache_dir is None else str(cache_dir)
        self._watched = watched
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()  # of the list of workers: `warm` adds to it on a thread
        self._workers: list[SupervisedWorker] = []
        self._retired: list[SupervisedWorker] = []
        self._closed = False

    def next_number(self) -> int:
        return next(self._numbers)

    def warm(self) -> None:
        """Start the usual processes and wait for them; blocking, idempotent. Raises SandboxError."""
        while True:
            with self._lock:
                workers = [worker for worker in self._workers if worker.lane == "small"]
                if len(workers) < self._processes:
                    workers = [self._new("small")]
            for worker in workers:
                self._made_ready(worker)
            if len(workers) == self._processes:
                return

    def set_limits(self, limits: Limits) -> None:
        """Limits of the chains that begin from now on; new processes take them, the old ones end with their chains."""
        if limits == self.limits:
            return
        with self._lock:
            self.limits = limits
            self.running.total_tokens = limits.guests
            workers, self._workers = self._workers, []
            self._retired += workers
        for worker in workers:
            self._changed(worker)
        if workers:
            self._warm_soon()

    def holds_too_much(self, session: int, memory: int) -> bool:
        """Note what a guest holds; whether it must end because all together hold too much, and it the most. Within one
        process that is seen at every tick; only here is it known of several."""
        self.held[session] = memory
        if len(self._workers) + len(self._retired) < 2:
            return False
        sizes = self.held.values()
        return sum(sizes) > self.limits.total_memory_mb * MIB and memory >= max(sizes)

    async def until_ready(self, worker: SupervisedWorker) -> None:
        """Wait for the start of a process. Raises SandboxError."""
        try:
            await worker.until_ready()
        except SandboxError:
            self._forget(worker)
            raise

    def close(self) -> None:
        """End all processes and threads; sessions still open are lost."""
        with self._lock:
            self._closed = True
            workers = [*self._workers, *self._retired]
            self._workers, self._retired = [], []
        for worker in workers:
            worker.close()

    @property
    def confinement(self) -> list[str]:
        """The walls around sandbox processes that the kernel granted; empty in thread mode."""
        return next((worker.confinement for worker in self._workers if worker.ready), [])

    @property
    def cache_problem(self) -> str:
        """Why the compiled guest cannot be kept on disk, so that every start compiles it; "" when it can."""
        return next((worker.cache_problem for worker in self._workers if worker.ready), "")

    def worker_for(self, lane: Lane) -> SupervisedWorker:
        """The least busy process of a kind; a new one, which is still to start, when all are full."""
        with self._lock:
            if self.isolation == "thread":
                return next(iter(self._workers), None) or self._new("small")
            workers = [
                worker
                for worker in self._workers
                if worker.lane == lane and not worker.gone and not worker.late
            ]
            free = [worker for worker in workers if worker.guests < self._guests_per_process]
            usual = self._processes if lane == "small" else 1
            best = min(free, key=lambda worker: (not worker.ready, worker.guests), default=None)
            if best is None or (len(workers) < usual and best.guests):
                return self._new(lane)
            return best

    def _new(self, lane: Lane) -> SupervisedWorker:
        if self._closed:
            raise SessionClosed("the sandbox is closed")
        limits = self.limits
        settings = Settings(limits, limits.guests + 1, self._cache_dir, self._watched)
        if self.isolation == "thread":
            # Imported here because it brings the engine and the parsers into this process.
            embedded = importlib.import_module("gatemini_sandbox.processes.embedded_worker")
            worker: SupervisedWorker = embedded.ThreadWorker(settings, lane, self._changed)
        else:
            worker = ProcessWorker(settings, lane, self._changed)
        self._workers.append(worker)
        return worker

    def _made_ready(self, worker: SupervisedWorker) -> None:
        try:
            worker.make_ready()
        except SandboxError:
            self._forget(worker)
            raise
        if self._closed:  # meanwhile
            worker.close()
            raise SessionClosed("the sandbox is closed")

    def _forget(self, worker: SupervisedWorker) -> None:
        with self._lock:
            for workers in (self._workers, self._retired):
                if worker in workers:
                    workers.remove(worker)

    def _changed(self, worker: SupervisedWorker) -> None:
        """A process was lost, or has a chain less: replace it, or end it when it is not needed any more."""
        if worker.gone:
            was_usual = worker in self._workers and worker.lane == "small"
            self._forget(worker)
            if was_usual and not self._closed:
                self._warm_soon()
        elif not worker.guests:
            if worker in self._retired:
                self._forget(worker)
                worker.close()
            elif self._is_extra(worker):
                self._let_go_later(worker)

    def _is_extra(self, worker: SupervisedWorker) -> bool:
        usual = [one for one in self._workers if one.lane == "small"][: self._processes]
        return self.isolation == "process" and worker in self._workers and worker not in usual

    def _let_go_later(self, worker: SupervisedWorker) -> None:
        def let_go() -> None:
            if not worker.guests and self._is_extra(worker):
                self._forget(worker)
                worker.close()

        _on_the_loop(lambda loop: loop.call_later(IDLE_SECONDS, let_go))

    def _warm_soon(self) -> None:
        def warm() -> None:
            try:
                self.warm()
            except SandboxError as exc:
                if not self._closed:
                    logger.warning("no sandbox process is ready for the next chain: %s", exc)

        _on_the_loop(lambda loop: loop.run_in_executor(None, warm))


def _on_the_loop(do: Callable[[asyncio.AbstractEventLoop], object]) -> None:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:  # closed without one: the next chain starts what it needs
        return
    do(loop)
