"""What the gateway calls: run a chain in a sandbox, step by step.

    sandbox = Sandbox(limits, cache_dir=…)
    session = sandbox.session(code, identifiers)
    step = await session.start(Start(…))
    while isinstance(step, Calls):
        step = await session.resume(replies)
    session.close()

Importing this loads neither the engine nor a parser.
"""

from __future__ import annotations

import array
import asyncio
import importlib
import itertools
import logging
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import Literal

import anyio
import orjson

from gatemini_sandbox import spawn
from gatemini_sandbox.errors import GuestFault, ReadingTooLong, SandboxError, SessionClosed, WorkerLost
from gatemini_sandbox.limits import MIB, TOTAL_MEMORY, Limits
from gatemini_sandbox.link import GONE, Link, ProcessLink, error_of
from gatemini_sandbox.messages import (
    Answer,
    Call,
    Calls,
    Conclude,
    Done,
    ErrorInfo,
    Facts,
    Failed,
    Needs,
    NeedsSecondParser,
    NotCode,
    Refused,
    Replies,
    Reply,
    Run,
    Start,
    Step,
    Stepped,
    encode_start,
)
from gatemini_sandbox.messages import Settings as CoreSettings
from gatemini_sandbox.typescript.syntax_error import SandboxSyntaxError

logger = logging.getLogger(__name__)

Isolation = Literal["thread", "process"]
Lane = Literal["small", "large", "second"]
"""Kinds of processes: for small code; for code that takes long to parse; with the second parser compiled."""

LARGE_CODE = 8 * 1024
"""Bytes of code from which it is parsed and run beside no small one: parsing holds the others of its process."""
IDLE_SECONDS = 60.0
"""How long a process beyond the usual ones is kept without a chain."""
MOST_READINGS = 10_000
"""Clock readings of one chain that a guest keeps (wasi.py)."""
CONSOLE_SLACK = 4
"""The console's text may grow when broken UTF-8 in it is replaced: three bytes for one."""

Supply = Callable[[Needs], Awaitable[Start]]
"""Gives the start message of a program that asks for the catalog, interfaces or explanations of names."""


