"""One chain in one guest, as the gateway sees it: start, resume until it has ended, close."""

from __future__ import annotations

import array
import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence

import anyio
import orjson

from gatemini_sandbox.errors import GuestFault, ReadingTooLong, SandboxError, SessionClosed, WorkerLost
from gatemini_sandbox.limits import TOTAL_MEMORY
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
from gatemini_sandbox.processes.process_pool import Pool
from gatemini_sandbox.processes.supervised_worker import GONE, Lane, SupervisedWorker, error_of
from gatemini_sandbox.typescript.syntax_error import SandboxSyntaxError

LARGE_CODE = 8 * 1024
"""Bytes of code from which it is parsed and run beside no small one: parsing holds the others of its process."""
MOST_READINGS = 10_000
"""Clock readings of one chain that a guest keeps (wasi.py)."""
CONSOLE_SLACK = 4
"""The console's text may grow when broken UTF-8 in it is replaced: three bytes for one."""

Supply = Callable[[Needs], Awaitable[Start]]
"""Gives the start message of a program that asks for the catalog, interfaces or explanations of names."""


class Session:
    """One chain in one guest. Cancelling a step drops the guest; `close` must be called at the end."""

    def __init__(self, pool: Pool, code: str, identifiers: Collection[str], wall_seconds: float) -> None:
        self._pool = pool
        self._code = code
        self._source = code.encode("utf-8", "replace")
        self._identifiers = sorted(identifiers)
        self._since = time.monotonic()
        self._wall_seconds = wall_seconds
        self._number = pool.next_number()
        self._limits = pool.limits
        self._worker: SupervisedWorker | None = None
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
        return await self._stepped(self._begun(lane, start, supply))

    async def resume(self, replies: Sequence[Reply]) -> Step:
        """Go on with these answers; with none, only time has passed."""
        self._check_live()
        return await self._stepped(self._exchange(Replies(self._number, list(replies))))

    async def outcome(self) -> Step:
        """The end of a chain whose last step was Calls with `settled`, without waiting for its open calls."""
        self._check_live()
        return await self._stepped(self._exchange(Conclude(self._number)))

    def close(self) -> None:
        """Free the guest, also while it runs. Idempotent."""
        worker = self._leave()
        if worker is not None:
            worker.drop(self._number)

    # -- called by the worker ------------------------------------------------------------------------------

    def answered(self, answer: Answer) -> None:
        waiting = self._waiting
        if waiting is None:
            raise GuestFault("an answer for a chain that waits for none")
        if isinstance(answer, Stepped):
            self._check(answer)
        self._waiting = None
        if not waiting.done():
            waiting.set_result(answer)

    def lost(self, text: str, *, unread: bool) -> None:
        self._worker = None
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_exception(WorkerLost(text, unread=unread))

    # -- inside --------------------------------------------------------------------------------------------

    def _check_live(self) -> None:
        if not self._started or self._over or self._waiting is not None:
            raise SessionClosed("this session is not at a step: it was not started, has ended, or is closed")

    async def _begun(self, lane: Lane, start: Start, supply: Supply | None) -> Answer:
        try:
            answer = await self._sent_to_one(lane, start, complete=supply is None)
        except WorkerLost as lost:
            if not lost.unread:
                raise
            # It ended while it was idle: the chain has not begun, so another process may run it.
            answer = await self._sent_to_one(lane, start, complete=supply is None)
        if isinstance(answer, Needs) and supply is not None:
            self._take(answer.facts)
            answer = await self._exchange(self._run(await supply(answer), complete=True))
        return answer

    async def _sent_to_one(self, lane: Lane, start: Start, *, complete: bool) -> Answer:
        """Send the chain to the least busy process; its first answer."""
        worker = self._worker = self._pool.worker_for(lane)
        worker.open(self._number, self)  # before it is ready, so that no other chain takes the place
        await self._pool.until_ready(worker)
        return await self._exchange(self._run(start, complete=complete))

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

    async def _stepped(self, exchange: Awaitable[Answer]) -> Step:
        """The step that an exchange ends with. Where the process is gone it is the chain's end; other errors close."""
        try:
            answer = await exchange
        except WorkerLost as exc:
            self._end()
            return Failed(ErrorInfo("WorkerLost", str(exc), limit=WorkerLost.code))
        except BaseException:
            self.close()
            raise
        return self._step(answer)

    async def _exchange(self, request: Run | Replies | Conclude) -> Answer:
        """One exchange, once there is a place among the guests that run."""
        places = self._pool.running
        try:
            places.acquire_on_behalf_of_nowait(self)
        except anyio.WouldBlock:
            since = time.monotonic()
            try:
                await places.acquire_on_behalf_of(self)
            finally:
                self.queued_seconds += time.monotonic() - since
        try:
            if self._worker is None:
                raise WorkerLost(GONE, unread=True)
            waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
            self._waiting = waiting
            self._worker.send(request)
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
                self._end()
                return answer.step
            if self._pool.holds_too_much(self._number, answer.memory):
                self.close()
                text = self._limits.total_memory_text
                return Failed(ErrorInfo("MemoryError", text, limit=TOTAL_MEMORY))
            return answer.step
        self._end()
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

    def _end(self) -> None:
        worker = self._leave()
        if worker is not None:
            worker.end(self._number)

    def _leave(self) -> SupervisedWorker | None:
        self._over = True
        self._pool.held.pop(self._number, None)
        worker, self._worker = self._worker, None
        return worker

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
