"""Sandbox and Session: what the gateway sees. One Sandbox per process, one Session per chain.

A session is stepped: `start`, then `resume` with whatever replies are there, until it is Done or Failed. Between
steps it holds a guest's memory and no thread. Above: the gateway's chain/script.py. Below: threads.py and guest.py,
or workers.py for the same in processes of their own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal, Protocol

import anyio
import anyio.lowlevel

from gatemini_sandbox.budget import Ledger
from gatemini_sandbox.engine import Engine
from gatemini_sandbox.errors import SessionClosed, WorkerLost
from gatemini_sandbox.guest import Guest, boot
from gatemini_sandbox.here import (
    HERE,
    LOOP_TURN_SECONDS,
    READ_BYTES,
    SHORT_SECONDS,
    SMALL_BYTES,
    SMALL_MEMORY,
    LoopShare,
    reads_fast,
)
from gatemini_sandbox.limits import MIB, Limits
from gatemini_sandbox.messages import Calls, Raw, Reply, Start, Step, encode_start
from gatemini_sandbox.shelf import Image, Shelf
from gatemini_sandbox.steps import Reader, Runnable
from gatemini_sandbox.threads import GuestThreads
from gatemini_sandbox.wasi import Clock
from gatemini_sandbox.workers import RemoteGuest, Workers

Isolation = Literal["thread", "process"]
FREE_INLINE_BYTES = 16 * MIB
"""A guest up to this size is freed where it stands; unmapping a larger one takes long enough for a thread."""


class Session(Protocol):
    """One chain in one guest. Cancelling a step stops the guest within an epoch tick and frees it."""

    @property
    def queued_seconds(self) -> float:
        """How long its steps waited until they could run, because too many others did."""
        ...

    @property
    def readings(self) -> Sequence[int]:
        """Wall clock readings of the chain up to its last step, in ns: `Start.clock` of a run that repeats it."""
        ...

    async def start(self) -> Step: ...
    async def resume(self, replies: Sequence[Reply]) -> Step: ...
    async def outcome(self) -> Step:
        """The end of a chain whose last step was Calls with `settled`, without waiting for its open calls."""
        ...

    def close(self) -> None:
        """Frees the guest. Idempotent; also right after a cancelled step."""
        ...


class Stepper(Protocol):
    """A guest that is stepped: in this process (guest.Guest) or in a worker's (workers.RemoteGuest)."""

    def begin(self, start: bytes, source: bytes) -> Raw: ...
    def resume(self, replies: bytes) -> Raw: ...
    def outcome(self) -> Raw: ...
    def stop(self) -> None: ...
    def close(self) -> None: ...
    @property
    def memory_bytes(self) -> int: ...


