"""Run the programs of many chains: parse them, step their guests on threads of its own, read what they say.

The same class serves a sandbox process (process.py) and `isolation: thread` (embedded_worker.py). Requests come in by `handle`,
which never blocks; answers leave by the `emit` callback, from any thread.
"""

from __future__ import annotations

import array
import logging
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from gatemini_sandbox.errors import HostExhausted, ReadingTooLong, SandboxError
from gatemini_sandbox.guest_messages import Raw
from gatemini_sandbox.guests.guest import Guest
from gatemini_sandbox.guests.step_reader import Reader
from gatemini_sandbox.limits import MIB
from gatemini_sandbox.messages import (
    Answer,
    Calls,
    Conclude,
    Done,
    Drop,
    Dropped,
    Facts,
    Failed,
    Needs,
    NotCode,
    Refused,
    Replies,
    Run,
    Settings,
    Step,
    Stepped,
)
from gatemini_sandbox.typescript.parse_deadline import patience
from gatemini_sandbox.typescript.prepare import Program, prepare
from gatemini_sandbox.typescript.second_parser import oxc_module
from gatemini_sandbox.typescript.syntax_error import SandboxSyntaxError
from gatemini_sandbox.webassembly.budget import Ledger
from gatemini_sandbox.webassembly.engine import Engine
from gatemini_sandbox.webassembly.image import boot
from gatemini_sandbox.webassembly.machine_pool import MachinePool
from gatemini_sandbox.webassembly.wasi import Clock

logger = logging.getLogger(__name__)

THREAD_STACK = 16 * MIB
"""Native stack of each thread that steps guests: far above what wasm code and parsers may use of it, whatever the
system's default is."""
READING_SECONDS = 5.0
"""Most that parsing may take: a hundred times what the largest program a person writes needs."""
GIVEN_SECONDS = 1.0
"""Most that looking for the expressions behind an undefined value may take, or for what is read of results."""

OfSession = Run | Replies | Conclude | Drop


class _Chain:
    """One chain's guest. Its requests come one at a time; only Drop may come while one is under way."""

    __slots__ = ("busy", "dropped", "guest", "program", "reader", "sent", "session")

    def __init__(self, session: int) -> None:
        self.session = session
        self.program: Program | None = None
        self.guest: Guest | None = None
        self.reader: Reader | None = None
        self.sent = 0  # clock readings the gateway has
        self.busy = self.dropped = False