def usual_processes() -> int:
    """Sandbox processes where nothing else is configured: one on two cores or fewer, else two."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 1 if cores <= 2 else 2


class Session:
    """One chain in one guest. Cancelling a step drops the guest; `close` must be called at the end."""

    def __init__(
        self, sandbox: Sandbox, code: str, identifiers: Collection[str], wall_seconds: float
    ) -> None:
        self._sandbox = sandbox
        self._code = code
        self._source = code.encode("utf-8", "replace")
        self._identifiers = sorted(identifiers)
        self._since = time.monotonic()
        self._wall_seconds = wall_seconds
        self._number = sandbox.next_number()
        self._limits = sandbox.limits
        self._link: Link | None = None
        self._waiting: asyncio.Future[Answer] | None = None
        self._known: set[int] = set()
        self._started = self._over = False
        self.queued_seconds = 0.0
        """How long its steps waited until they could run, because too many others did."""
        self.readings: array.array[int] = array.array("Q")
        """Wall clock readings of the chain up to its last step, in ns: `Start.clock` of a run that repeats it."""
        self.facts = Facts(source=code)
        """What the parse says of the code; known after `start`."""

    async def start(self, start: Start, supply: Supply | None = None) -> Step:
        """The first step. Without `supply` the start message must hold all that the code may need. Raises
        SandboxSyntaxError, ReadingTooLong, or another SandboxError where no guest can be had."""
        if self._started or self._over:
            raise SessionClosed("this session has been started already, or is closed")
        self._started = True
        lane: Lane = "large" if len(self._source) > LARGE_CODE else "small"
        try:
            answer = await self._begun(lane, start, complete=supply is None)
            if isinstance(answer, NeedsSecondParser) and self._link is not None:
                self._link.end(self._number)
                self._link = None
                answer = await self._begun("second", start, complete=supply is None)
            if isinstance(answer, Needs) and supply is not None:
                self._take(answer.facts)
                start = await supply(answer)
                answer = await self._asked(self._run(start, complete=True))
        except WorkerLost as exc:
            return self._ended(_lost(str(exc)))
        except BaseException:
            self.close()
            raise
        return self._step(answer)

    async def resume(self, replies: Sequence[Reply]) -> Step:
        """Go on with these answers; with none, only time has passed."""
        self._check_live()
        return await self._stepped(Replies(self._number, list(replies)))

    async def outcome(self) -> Step:
        """The end of a chain whose last step was Calls with `settled`, without waiting for its open calls."""
        self._check_live()
        return await self._stepped(Conclude(self._number))

    def close(self) -> None:
        """Free the guest, also while it runs. Idempotent."""
        self._over = True
        self._sandbox.held.pop(self._number, None)
        link, self._link = self._link, None
        if link is not None:
            link.drop(self._number)

    # -- called by the link --------------------------------------------------------------------------------

    def answered(self, answer: Answer) -> None:
        waiting = self._waiting
        if waiting is None:
            raise GuestFault("a chain that was not asked")
        if isinstance(answer, Stepped):
            self._check(answer)
        self._waiting = None
        if not waiting.done():
            waiting.set_result(answer)

    def lost(self, text: str) -> None:
        self._link = None
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_exception(WorkerLost(text))

    # -- inside --------------------------------------------------------------------------------------------

    def _check_live(self) -> None:
        if not self._started or self._over or self._waiting is not None:
            raise SessionClosed("this session is not at a step: it was not started, has ended, or is closed")

    async def _begun(self, lane: Lane, start: Start, *, complete: bool) -> Answer:
        link = await self._sandbox.link_for(lane)
        if self._over:
            raise SessionClosed("this session is closed")
        self._link = link
        link.open(self._number, self)
        return await self._asked(self._run(start, complete=complete))

    def _run(self, start: Start, *, complete: bool) -> Run:
        return Run(
            self._number,
            self._source,
            self._identifiers,
            encode_start(start, self._limits),
            self._wall_seconds,
            time.monotonic() - self._since,
            start.now_ms,
            array.array("Q", start.clock).tobytes(),
            complete,
        )

    async def _stepped(self, request: Replies | Conclude) -> Step:
        try:
            answer = await self._asked(request)
        except WorkerLost as exc:
            return self._ended(_lost(str(exc)))
        except BaseException:
            self.close()
            raise
        return self._step(answer)

    async def _asked(self, request: Run | Replies | Conclude) -> Answer:
        """One exchange, once there is a place among the guests that run."""
        places = self._sandbox.running
        try:
            places.acquire_on_behalf_of_nowait(self)
        except anyio.WouldBlock:
            asked = time.monotonic()
            try:
                await places.acquire_on_behalf_of(self)
            finally:
                self.queued_seconds += time.monotonic() - asked
        try:
            if self._link is None:
                raise WorkerLost(GONE)
            waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
            self._waiting = waiting
            self._link.send(request)
            return await waiting
        finally:
            self._waiting = None
            places.release_on_behalf_of(self)

    def _take(self, facts: Facts) -> None:
        facts.source = self._code
        self.facts = facts

    def _step(self, answer: Answer) -> Step:
        if isinstance(answer, Stepped):
            if answer.facts is not None:
                self._take(answer.facts)
            self.readings.frombytes(answer.readings)
            if not isinstance(answer.step, Calls):
                return self._ended(answer.step)
            if self._sandbox.holds_too_much(self._number, answer.memory):
                self.close()
                text = self._limits.total_memory_text
                return Failed(ErrorInfo("MemoryError", text, limit=TOTAL_MEMORY))
            return answer.step
        self._ended(None)
        if isinstance(answer, NotCode):
            raise SandboxSyntaxError(
                answer.message,
                line=answer.line,
                column=answer.column,
                source_line=answer.source_line,
                hint=answer.hint,
                kind=answer.kind,
            )
        if isinstance(answer, Refused):
            raise ReadingTooLong(answer.text) if answer.code == ReadingTooLong.code else error_of(answer)
        raise SandboxError(f"the sandbox answered {type(answer).__name__}")

    def _ended(self, step: Step | None) -> Step:
        self._over = True
        self._sandbox.held.pop(self._number, None)
        link, self._link = self._link, None
        if link is not None:
            link.end(self._number)
        return step if step is not None else Failed.placeholder()

    def _check(self, answer: Stepped) -> None:
        """What decoding does not see: raises GuestFault for a step that a guest within its limits cannot make."""
        if len(answer.readings) % 8 or len(self.readings) + len(answer.readings) // 8 > MOST_READINGS:
            raise GuestFault("clock readings that are none")
        step, limits = answer.step, self._limits
        if isinstance(step, Calls):
            self._check_calls(step.calls)
            return
        if isinstance(step, Done) and len(step.text) > limits.value_bytes:
            raise GuestFault("a value over its limit")
        if sum(map(len, step.console.lines)) > CONSOLE_SLACK * limits.console_bytes:
            raise GuestFault("a console larger than its buffer")

    def _check_calls(self, calls: Sequence[Call]) -> None:
        limits = self._limits
        if len(self._known) + len(calls) > limits.calls + limits.other_messages:
            raise GuestFault("more calls than a chain may make")
        for call in calls:
            if call.id in self._known:
                raise GuestFault(f"call {call.id} twice")
            self._known.add(call.id)
            try:
                call.arguments = orjson.loads(call.text)
            except orjson.JSONDecodeError as exc:
                raise GuestFault(f"arguments of call {call.id} that are not JSON: {exc}") from None


def _lost(text: str) -> Failed:
    """The end of a chain whose process is gone."""
    return Failed(ErrorInfo("WorkerLost", text, limit=WorkerLost.code))


class Sandbox:
    """Makes sessions and keeps the processes they run in. `warm` may be called from any thread, all else belongs to
    the event loop."""

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
        self._lock = threading.Lock()  # of the list of links: `warm` adds to it on a thread
        self._links: list[Link] = []
        self._retired: list[Link] = []
        self._closed = False

    def next_number(self) -> int:
        return next(self._numbers)

    def session(
        self, code: str, identifiers: Collection[str] = (), *, wall_seconds: float | None = None
    ) -> Session:
        """A new session; nothing happens before its `start`. `identifiers` are the globals that are backends;
        `wall_seconds` replaces the default limit."""
        return Session(
            self, code, identifiers, self.limits.wall_seconds if wall_seconds is None else wall_seconds
        )

    def warm(self) -> None:
        """Start the usual processes and wait for them; blocking, idempotent. Raises SandboxError."""
        while True:
            with self._lock:
                links = [link for link in self._links if link.lane == "small"]
                if len(links) < self._processes:
                    links = [self._new("small")]
            for link in links:
                self._made_ready(link)
            if len(links) == self._processes:
                return

    def set_limits(self, limits: Limits) -> None:
        """Limits of the chains that begin from now on; new processes take them, the old ones end with their chains."""
        if limits == self.limits:
            return
        with self._lock:
            self.limits = limits
            self.running.total_tokens = limits.guests
            links, self._links = self._links, []
            self._retired += links
        for link in links:
            self._changed(link)

    def holds_too_much(self, session: int, memory: int) -> bool:
        """Note what a guest holds; whether it must end because all together hold too much, and it the most. Within one
        process that is seen at every tick; only here is it known of several."""
        self.held[session] = memory
        if len(self._links) + len(self._retired) < 2:
            return False
        sizes = self.held.values()
        return sum(sizes) > self.limits.total_memory_mb * MIB and memory >= max(sizes)

    async def link_for(self, lane: Lane) -> Link:
        """The least busy process of a kind; a new one when all are full. Raises SandboxError."""
        link = self._chosen(lane)
        try:
            await link.until_ready()
        except SandboxError:
            self._forget(link)
            raise
        return link

    def close(self) -> None:
        """End all processes and threads; sessions still open are lost."""
        with self._lock:
            self._closed = True
            links = [*self._links, *self._retired]
            self._links, self._retired = [], []
        for link in links:
            link.close()

    @property
    def confinement(self) -> list[str]:
        """The walls around sandbox processes that the kernel granted; empty in thread mode."""
        return next((link.confinement for link in self._links if link.ready), [])

    @property
    def cache_problem(self) -> str:
        """Why the compiled guest cannot be kept on disk, so that every start compiles it; "" when it can."""
        return next((link.cache_problem for link in self._links if link.ready), "")

    def _chosen(self, lane: Lane) -> Link:
        with self._lock:
            if self.isolation == "thread":
                return next(iter(self._links), None) or self._new("small")
            links = [link for link in self._links if link.lane == lane and not link.gone]
            free = [link for link in links if link.guests < self._guests_per_process]
            usual = self._processes if lane == "small" else 1
            best = min(free, key=lambda link: (not link.ready, link.guests), default=None)
            if best is None or (len(links) < usual and best.guests):
                return self._new(lane)
            return best

    def _new(self, lane: Lane) -> Link:
        if self._closed:
            raise SessionClosed("the sandbox is closed")
        limits = self.limits
        settings = CoreSettings(
            limits, limits.guests + 1, self._cache_dir, self._watched, second_parser=lane == "second"
        )
        if self.isolation == "thread":
            # Imported here because it brings the engine and the parsers into this process.
            embedded = importlib.import_module("gatemini_sandbox.embedded")
            link: Link = embedded.ThreadLink(settings, lane, self._changed)
        else:
            link = ProcessLink(settings, lane, self._changed)
        self._links.append(link)
        return link

    def _made_ready(self, link: Link) -> None:
        try:
            link.make_ready()
        except SandboxError:
            self._forget(link)
            raise
        if self._closed:  # meanwhile
            link.close()
            raise SessionClosed("the sandbox is closed")

    def _forget(self, link: Link) -> None:
        with self._lock:
            for links in (self._links, self._retired):
                if link in links:
                    links.remove(link)

    def _changed(self, link: Link) -> None:
        """A process was lost, or has a chain less: replace it, or end it when it is not needed any more."""
        if link.gone:
            was_usual = link in self._links and link.lane == "small"
            self._forget(link)
            if was_usual and not self._closed:
                self._warm_soon()
        elif not link.guests:
            if link in self._retired:
                self._forget(link)
                link.close()
            elif self._is_extra(link):
                self._let_go_later(link)

    def _is_extra(self, link: Link) -> bool:
        usual = [one for one in self._links if one.lane == "small"][: self._processes]
        return self.isolation == "process" and link in self._links and link not in usual

    def _let_go_later(self, link: Link) -> None:
        def let_go() -> None:
            if not link.guests and self._is_extra(link):
                self._forget(link)
                link.close()

        _on_the_loop(lambda loop: loop.call_later(IDLE_SECONDS, let_go))

    def _warm_soon(self) -> None:
        def warm() -> None:
            try:
                self.warm()
            except SandboxError as exc:
                logger.warning("a lost sandbox process is not replaced yet: %s", exc)

        _on_the_loop(lambda loop: loop.run_in_executor(None, warm))


def _on_the_loop(do: Callable[[asyncio.AbstractEventLoop], object]) -> None:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:  # closed without one: the next chain starts what it needs
        return
    do(loop)