class GuestSession:
    """A guest stepped on the event loop while its steps are short, else on the sandbox's worker threads."""

    def __init__(self, sandbox: Sandbox, program: Runnable, start: Start, limits: Limits) -> None:
        self._sandbox = sandbox
        self._program = program
        self._start = start
        self._limits = limits
        self._reader = Reader(program, limits)
        self._guest: Stepper | None = None
        self._running = self._closed = self._ended = False
        self._started = False
        self._queued_seconds = 0.0
        self._asked: float | None = None  # since when a step waits to be run
        self._short = True  # its last step was: the next may be tried on the loop
        self._used_before = 0.0
        self._held = 0.0  # seconds its steps held the loop without a turn for others
        self.readings: Sequence[int] = ()

    async def start(self) -> Step:
        if self._started or self._closed:
            raise SessionClosed("this session has been started already, or is closed")
        self._started = True
        return await self._step(self._begin, self._begin_here)

    async def resume(self, replies: Sequence[Reply]) -> Step:
        guest = self._live()
        return await self._step(
            lambda: guest.resume(self._reader.replies(replies)), lambda: self._resume_here(replies)
        )

    async def outcome(self) -> Step:
        return await self._step(self._live().outcome, lambda: None)

    def close(self) -> None:
        self._closed = True
        guest = self._guest
        if guest is None:
            return
        if self._ended:
            self._tidy(guest)
            return
        guest.stop()
        if not self._running:
            self._sandbox.free(guest)

    def _live(self) -> Stepper:
        if self._guest is None or self._ended or self._closed:
            raise SessionClosed("this session is not at a step: it was not started, has ended, or is closed")
        return self._guest

    def _begin(self) -> Raw | Step:
        source = self._program.js.encode("utf-8", "replace")
        refused = self._reader.too_long(source)
        if refused is not None:
            return refused
        self._guest = guest = self._sandbox.guest(self._limits, self._start)
        if self._closed:
            guest.stop()  # cancelled while the guest was being made: `_stop` did not see it
        return guest.begin(encode_start(self._start, self._limits), source)

    def _begin_here(self) -> Raw | None:
        source = self._program.js.encode("utf-8", "replace")
        if not reads_fast(source) or self._reader.too_long(source) or not self._sandbox.ready:
            return None
        start = encode_start(self._start, self._limits)
        if len(start) > SMALL_BYTES:
            return None
        self._guest = guest = self._sandbox.guest(self._limits, self._start)
        return guest.begin_here(start, source) if isinstance(guest, Guest) else None

    def _resume_here(self, replies: Sequence[Reply]) -> Raw | None:
        guest = self._guest
        if not isinstance(guest, Guest) or guest.memory_bytes > SMALL_MEMORY:
            return None
        if sum(len(reply.value) for reply in replies) > SMALL_BYTES:
            return None
        return guest.resume_here(self._reader.replies(replies))

    async def _step(self, work: Callable[[], Raw | Step], here: Callable[[], Raw | None]) -> Step:
        """`work` is the step as a thread does it, `here` the same on the event loop, where that may be tried."""
        if self._running or self._closed:
            raise SessionClosed("this session is busy or closed")
        self._running = True
        self._asked = time.monotonic()
        self._used_before = self._used_cpu()
        try:
            if self._short and self._sandbox.may_step_here():
                done = await self._tried_here(here, work)
                if not callable(done):
                    return done
                work = done
            async with self._sandbox.turn():
                return await self._sandbox.threads.run(lambda: self._guarded(work), self._stop)
        except BaseException:
            if self._asked is not None:  # it was given up before it began
                self._queue_ends()
                self._running = False
            self.close()  # a guest that still runs is freed by its own thread, when its step is over
            raise

    async def _tried_here(
        self, here: Callable[[], Raw | None], work: Callable[[], Raw | Step]
    ) -> Step | Callable[[], Raw | Step]:
        """The step, done and read on the loop, or what is left of it for a thread: all, its rest, or its reading."""
        if self._held > LOOP_TURN_SECONDS:
            self._held = 0.0
            await anyio.lowlevel.checkpoint()
        began = time.monotonic()
        raw = here()
        spent = time.monotonic() - began
        self._held += spent
        self._sandbox.loop_share.spend(spent)
        self._asked = time.monotonic()
        guest = self._guest
        if raw is None:
            return guest.go_on if isinstance(guest, Guest) and guest.left else work
        if raw.end in (None, "done") and raw.size <= READ_BYTES:
            return self._guarded(lambda: raw)
        return lambda: raw

    @property
    def queued_seconds(self) -> float:
        return self._queued_seconds

    def _queue_ends(self) -> None:
        asked, self._asked = self._asked, None
        if asked is not None:
            self._queued_seconds += time.monotonic() - asked

    def _guarded(self, work: Callable[[], Raw | Step]) -> Step:
        """On the worker thread: the step, read; frees the guest when nobody waits any more."""
        self._queue_ends()
        try:
            raw = work()
            self._short = self._used_cpu() - self._used_before <= SHORT_SECONDS
            if isinstance(raw, Raw):
                self.readings = raw.readings
            step = self._reader.step(raw) if isinstance(raw, Raw) else raw
        except WorkerLost as exc:
            step = self._reader.lost(str(exc))
        finally:
            self._running = False
            if self._closed and self._guest is not None:
                self._guest.close()
        if not isinstance(step, Calls):
            self._ended = True
            if self._guest is not None and self._sandbox.isolation == "process":
                self._guest.close()  # gives its worker to the next chain
        return step

    def _used_cpu(self) -> float:
        guest = self._guest
        return guest.budget.used_cpu if isinstance(guest, Guest) else 0.0

    def _tidy(self, guest: Stepper) -> None:
        """Once the chain's answer has left: free the guest, make the next one ready."""
        self._guest = None

        def chore() -> None:
            guest.close()
            self._sandbox.restock()

        if isinstance(guest, Guest) and guest.serves_again:
            self._sandbox.threads.soon(guest.close)  # takes less than handing it to a thread
        else:
            self._sandbox.threads.chore(chore, lambda: self._sandbox.free(guest))

    def _stop(self) -> None:
        self._closed = True
        if self._guest is not None:
            self._guest.stop()


