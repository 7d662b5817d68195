"""Run one chain in one guest, step by step.

A step is a handful of calls into the machine: replies in, all jobs run, outbox out.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from gatemini_sandbox.errors import GuestFault
from gatemini_sandbox.guest_messages import DONE, FAILED, PROTOCOL, Raw, outbox_head
from gatemini_sandbox.limits import MIB, Limits
from gatemini_sandbox.webassembly.budget import Budget, Ledger
from gatemini_sandbox.webassembly.engine import Machine
from gatemini_sandbox.webassembly.image import Image
from gatemini_sandbox.webassembly.machine_pool import MachinePool
from gatemini_sandbox.webassembly.quickjs import UNDEFINED, QuickJS, Threw
from gatemini_sandbox.webassembly.traps import Trapped
from gatemini_sandbox.webassembly.wasi import Clock

MOST_REJECTIONS = 20
TELLING_SECONDS = 0.5
"""Wall time of the step that collects the end of a chain, when its own is over."""
NO_CALLS = b'"calls":[]}'
"""The end of an outbox in which there is nothing to do."""
CONSOLE_HEAD = 16
FULL = 0.9
"""Part of its memory from which a guest that ended strangely is taken to have run out of it."""


class Guest:
    """One chain's guest. Its steps block, and give what the guest says unchecked (steps.py checks it).

    After the last step its memory no longer counts, and is held until `close`. `stop` may be called on any thread,
    everything else on one thread at a time.
    """

    def __init__(self, pool: MachinePool, image: Image, limits: Limits, ledger: Ledger, clock: Clock) -> None:
        self._pool = pool
        self._image = image
        self._limits = limits
        self._clock = clock
        self._machine: Machine | None = None
        self._closing = threading.Lock()
        self._ended_well = False
        self.budget = Budget(limits.cpu_seconds, time.monotonic() + limits.wall_seconds, ledger)

    def stop(self) -> None:
        """End the guest within a tick, whatever it does."""
        self.budget.cancelled = True

    def close(self) -> None:
        with self._closing:  # two threads at once would give one machine back twice
            machine, self._machine = self._machine, None
        if machine is not None and not (self._ended_well and self._pool.give_back(machine)):
            machine.close()

    @property
    def memory_bytes(self) -> int:
        with self._closing:  # another thread may free it meanwhile
            return 0 if self._machine is None else self._machine.locate()[1]

    def begin(self, start: bytes, source: bytes) -> Raw:
        """The first step: a machine with the booted memory, the start message, the code."""
        return self._step(lambda: self._begin(start, source))

    def resume(self, replies: bytes) -> Raw:
        """The next step, with a batch of replies; empty when only time has passed."""
        return self._step(lambda: self._resume(replies))

    def outcome(self) -> Raw:
        """The end of a chain whose code is settled, without waiting for its open calls."""
        # The wall time may be over already, and must not end this step too.
        self.budget.wall_until = max(self.budget.wall_until, time.monotonic() + TELLING_SECONDS)
        return self._step(lambda: self._ended(Raw(end="done")))

    def _step(self, work: Callable[[], Raw]) -> Raw:
        raw = Raw()
        try:
            if self._machine is None:
                self._restore()
            raw = self._js.machine.run(work)
        except Trapped as exc:
            raw = Raw(end="trapped", reason=exc.reason, detail=exc.text)
        except (Threw, GuestFault) as exc:
            detail = str(exc) if isinstance(exc, GuestFault) else ""
            raw = Raw(end="broken", detail=detail)
        raw.readings = self._clock.readings
        if raw.end is not None:
            self._ended_well = raw.end in ("done", "failed", "deadlock")
            self._last_words(raw)
            if self._machine is not None:
                self._machine.retire()
        return raw

    def _restore(self) -> None:
        self._machine = machine = self._pool.take()
        machine.budget, machine.clock = self.budget, self._clock
        self._js = QuickJS(machine, self._image.addresses)

    def _begin(self, start: bytes, source: bytes) -> Raw:
        js, functions = self._js, self._image.functions
        js.call(functions["begin"], js.parse(start))
        try:
            main = js.evaluate(source, PROTOCOL["program"])
        except Threw as exc:
            return self._ended(Raw(end="failed", text=js.text(js.call(functions["describe"], exc.value))))
        js.call(functions["run"], main)
        return self._pump(Raw())

    def _resume(self, replies: bytes) -> Raw:
        if replies:
            self._js.call(self._image.functions["deliver"], self._js.parse(replies))
        return self._pump(Raw())

    def _pump(self, raw: Raw) -> Raw:
        """Runs jobs and due timers until nothing is left to do now. Only jobs run the chain's own code."""
        js, functions = self._js, self._image.functions
        while True:
            while (thrown := js.run_jobs()) is not None:
                js.call(functions["rejected"], UNDEFINED, thrown)
            outbox = js.text(js.call(functions["collect"]))
            if raw.outboxes and raw.outboxes[-1].endswith(NO_CALLS):
                raw.outboxes.pop()  # only the last one's state counts: a hundred thousand timers leave as many
            raw.outboxes.append(outbox)
            state, opened, wake = outbox_head(outbox)
            if state in (DONE, FAILED) or wake != 0:
                break
            js.call(functions["fire"])
        if state == FAILED:
            raw.end = "failed"
        elif state == DONE:
            raw.end = "done" if opened == 0 else None
        elif opened == 0 and wake is None:
            raw.end = "deadlock"
        return raw if raw.end is None else self._ended(raw)

    def _ended(self, raw: Raw) -> Raw:
        """Add what the guest says at its end: value or error, notes, ids."""
        js, functions = self._js, self._image.functions
        if not raw.text and raw.end in ("done", "failed"):
            raw.text = js.text(js.call(functions["outcome"]))
        for promise, reason in js.unhandled_rejections(MOST_REJECTIONS):
            js.call(functions["rejected"], promise, reason)
        raw.summary = js.text(js.call(functions["summary"]))
        return raw

    def _last_words(self, raw: Raw) -> None:
        """The console buffer and the memory in use: both can be read even after a trap."""
        if self._machine is None:
            return
        raw.full = self.memory_bytes > FULL * self._limits.memory_mb * MIB
        head = self._machine.read(self._image.console, CONSOLE_HEAD)
        used = min(max(int.from_bytes(head[:4], "little", signed=True), 0), self._image.console_bytes)
        raw.console = head + self._machine.read(self._image.console + CONSOLE_HEAD, used)
