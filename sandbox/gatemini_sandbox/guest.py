"""Boot QuickJS once, and run each chain in a guest whose memory is that image (shelf.py).

A step is a handful of calls into the machine: replies in, all jobs run, outbox out.
"""

from __future__ import annotations

import json
import logging
import struct
import threading
import time
from collections.abc import Callable
from importlib.resources import files
from typing import Any

from gatemini_sandbox.budget import Budget, Ledger
from gatemini_sandbox.c_api import (
    INBOX_BYTES,
    JOB_THREW,
    REJECTION,
    REJECTION_BYTES,
    UNDEFINED,
    Api,
    Threw,
    check_build,
    track_rejections,
)
from gatemini_sandbox.engine import Engine, Machine, Trapped
from gatemini_sandbox.errors import GuestFault, GuestTampered
from gatemini_sandbox.limits import MIB, Limits
from gatemini_sandbox.module import PAGE, STACK_BYTES
from gatemini_sandbox.outbox import DONE, FAILED, PROTOCOL, Raw, outbox_head
from gatemini_sandbox.shelf import Image, Shelf
from gatemini_sandbox.wasi import Clock

logger = logging.getLogger(__name__)

GC_BYTES = 2 * MIB
"""Allocation after which the guest first looks for cycles; QuickJS' own 256 KiB costs a short chain several looks."""
HEADROOM_BYTES = MIB
"""Heap that is there from the beginning: a guest that has not grown can be put back to its image."""
COMPARE = 4096
"""Grain of the memory image: pieces of this size that a fresh instance already has are left out."""
MOST_REJECTIONS = 20
TELLING_SECONDS = 0.5
"""Wall time of the step that collects the end of a chain, when its own is over."""
FUNCTIONS = (
    "begin",
    "run",
    "deliver",
    "collect",
    "fire",
    "outcome",
    "summary",
    "describe",
    "rejected",
    "console",
)
NO_CALLS = b'"calls":[]}'
"""The end of an outbox in which there is nothing to do."""
CONSOLE_HEAD = 16
FULL = 0.9
"""Part of its memory from which a guest that ended strangely is taken to have run out of it."""


def boot(engine: Engine, limits: Limits) -> Image:
    """Boots one guest and takes its memory. Nothing of a chain is in it: no seed, no clock, no names."""
    budget = Budget(60.0, time.monotonic() + 60.0, Ledger(1 << 40))
    machine = Machine(engine, budget, Clock.at(0.0), limits.memory_mb * MIB)
    try:
        fresh = machine.read(0, machine.locate()[1])
        image: Image = machine.run(lambda: _boot(machine, fresh, limits))
        return image
    except Threw as exc:
        raise GuestFault("the guest's own JavaScript does not run") from exc
    finally:
        machine.close()


def _boot(machine: Machine, fresh: bytes, limits: Limits) -> Image:
    machine.call("_initialize")
    _check_heap(machine)
    runtime = machine.call32("JS_NewRuntime")
    machine.call("JS_SetMaxStackSize", runtime, 0)
    machine.call("JS_SetGCThreshold", runtime, GC_BYTES)
    context = machine.call32("JS_NewContext", runtime)
    machine.call("js_std_init_handlers", runtime)
    inbox, scratch = machine.call32("malloc", INBOX_BYTES + 1), machine.call32("malloc", 256)
    rejections = track_rejections(machine, runtime, scratch)
    api = Api(machine, context, inbox, scratch)
    check_build(api, rejections)
    functions, console = _load_runtime(api, limits)
    machine.call("JS_RunGC", runtime)
    machine.call("free", api.allocate(HEADROOM_BYTES))
    machine.write(machine.engine.stack_bottom, bytes(STACK_BYTES))  # without what booting left there
    size = machine.locate()[1]
    pieces = _differences(fresh, machine.read(0, size))
    return Image(
        size // PAGE,
        pieces,
        context,
        functions,
        inbox,
        scratch,
        rejections,
        console,
        limits.console_bytes,
    )


