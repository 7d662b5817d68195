"""Let guests that compute take turns, and move the epoch on so that a running guest looks at its budget."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import wasmtime

from gatemini_sandbox.errors import HostExhausted

TICK_SECONDS = 0.01
"""How often running guests look at their budget: the most a cancelled or over-budget guest runs on."""
LONG_SECONDS = 0.03
TURN_SECONDS = 0.05


class Turns:
    """Guests that compute for long take turns, so that one core stays free for everything else.

    A short step never waits. One that has used LONG_SECONDS of CPU needs a turn to go on, and passes it on after
    TURN_SECONDS if another waits."""

    def __init__(self, most: int) -> None:
        self._free = threading.Semaphore(most)
        self._waiting = 0

    def take(self, seconds: float) -> bool:
        self._waiting += 1
        try:
            return self._free.acquire(timeout=seconds)
        finally:
            self._waiting -= 1

    def give(self) -> None:
        self._free.release()

    @property
    def wanted(self) -> bool:
        return self._waiting > 0


def free_cores() -> int:
    """Cores guests may fill: all but one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores - 1)


class Ticker:
    """Moves the engine's epoch on while any guest runs, and sleeps otherwise."""

    def __init__(self, engine: wasmtime.Engine) -> None:
        self._engine = engine
        self._wake = threading.Condition()
        self._running = 0
        self._ended = False
        self._thread: threading.Thread | None = None
        self.on_tick: Callable[[], None] | None = None
        """Done at each tick, on the thread that ticks; set before the first guest runs."""

    def prepare(self) -> None:
        """Starts the thread, which then sleeps. Raises HostExhausted: no guest may run without it."""
        with self._wake:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="sandbox-epoch", daemon=True)
                try:
                    thread.start()
                except RuntimeError as exc:
                    raise HostExhausted(f"no thread for the sandbox's limits: {exc}") from None
                self._thread = thread

    def enter(self) -> None:
        if self._thread is None:
            self.prepare()
        with self._wake:
            self._running += 1
            if self._running == 1:
                self._wake.notify()

    def leave(self) -> None:
        with self._wake:
            self._running -= 1

    def end(self) -> None:
        """No guest will run any more: the thread ends, and holds the engine no longer."""
        with self._wake:
            self._ended = True
            self._wake.notify()

    def _run(self) -> None:
        while True:
            with self._wake:
                while self._running == 0 and not self._ended:
                    self._wake.wait()
                if self._ended:
                    return
            time.sleep(TICK_SECONDS)
            self._engine.increment_epoch()
            if self.on_tick is not None:
                self.on_tick()