class Sandbox:
    """Makes sessions. Thread-safe; the engine is made on `warm`, or by the first session."""

    def __init__(
        self, limits: Limits | None = None, *, cache_dir: Path | None = None, isolation: Isolation = "thread"
    ) -> None:
        self.limits = limits or Limits()
        self.isolation = isolation
        self.threads = GuestThreads(self.limits.guests)
        self.ledger = Ledger(self.limits.total_memory_mb * MIB)
        self._cache_dir = cache_dir
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._made: tuple[Shelf, Image] | None = None
        self._closed = False
        self._workers = Workers(self.limits, cache_dir) if isolation == "process" else None
        self._turns = self._turns_for(self.limits)
        self.loop_share = LoopShare()

    @staticmethod
    def _turns_for(limits: Limits) -> anyio.Semaphore:
        # Workers do not see each other's memory while they run: only as many do as fit the total at their largest.
        fitting = limits.total_memory_mb // limits.memory_mb
        return anyio.Semaphore(max(1, min(limits.guests, fitting)))

    def set_limits(self, limits: Limits) -> None:
        """Limits of the chains that begin from now on; the next one boots its guest's image anew."""
        if limits == self.limits:
            return
        with self._lock:
            self.limits = limits
            self.ledger.most = limits.total_memory_mb * MIB
            self.threads.set_most(limits.guests)
            self._turns = self._turns_for(limits)
            made, self._made = self._made, None
            if made is not None:
                made[0].close()
            if self._workers is not None:
                self._workers.set_limits(limits)

    def warm(self) -> None:
        """Blocking, idempotent: the module from the cache or compiled (about a second), the memory image made."""
        if self._workers is not None:
            with self._lock:
                self._workers.warm()
        else:
            self._booted()

    def _booted(self) -> tuple[Shelf, Image]:
        made = self._made
        if made is not None:
            return made
        with self._lock:
            made = self._made
            if made is None and not self._closed:
                if self._engine is None:
                    self._engine = Engine(self._cache_dir)
                image = boot(self._engine, self.limits)
                shelf = Shelf(self._engine, image, self.limits.memory_mb * MIB)
                shelf.restock()
                made = self._made = shelf, image
            if self._closed:  # perhaps meanwhile: `close` waits for nobody
                self._let_go()
            if made is None:
                raise SessionClosed("the sandbox is closed")
            return made

    def session(self, program: Runnable, start: Start, *, wall_seconds: float | None = None) -> Session:
        """A new session; nothing happens before its `start`. `wall_seconds` replaces the default limit."""
        limits = self.limits if wall_seconds is None else replace(self.limits, wall_seconds=wall_seconds)
        return GuestSession(self, program, start, limits)

    def guest(self, limits: Limits, start: Start) -> Stepper:
        if self._workers is not None:
            return RemoteGuest(self._workers, limits, self.ledger, start.now_ms, start.clock)
        shelf, image = self._booted()
        clock = Clock.at(start.now_ms, start.clock)
        return Guest(shelf, image, limits, self.ledger, clock)

    @property
    def ready(self) -> bool:
        """Whether a guest stands ready for the next chain."""
        return self._made is not None and self._made[0].ready

    def may_step_here(self) -> bool:
        """Whether the next step may be tried on the event loop."""
        return HERE and self._workers is None and not self.threads.crowded and self.loop_share.open()

    def restock(self) -> None:
        """Make the guest of the next chain ready; on a thread nobody waits for."""
        made = self._made
        if made is not None:
            made[0].restock()

    def free(self, guest: Stepper) -> None:
        if guest.memory_bytes <= FREE_INLINE_BYTES:
            guest.close()
            return
        try:
            threading.Thread(target=guest.close, name="sandbox-free", daemon=True).start()
        except RuntimeError:  # no thread to be had: here, then
            guest.close()

    def close(self) -> None:
        """Ends the worker threads and frees the engine; sessions still open fail."""
        self._closed = True
        self.threads.close()
        self._let_go()
        if self._workers is not None:
            self._workers.close()

    def _let_go(self) -> None:
        """The engine goes, with its thread and its descriptor, as soon as no machine uses it."""
        made, self._made, self._engine = self._made, None, None
        if made is not None:
            made[0].close()

    @property
    def confinement(self) -> list[str]:
        """The walls around worker processes that the kernel granted; empty in thread mode."""
        return [] if self._workers is None else list(self._workers.confinement)

    @property
    def cache_problem(self) -> str:
        """Why the compiled guest cannot be kept on disk, so that every start compiles it; "" when it can."""
        if self._workers is not None:
            return self._workers.cache_problem
        return "" if self._engine is None else self._engine.cache_problem

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Around a step. Only guests that run take one: a chain that waits, be it for a chain it called itself,
        keeps nobody from running."""
        if self._workers is None:
            yield  # there is a thread for each guest that may run
            return
        async with self._turns:
            yield


__all__ = ["Isolation", "Sandbox", "Session"]
