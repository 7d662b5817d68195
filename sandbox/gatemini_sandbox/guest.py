"""QuickJS inside the machine: the only file that knows its C API (QuickJS-NG 0.15, the pinned reactor build).

One guest is booted with the runtime's JavaScript; its memory becomes an image, and every chain gets a machine whose
memory is that image (shelf.py). A step is a handful of crossings: replies in, all jobs run, outbox out.
Above: session.py, worker.py. Below: engine.py, messages.py, the JavaScript of gatemini_js.
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

from gatemini_sandbox import limits as codes
from gatemini_sandbox.budget import Budget, Ledger
from gatemini_sandbox.engine import Engine, Machine, Trapped
from gatemini_sandbox.errors import GuestFault, GuestTampered
from gatemini_sandbox.limits import MIB, Limits
from gatemini_sandbox.messages import DONE, FAILED, PROTOCOL, Raw, outbox_head
from gatemini_sandbox.module import PAGE, STACK_BYTES
from gatemini_sandbox.shelf import Image, Shelf
from gatemini_sandbox.wasi import Clock

logger = logging.getLogger(__name__)

# JSValue is 64 bits with the tag in the upper half (NaN boxing of 32-bit builds, quickjs.h).
UNDEFINED = 3 << 32
TAG_EXCEPTION = 6
EVAL_GLOBAL = 0
# Slot of js_std_promise_rejection_tracker in the function table of the pinned build, and where the list it
# fills starts in quickjs-libc's thread state; entries are {prev, next, promise, reason}.
REJECTION_TRACKER = 73
REJECTION_LIST = 32
LIBC_OPAQUE = 0  # js_std_cmd: the runtime's libc state

INBOX_BYTES = PAGE
"""Messages up to this size use a block that is always there."""
GC_BYTES = 2 * MIB
"""Allocation after which the guest first looks for cycles; QuickJS' own 256 KiB costs a short chain several looks."""
HEADROOM_BYTES = MIB
"""Heap that is there from the beginning: a guest that has not grown can be put back to its image."""
COMPARE = 4096
"""Grain of the memory image: pieces of this size that a fresh instance already has are left out."""
MOST_REJECTIONS = 20
TELLING_SECONDS = 0.5
"""What a guest whose time is over gets to say how far it came."""
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
ALWAYS_CALLED = (
    "JS_ParseJSON",
    "JS_Call",
    "JS_Eval",
    "JS_FreeValue",
    "js_std_loop_once",
    "JS_ToCStringLen2",
    "JS_FreeCString",
)
NO_CALLS = b'"calls":[]}'
"""The end of an outbox in which there is nothing to do."""
JOB_THREW = 0xFFFFFFFE
CONSOLE_HEAD = 16
FULL = 0.9
"""Part of its memory from which a guest that ended strangely is taken to have run out of it."""


class Longer(Exception):
    """A step on the caller's thread is not over: `Guest.go_on` takes it from where it was left, on any thread."""


class Threw(Exception):
    """A guest function ended with a JavaScript exception; `value` is the thrown JSValue, owned."""

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value