def _check_heap(machine: Machine) -> None:
    """Raises GuestTampered if the allocator takes the C stack for free memory: it must know its heap's end by itself."""
    bottom = machine.engine.stack_bottom
    for size in (PAGE, STACK_BYTES // 2):
        at = machine.call32("malloc", size)
        if bottom - size < at < bottom + STACK_BYTES:
            raise GuestTampered("the guest's allocator uses the C stack as heap (STACK_PAGES)")
        machine.call("free", at)


def _load_runtime(api: Api, limits: Limits) -> tuple[dict[str, int], int]:
    """Evaluates the scripts; gives the bridge's functions and where the console buffer lies."""
    folder = files("gatemini_js")

    def script(name: str) -> int:
        return api.evaluate(folder.joinpath(name).read_bytes(), f"gatemini/{name}")

    def again(value: int) -> int:
        return api.machine.call("JS_DupValue", api.context, value)

    values = api.call(script("values.js"))
    encoding = api.call(script("encode.js"), again(values))
    shims = api.call(script("shims.js"), again(values))
    locale = api.call(script("locale.js"), again(values))
    timers = api.call(script("timers.js"), again(values))
    protocol = api.parse(json.dumps({**PROTOCOL, "console": _console_protocol(limits)}).encode())
    terminal = api.call(script("console.js"), again(values), again(protocol))
    backends = script("backends.js")
    bridge = api.call(
        script("prelude.js"), values, encoding, backends, terminal, shims, locale, timers, protocol
    )
    functions = {name: api.item(bridge, index) for index, name in enumerate(FUNCTIONS)}
    console = api.machine.call32("JS_GetArrayBuffer", api.context, api.allocate(4), functions["console"])
    if console == 0:
        raise GuestFault("the guest has no console buffer")
    return functions, console


def _console_protocol(limits: Limits) -> dict[str, Any]:
    """The console's part of the vocabulary with the sizes of these limits: its buffer is made at boot."""
    return {**PROTOCOL["console"], "bytes": limits.console_bytes, "line": limits.console_line}


def _differences(fresh: bytes, booted: bytes) -> tuple[tuple[int, bytes], ...]:
    pieces: list[tuple[int, bytes]] = []
    zero = bytes(COMPARE)
    start: int | None = None
    for at in range(0, len(booted) + COMPARE, COMPARE):
        old = fresh[at : at + COMPARE] or zero
        same = at >= len(booted) or booted[at : at + COMPARE] == old
        if not same and start is None:
            start = at
        elif same and start is not None:
            pieces.append((start, booted[start:at]))
            start = None
    return tuple(pieces)


class Guest:
    """One chain's guest. Its steps block, and give what the guest says unchecked (steps.py checks it).

    After the last step its memory no longer counts, and is held until `close`. `stop` may be called on any thread,
    everything else on one thread at a time.
    """

    def __init__(self, shelf: Shelf, image: Image, limits: Limits, ledger: Ledger, clock: Clock) -> None:
        self._shelf = shelf
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
        with self._closing:  # two threads at once would put one machine on the shelf twice
            machine, self._machine = self._machine, None
        if machine is not None and not (self._ended_well and self._shelf.give_back(machine)):
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
            raw = self._api.machine.run(work)
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
        image = self._image
        self._machine = machine = self._shelf.take()
        machine.budget, machine.clock = self.budget, self._clock
        self._api = Api(machine, image.context, image.inbox, image.scratch)

    def _begin(self, start: bytes, source: bytes) -> Raw:
        api, functions = self._api, self._image.functions
        api.call(functions["begin"], api.parse(start))
        try:
            main = api.evaluate(source, PROTOCOL["program"])
        except Threw as exc:
            return self._ended(Raw(end="failed", text=api.text(api.call(functions["describe"], exc.value))))
        api.call(functions["run"], main)
        return self._pump(Raw())

    def _resume(self, replies: bytes) -> Raw:
        if replies:
            self._api.call(self._image.functions["deliver"], self._api.parse(replies))
        return self._pump(Raw())

    def _pump(self, raw: Raw) -> Raw:
        """Runs jobs and due timers until nothing is left to do now. Only jobs run the chain's own code."""
        machine, api, functions = self._api.machine, self._api, self._image.functions
        while True:
            if machine.call32("js_std_loop_once", api.context) == JOB_THREW:
                reason = machine.call("JS_GetException", api.context)
                api.call(functions["rejected"], UNDEFINED, reason)
                continue
            outbox = api.text(api.call(functions["collect"]))
            if raw.outboxes and raw.outboxes[-1].endswith(NO_CALLS):
                raw.outboxes.pop()  # only the last one's state counts: a hundred thousand timers leave as many
            raw.outboxes.append(outbox)
            state, opened, wake = outbox_head(outbox)
            if state in (DONE, FAILED) or wake != 0:
                break
            api.call(functions["fire"])
        if state == FAILED:
            raw.end = "failed"
        elif state == DONE:
            raw.end = "done" if opened == 0 else None
        elif opened == 0 and wake is None:
            raw.end = "deadlock"
        return raw if raw.end is None else self._ended(raw)

    def _ended(self, raw: Raw) -> Raw:
        """Add what the guest says at its end: value or error, notes, ids."""
        api, functions = self._api, self._image.functions
        if not raw.text and raw.end in ("done", "failed"):
            raw.text = api.text(api.call(functions["outcome"]))
        entry = int.from_bytes(api.machine.read(self._image.rejections + 4, 4), "little")
        for _ in range(MOST_REJECTIONS):
            if entry == self._image.rejections:
                break
            _, after, promise, reason = struct.unpack(REJECTION, api.machine.read(entry, REJECTION_BYTES))
            duplicates = [api.machine.call("JS_DupValue", api.context, value) for value in (promise, reason)]
            api.call(functions["rejected"], *duplicates)
            entry = after
        raw.summary = api.text(api.call(functions["summary"]))
        return raw

    def _last_words(self, raw: Raw) -> None:
        """The console buffer and the memory in use: both can be read even after a trap."""
        if self._machine is None:
            return
        raw.full = self.memory_bytes > FULL * self._limits.memory_mb * MIB
        head = self._machine.read(self._image.console, CONSOLE_HEAD)
        used = min(max(int.from_bytes(head[:4], "little", signed=True), 0), self._image.console_bytes)
        raw.console = head + self._machine.read(self._image.console + CONSOLE_HEAD, used)