class Worker:
    """The engine with its guests. Making one loads the engine and boots the image: about 0.2 s, or two seconds
    more where the modules must be compiled; raises SandboxError. `start_threads` must follow."""

    def __init__(self, settings: Settings, emit: Callable[[Answer], None]) -> None:
        self._settings = settings
        self._limits = limits = settings.limits
        self._emit = emit
        cache_dir = None if settings.cache_dir is None else Path(settings.cache_dir)
        self.engine = Engine(cache_dir)
        self._image = boot(self.engine, limits)
        oxc_module.load(cache_dir)
        self._pool = MachinePool(self.engine, self._image, limits.memory_mb * MIB)
        self._pool.restock()
        self.ledger = Ledger(limits.total_memory_mb * MIB)
        self._chains: dict[int, _Chain] = {}
        self._lock = threading.Lock()
        self._work: queue.SimpleQueue[tuple[_Chain, OfSession, Callable[[], None] | None] | None] = (
            queue.SimpleQueue()
        )
        self._threads = 0

    def start_threads(self) -> None:
        """Start every thread there will be: a sandbox process may start none behind its walls."""
        self.engine.ticker.prepare()
        before = threading.stack_size(THREAD_STACK)
        try:
            for _ in range(self._settings.threads):
                threading.Thread(target=self._serve, name="sandbox-guest", daemon=True).start()
                self._threads += 1
        except RuntimeError as exc:
            self.close()
            raise HostExhausted(f"no thread for a guest: {exc}") from None
        finally:
            threading.stack_size(before)

    def handle(self, request: OfSession, then: Callable[[], None] | None = None) -> bool:
        """Take a request; the answer comes by `emit`, and afterwards the thread that made it calls `then`.
        Thread-safe, never blocks. Returns False where no thread has to do anything: then `then` is not called."""
        chain = self._accepted(request)
        if chain is not None:
            self._work.put((chain, request, then))
        return chain is not None

    def handle_here(self, request: OfSession) -> None:
        """Take a request and answer it on this thread, which `start_threads` has started."""
        chain = self._accepted(request)
        if chain is not None:
            self._answer(chain, request)

    def _accepted(self, request: OfSession) -> _Chain | None:
        """The chain that the request is the next of; None where nothing has to be done."""
        with self._lock:
            chain = self._chains.get(request.session)
            if chain is None and isinstance(request, Run):
                chain = self._chains[request.session] = _Chain(request.session)
            if chain is not None and isinstance(request, Drop):
                chain.dropped = True
                if chain.guest is not None:
                    chain.guest.stop()
            if chain is not None and not chain.busy:
                chain.busy = True
                return chain
        if chain is None:
            self._emit(Dropped(request.session))
        return None

    def close(self) -> None:
        """End the threads after what they are doing; guests that still run are stopped."""
        with self._lock:
            for chain in self._chains.values():
                chain.dropped = True
                if chain.guest is not None:
                    chain.guest.stop()
        for _ in range(self._threads):
            self._work.put(None)
        self._pool.close()

    def _serve(self) -> None:
        while (item := self._work.get()) is not None:
            chain, request, then = item
            self._answer(chain, request)
            if then is not None:
                then()
            del item, chain, request, then  # what it holds must not live until the next request

    def _answer(self, chain: _Chain, request: OfSession) -> None:
        self.engine.ticker.enter()  # ticks also come while a program is parsed or an error is placed
        try:
            self._answered(chain, request)
        finally:
            self.engine.ticker.leave()

    def _answered(self, chain: _Chain, request: OfSession) -> None:
        answer: Answer
        try:
            answer = self._done(chain, request)
        except SandboxSyntaxError as exc:
            answer = not_code(exc, chain.session)
        except SandboxError as exc:
            answer = Refused(chain.session, exc.code, str(exc))
        except Exception as exc:
            logger.exception("a step of a chain failed")
            answer = Refused(chain.session, SandboxError.code, f"{type(exc).__name__}: {exc}")
        goes_on = isinstance(answer, Needs) or (
            isinstance(answer, Stepped) and isinstance(answer.step, Calls)
        )
        with self._lock:
            chain.busy = False
            dropped = chain.dropped
            if dropped or not goes_on:
                self._chains.pop(chain.session, None)
        if not dropped:
            self._emit(answer)
            if goes_on:
                return
        if chain.guest is not None:
            chain.guest.close()
        if dropped:
            self._emit(Dropped(chain.session))
        self._pool.restock()

    def _done(self, chain: _Chain, request: OfSession) -> Answer:
        if isinstance(request, Run):
            return self._begin(chain, request)
        guest, reader = chain.guest, chain.reader
        if guest is None or reader is None or isinstance(request, Drop):
            return Dropped(chain.session)
        raw = (
            guest.outcome()
            if isinstance(request, Conclude)
            else guest.resume(reader.replies(request.replies))
        )
        return self._stepped(chain, reader, raw)

    def _begin(self, chain: _Chain, run: Run) -> Answer:
        program = chain.program = chain.program or self._parsed(run)
        facts = _facts(program)
        if not run.complete:
            needs = Needs(
                chain.session, facts, program.needs_catalog, program.needs_interfaces, sorted(program.read)
            )
            if needs.catalog or needs.interfaces or needs.read or facts.interface_literals:
                return needs
        limits = replace(self._limits, wall_seconds=run.wall_seconds)
        reader = chain.reader = Reader(program, limits)
        source = program.js.encode("utf-8", "replace")
        refused = reader.too_long(source)
        if refused is not None:
            return Stepped(chain.session, refused, facts=facts)
        clock = Clock.at(run.now_ms, array.array("Q", run.clock))
        guest = Guest(self._pool, self._image, limits, self.ledger, clock)
        guest.budget.wall_until -= run.waited_seconds
        with self._lock:
            chain.guest = guest
            if chain.dropped:
                guest.stop()
        answer = self._stepped(chain, reader, guest.begin(run.start, source))
        answer.facts = facts
        return answer

    def _parsed(self, run: Run) -> Program:
        source = run.source.decode("utf-8", "replace")
        with patience(min(READING_SECONDS, run.wall_seconds - run.waited_seconds)):
            return prepare(source, run.identifiers, self._settings.watched)

    def _stepped(self, chain: _Chain, reader: Reader, raw: Raw) -> Stepped:
        step: Step = reader.step(raw)
        if isinstance(step, Done) and step.kind == "undefined" and chain.program is not None:
            with suppress(ReadingTooLong), patience(GIVEN_SECONDS):
                step.given = list(chain.program.returned())
        if isinstance(step, Done | Failed) and reader.called and chain.program is not None:
            with suppress(ReadingTooLong), patience(GIVEN_SECONDS):
                step.reads = list(chain.program.reads())
        readings = array.array("Q", raw.readings[chain.sent :])
        chain.sent = len(raw.readings)
        memory = 0 if chain.guest is None else chain.guest.memory_bytes
        return Stepped(chain.session, step, memory, readings.tobytes())


def _facts(program: Program) -> Facts:
    return Facts(
        dict(program.shadowed),
        program.declared_never_called,
        program.lost_value,
        list(program.rounded),
        sorted(program.interface_literals),
    )


def not_code(error: SandboxSyntaxError, session: int = 0) -> NotCode:
    """A syntax error as a message."""
    return NotCode(
        session, error.message, error.line, error.column, error.source_line, error.hint, error.kind
    )