class Api:
    """The C API over one machine."""

    def __init__(self, machine: Machine, context: int, inbox: int, scratch: int) -> None:
        self.machine = machine
        self.context = context
        self._inbox = inbox
        self._scratch = scratch

    def allocate(self, size: int) -> int:
        at = self.machine.call32("malloc", size)
        if at == 0:
            raise Trapped(codes.MEMORY)
        return at

    def put(self, data: bytes) -> tuple[int, bool]:
        """`data` and a NUL in guest memory; True when it must be freed."""
        own = len(data) >= INBOX_BYTES
        at = self.allocate(len(data) + 1) if own else self._inbox
        self.machine.write(at, data + b"\0")
        return at, own

    def checked(self, value: int) -> int:
        if value >> 32 == TAG_EXCEPTION:
            raise Threw(self.machine.call("JS_GetException", self.context))
        return value

    def parse(self, text: bytes) -> int:
        at, own = self.put(text)
        value = self.machine.call("JS_ParseJSON", self.context, at, len(text), self._scratch)
        if own:
            self.machine.call("free", at)
        return self.checked(value)

    def evaluate(self, source: bytes, name: str) -> int:
        label = name.encode() + b"\0"
        self.machine.write(self._scratch + 64, label)
        at, own = self.put(source)
        value = self.machine.call("JS_Eval", self.context, at, len(source), self._scratch + 64, EVAL_GLOBAL)
        if own:
            self.machine.call("free", at)
        return self.checked(value)

    def call(self, function: int, *arguments: int) -> int:
        """Calls a JavaScript function; takes over the arguments, gives the result."""
        machine = self.machine
        if arguments:
            machine.write(self._scratch, struct.pack(f"<{len(arguments)}Q", *arguments))
        value = machine.call("JS_Call", self.context, function, UNDEFINED, len(arguments), self._scratch)
        for argument in arguments:
            self.release(argument)
        return self.checked(value)

    def release(self, value: int) -> None:
        if value >> 32 > 0xFFFF0000:  # tags with a reference count are negative
            self.machine.call("JS_FreeValue", self.context, value)

    def text(self, value: int) -> bytes:
        """UTF-8 of a string, which is released."""
        machine = self.machine
        at = machine.call32("JS_ToCStringLen2", self.context, self._scratch, value, 0)
        if at == 0:
            raise Threw(machine.call("JS_GetException", self.context))
        data = machine.read(at, int.from_bytes(machine.read(self._scratch, 4), "little"))
        machine.call("JS_FreeCString", self.context, at)
        self.release(value)
        return data

    def item(self, value: int, index: int) -> int:
        return self.checked(self.machine.call("JS_GetPropertyUint32", self.context, value, index))


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
    machine.call("JS_SetHostPromiseRejectionTracker", runtime, REJECTION_TRACKER, 0)
    inbox, scratch = machine.call32("malloc", INBOX_BYTES + 1), machine.call32("malloc", 256)
    machine.write(scratch, struct.pack("<I", runtime) + bytes(252))
    rejections = machine.call32("js_std_cmd", LIBC_OPAQUE, scratch) + REJECTION_LIST
    api = Api(machine, context, inbox, scratch)
    functions, console = _load_runtime(api, limits)
    machine.call("JS_RunGC", runtime)
    machine.call("free", api.allocate(HEADROOM_BYTES))
    machine.write(
        machine.engine.stack_bottom, bytes(STACK_BYTES)
    )  # what booting left there is no part of the image
    size = machine.locate()[1]
    pieces = _differences(fresh, machine.read(0, size))
    return Image(
        size // PAGE,
        pieces,
        runtime,
        context,
        functions,
        ALWAYS_CALLED,
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
    """One chain's guest, step by step and blocking. Gives raw facts: what it says is believed by steps.py only.

    After its last step it counts no more, but its memory is held until `close`, which nobody has to wait for.
    `stop` may be called from any thread, everything else by one thread at a time.
    """

    def __init__(self, shelf: Shelf, image: Image, limits: Limits, ledger: Ledger, clock: Clock) -> None:
        self._shelf = shelf
        self._image = image
        self._limits = limits
        self._clock = clock
        self._machine: Machine | None = None
        self._closing = threading.Lock()
        self._here = False
        self._ended_well = False
        self._rest: Callable[[], Raw] | None = None
        self.budget = Budget(limits.cpu_seconds, time.monotonic() + limits.wall_seconds, ledger)

    def stop(self) -> None:
        """Ends the guest within a tick, wherever it is."""
        self.budget.cancelled = True

    def close(self) -> None:
        with self._closing:  # twice at once would put one machine on the shelf twice
            machine, self._machine = self._machine, None
        if machine is not None and not (self._ended_well and self._shelf.give_back(machine)):
            machine.close()

    @property
    def serves_again(self) -> bool:
        """Whether `close` is likely to put its machine back on the shelf, which takes a tenth of a millisecond."""
        grown = self.memory_bytes != self._image.pages * PAGE
        return self._ended_well and not grown and self._shelf.reusing and not self._shelf.full

    @property
    def memory_bytes(self) -> int:
        with self._closing:  # asked on one thread while another frees it, it would be read from what is gone
            return 0 if self._machine is None else self._machine.locate()[1]

    def begin(self, start: bytes, source: bytes) -> Raw:
        """The first step: a machine with the booted memory, the start message, the code."""
        return self._step(lambda: self._begin(start, source))

    def resume(self, replies: bytes) -> Raw:
        """Goes on with a batch of replies; empty when only time has passed."""
        return self._step(lambda: self._resume(replies))

    def begin_here(self, start: bytes, source: bytes) -> Raw | None:
        """As `begin`, on a thread that others wait for: None at the first tick, and `go_on` is to follow."""
        return self._tried_here(lambda: self._begin(start, source))

    def resume_here(self, replies: bytes) -> Raw | None:
        """As `resume`; see `begin_here`."""
        return self._tried_here(lambda: self._resume(replies))

    def go_on(self) -> Raw:
        """The rest of a step that was left."""
        rest, self._rest = self._rest, None
        if rest is None:
            raise GuestFault("no step of this guest was left")
        return self._step(rest)

    @property
    def left(self) -> bool:
        """Whether a step was left, so that `go_on` must follow."""
        return self._rest is not None

    def _tried_here(self, work: Callable[[], Raw]) -> Raw | None:
        self._here = True
        try:
            return self._step(work)
        except Longer:
            return None
        finally:
            self._here = False

    def _leave_if_here(self, rest: Callable[[], Raw]) -> None:
        """Before what cannot be left once it is begun: on the caller's thread, leave that to another."""
        if self._here:
            self._rest = rest
            raise Longer

    def outcome(self) -> Raw:
        """The end of a chain whose code is settled, without waiting for its open calls."""
        # Asked for when the wall time is over: telling what there is must not fail for that.
        self.budget.wall_until = max(self.budget.wall_until, time.monotonic() + TELLING_SECONDS)
        return self._step(lambda: self._ended(Raw(end="done")))

    def _step(self, work: Callable[[], Raw]) -> Raw:
        raw = Raw()
        try:
            if self._machine is None:
                self._restore()
            raw = self._api.machine.run(work, here=self._here)
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
        return self._pumped(raw, self._jobs(raw))

    def _jobs(self, raw: Raw) -> int:
        machine, context = self._api.machine, self._api.context
        if not self._here:
            return machine.call32("js_std_loop_once", context)
        done = machine.begin32("js_std_loop_once", context)
        if done is None:
            self._leave_if_here(lambda: self._pumped(raw, machine.finish32()))
        return done or 0

    def _pumped(self, raw: Raw, jobs: int) -> Raw:
        machine, api, functions = self._api.machine, self._api, self._image.functions
        while True:
            if jobs == JOB_THREW:
                self._leave_if_here(lambda: self._pumped(raw, JOB_THREW))
                reason = machine.call("JS_GetException", api.context)
                api.call(functions["rejected"], UNDEFINED, reason)
                jobs = self._jobs(raw)
                continue
            outbox = api.text(api.call(functions["collect"]))
            if raw.outboxes and raw.outboxes[-1].endswith(NO_CALLS):
                raw.outboxes.pop()  # only the last one's state counts: a hundred thousand timers leave as many
            raw.outboxes.append(outbox)
            state, opened, wake = outbox_head(outbox)
            if state in (DONE, FAILED) or wake != 0:
                break
            self._leave_if_here(lambda: self._fired(raw))
            api.call(functions["fire"])
            jobs = self._jobs(raw)
        if state == FAILED:
            raw.end = "failed"
        elif state == DONE:
            raw.end = "done" if opened == 0 else None
        elif opened == 0 and wake is None:
            raw.end = "deadlock"
        return raw if raw.end is None else self._ended(raw)

    def _fired(self, raw: Raw) -> Raw:
        self._api.call(self._image.functions["fire"])
        return self._pump(raw)

    def _ended(self, raw: Raw) -> Raw:
        """Adds what the guest says at its end: value or error, notes, ids."""
        api, functions = self._api, self._image.functions
        if not raw.text and raw.end in ("done", "failed"):
            raw.text = api.text(api.call(functions["outcome"]))
        entry = int.from_bytes(api.machine.read(self._image.rejections + 4, 4), "little")
        if entry != self._image.rejections:
            self._leave_if_here(lambda: self._ended(raw))  # what was thrown may have getters
        for _ in range(MOST_REJECTIONS):
            if entry == self._image.rejections:
                break
            _, after, promise, reason = struct.unpack("<IIQQ", api.machine.read(entry, 24))
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
