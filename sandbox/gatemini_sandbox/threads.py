"""The worker threads guests run on, but for short steps: awaited from the event loop, cancelled within an epoch tick.

anyio's own worker threads are not used for two measured reasons: their native stack is the platform's default,
which the guest's 2 MiB of wasm stack may not fit in, and a hand-off costs several times as much as this one.
Above: session.py. Below: nothing but the errors.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import anyio

from gatemini_sandbox.errors import HostExhausted, SessionClosed

T = TypeVar("T")

logger = logging.getLogger(__name__)

THREAD_STACK = 16 << 20
"""Native stack of a worker: far above what wasm code may use of it."""
STOP_SECONDS = 5.0
"""How long a cancelled caller waits for its guest to stop; an epoch tick is 0.01 s, the rest is a loaded machine."""


class Job:
    """One piece of blocking work: waiting, started, finished or given up."""

    __slots__ = ("_lock", "error", "finished", "given_up", "result", "started", "wake", "work")

    def __init__(self, work: Callable[[], Any], wake: Callable[[], None]) -> None:
        self.work = work
        self.wake = wake
        self.result: Any = None
        self.error: BaseException | None = None
        self.started = self.given_up = self.finished = False
        self._lock = threading.Lock()

    def start(self) -> bool:
        with self._lock:
            self.started = not self.given_up
            return self.started

    def give_up(self) -> bool:
        """True when the work will not start any more."""
        with self._lock:
            self.given_up = not self.started
            return self.given_up

    def run(self) -> None:
        """The work, unless it was given up; whoever waits for it is still to be waked."""
        if not self.start():
            return
        try:
            self.result = self.work()
        except BaseException as exc:  # noqa: BLE001 - carried to the caller, whatever it is
            self.error = exc
        self.finished = True


Inbox = queue.SimpleQueue[Job | None]
"""Where one thread takes its work from; None ends it."""


class GuestThreads:
    """At most `most` daemon threads, started as they are needed; work beyond that waits its turn.

    Work goes to the thread that was busy last: its stack and what it touched are still in the processor's caches,
    and chains one after another need no second thread."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._busy = 0
        self._idle: list[Inbox] = []
        self._waiting: deque[Job] = deque()
        self._closed = False

    def submit(self, job: Job) -> None:
        """Raises SessionClosed after `close`, HostExhausted where there can be no thread at all."""
        with self._lock:
            if self._closed:
                raise SessionClosed("the sandbox is closed")
            self._waiting.append(job)
            self._hand_out()

    @property
    def crowded(self) -> bool:
        """Whether as many are busy as may be: one more would have to wait."""
        return self._busy >= self._most

    def set_most(self, most: int) -> None:
        """More at once begin now; too many end what they are doing."""
        with self._lock:
            self._most = most
            self._hand_out()

    def _hand_out(self) -> None:
        """What waits to threads that have nothing to do, as many as may be busy. Under the lock."""
        while self._waiting and self._busy < self._most:
            try:
                inbox = self._idle.pop() if self._idle else self._add_thread()
            except RuntimeError as exc:
                if self._busy:
                    return  # the next one that has nothing to do takes it
                self._waiting.clear()
                raise HostExhausted(f"no thread for a guest: {exc}") from None
            self._busy += 1
            inbox.put(self._waiting.popleft())

    def close(self) -> None:
        """No new work; threads end after what they are doing and what waits for them."""
        with self._lock:
            self._closed = True
            while self._idle:
                self._idle.pop().put(None)

    def _add_thread(self) -> Inbox:
        inbox: Inbox = queue.SimpleQueue()
        before = threading.stack_size(THREAD_STACK)
        try:
            threading.Thread(target=self._serve, args=(inbox,), name="sandbox-guest", daemon=True).start()
        finally:
            threading.stack_size(before)
        return inbox

    def _serve(self, inbox: Inbox) -> None:
        while (job := inbox.get()) is not None:
            job.run()
            # Before anybody is waked: the next step of the same chain comes back to this thread.
            self._free(inbox)
            if job.finished:
                job.wake()
            del job  # what it holds must not live until the next one comes

    def _free(self, inbox: Inbox) -> None:
        with self._lock:
            self._busy -= 1
            self._idle.append(inbox)
            self._hand_out()
            if self._closed and not self._waiting:
                while self._idle:
                    self._idle.pop().put(None)

    def chore(self, work: Callable[[], None], otherwise: Callable[[], None]) -> None:
        """`work` on a worker once this turn of the event loop is over, without waiting for it.

        Where all are busy `otherwise` is done instead, here."""
        self.soon(partial(self._give_chore, work, otherwise), otherwise)

    def soon(self, work: Callable[[], None], otherwise: Callable[[], None] | None = None) -> None:
        """`work` once this turn of the event loop is over; where there is no loop, `otherwise` (or the work) now."""
        with contextlib.suppress(RuntimeError):  # no event loop: whoever blocks may do it himself
            asyncio.get_running_loop().call_soon(work)
            return
        (otherwise or work)()

    def _give_chore(self, work: Callable[[], None], otherwise: Callable[[], None]) -> None:
        with self._lock:
            free = not self._closed and self._busy < self._most
        if free:
            with contextlib.suppress(HostExhausted, SessionClosed):
                self.submit(Job(partial(_logged, work), _nobody))
                return
        otherwise()

    async def run(self, work: Callable[[], T], stop: Callable[[], None]) -> T:
        """`work` on a worker. When the caller is cancelled, `stop` is called and the end of `work` awaited."""
        done = anyio.Event()
        job = Job(work, _waker(done))
        self.submit(job)
        try:
            await done.wait()
        except BaseException:
            if not job.give_up() and not job.finished:
                stop()
                with anyio.move_on_after(STOP_SECONDS, shield=True):
                    await done.wait()
            raise
        if job.error is not None:
            raise job.error
        result: T = job.result
        return result


def _nobody() -> None:
    """Wakes nobody."""


def _logged(work: Callable[[], None]) -> None:
    try:
        work()
    except Exception:
        logger.exception("tidying up after a guest failed")


def _waker(done: anyio.Event) -> Callable[[], None]:
    # Straight to the loop: anyio.from_thread.run_sync would hold the worker until the loop has answered.
    loop = asyncio.get_running_loop()

    def wake() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(done.set)

    return wake
