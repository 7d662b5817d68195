"""QuickJS inside the machine: the only file that knows its C API (QuickJS-NG 0.15, the pinned reactor build).

One guest is booted with the runtime's JavaScript; its memory becomes an image, and every chain gets a fresh
machine whose memory is that image. A step is a handful of crossings: replies in, all jobs run, outbox out.
Above: session.py, worker.py. Below: engine.py, messages.py, the JavaScript of gatemini_js.
"""

from __future__ import annotations

import ctypes
import re
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Protocol

from gatemini_sandbox import limits as codes
from gatemini_sandbox.blame import refine
from gatemini_sandbox.engine import PAGE, Budget, Engine, Ledger, Machine, Trapped
from gatemini_sandbox.errors import GuestFault
from gatemini_sandbox.limits import MIB, Limits
from gatemini_sandbox.messages import (
    DONE,
    FAILED,
    PROTOCOL,
    Call,
    Calls,
    Console,
    Done,
    ErrorInfo,
    Failed,
    Outbox,
    Reply,
    Start,
    Step,
    Summary,
    decode_console,
    decode_error,
    decode_outbox,
    decode_summary,
    encode_replies,
    encode_start,
)
from gatemini_sandbox.wasi import Clock

# JSValue is 64 bits with the tag in the upper half (NaN boxing of 32-bit builds, quickjs.h).
UNDEFINED = 3 << 32
TAG_EXCEPTION = 6
TAG_OBJECT = 0xFFFFFFFF
EVAL_GLOBAL = 0
# Slot of js_std_promise_rejection_tracker in the function table of the pinned build, and where the list it
# fills starts in quickjs-libc's thread state; entries are {prev, next, promise, reason}.
REJECTION_TRACKER = 73
REJECTION_LIST = 32
LIBC_OPAQUE = 0  # js_std_cmd: the runtime's libc state

STACK_BYTES = 4 * MIB
CANARY = b"\xa5the C stack must never come here" * 2
INBOX_BYTES = PAGE
"""Messages up to this size use a block that is always there."""
GC_BYTES = 2 * MIB
"""Allocation after which the guest first looks for cycles; QuickJS' own 256 KiB costs a short chain several looks."""
COMPARE = 4096
"""Grain of the memory image: pieces of this size that a fresh instance already has are left out."""
MOST_REJECTIONS = 20
MOST_FRAMES = 20
OUT_OF_MEMORY_NULL = "null (thrown as null"
"""What is thrown when there is no memory left even for the error."""
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
_FRAME = re.compile(r"at ([^\n]*?) ?\(?" + re.escape(PROTOCOL["program"]) + r":(\d+):(\d+)\)?")


class Runnable(Protocol):
    """What a guest needs of a prepared program (wrap.Program)."""

    @property
    def js(self) -> str: ...
    def position(self, line: int, byte_column: int) -> tuple[int, int]: ...


class Threw(Exception):
    """A guest function ended with a JavaScript exception; `value` is the thrown JSValue, owned."""

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value


@dataclass(frozen=True, slots=True)
class Image:
    """The memory of a booted guest as differences from a fresh instance, and where things are in it."""

    pages: int
    pieces: tuple[tuple[int, bytes], ...]
    runtime: int
    context: int
    functions: dict[str, int]
    inbox: int
    scratch: int
    stack_bottom: int
    rejections: int
    console: int


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


def boot(engine: Engine, memory_bytes: int) -> Image:
    """Boots one guest and takes its memory. Nothing of a chain is in it: no seed, no clock, no names."""
    budget = Budget(60.0, time.monotonic() + 60.0, Ledger(1 << 40))
    machine = Machine(engine, budget, Clock.at(0.0), memory_bytes)
    try:
        fresh = machine.read(0, machine.locate()[1])
        image: Image = machine.run(lambda: _boot(machine, fresh))
        return image
    except Threw as exc:
        raise GuestFault("the guest's own JavaScript does not run") from exc
    finally:
        machine.close()


def _boot(machine: Machine, fresh: bytes) -> Image:
    machine.call("_initialize")
    stack = machine.call32("malloc", STACK_BYTES)
    machine.set_stack(stack + STACK_BYTES)
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
    functions, console = _load_runtime(api)
    machine.call("JS_RunGC", runtime)
    machine.write(stack, bytes(STACK_BYTES))
    machine.write(stack, CANARY)
    size = machine.locate()[1]
    pieces = _differences(fresh, machine.read(0, size))
    return Image(
        size // PAGE, pieces, runtime, context, functions, inbox, scratch, stack, rejections, console
    )


def _load_runtime(api: Api) -> tuple[dict[str, int], int]:
    """Evaluates the three scripts; gives the bridge's functions and where the console buffer lies."""
    folder = files("gatemini_js")

    def script(name: str) -> int:
        return api.evaluate(folder.joinpath(name).read_bytes(), f"gatemini/{name}")

    values = api.call(script("values.js"))
    shims = api.call(script("shims.js"), api.machine.call("JS_DupValue", api.context, values))
    protocol = api.parse(folder.joinpath("protocol.json").read_bytes())
    bridge = api.call(script("prelude.js"), values, shims, protocol)
    functions = {name: api.item(bridge, index) for index, name in enumerate(FUNCTIONS)}
    console = api.machine.call32("JS_GetArrayBuffer", api.context, api.allocate(4), functions["console"])
    if console == 0:
        raise GuestFault("the guest has no console buffer")
    return functions, console


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
    """One chain's guest, step by step and blocking; `stop` may be called from any thread."""

    def __init__(
        self, engine: Engine, image: Image, limits: Limits, ledger: Ledger, program: Runnable, start: Start
    ) -> None:
        self._engine = engine
        self._image = image
        self._limits = limits
        self._program = program
        self._start = start
        self._machine: Machine | None = None
        self._known: set[int] = set()
        self._notes: list[str] = []
        self._summary: Summary | None = None
        self.ended = False
        self.budget = Budget(limits.cpu_seconds, time.monotonic() + limits.wall_seconds, ledger)

    def stop(self) -> None:
        """Ends the guest within a tick, wherever it is."""
        self.budget.cancelled = True

    def close(self) -> None:
        machine, self._machine = self._machine, None
        if machine is not None:
            machine.close()

    @property
    def memory_bytes(self) -> int:
        return 0 if self._machine is None else self._machine.locate()[1]

    def begin(self) -> Step:
        """The first step: a fresh machine, the start message, the code."""
        source = self._program.js.encode("utf-8", "replace")
        if len(source) > 2 * self._limits.code_bytes:  # erasing types may lengthen code a little
            most = self._limits.code_bytes
            return self._fail(
                ErrorInfo("LimitError", f"the code is larger than {most} bytes", limit=codes.CODE)
            )
        return self._step(lambda: self._begin(source))

    def resume(self, replies: Sequence[Reply]) -> Step:
        message = encode_replies(replies, self._limits, self._notes) if replies else b""
        return self._step(lambda: self._resume(message))

    def _step(self, work: Callable[[], Step]) -> Step:
        try:
            if self._machine is None:
                self._restore()
            step: Step = self._api.machine.run(work)
        except Trapped as exc:
            step = self._fail(self._limit_error(exc))
        except Threw:
            step = self._fail(
                ErrorInfo("InternalError", "the bridge of this chain was broken by its own code")
            )
        except GuestFault as exc:
            step = self._fail(ErrorInfo("InternalError", f"the chain broke its sandbox: {exc}"))
        if not isinstance(step, Calls):
            self.ended = True
            self.close()
        return step

    def _restore(self) -> None:
        image = self._image
        clock = Clock.at(self._start.now_ms)
        machine = Machine(self._engine, self.budget, clock, self._limits.memory_mb * MIB)
        self._machine = machine
        address, size = machine.locate()
        missing = image.pages - size // PAGE
        if missing > 0:
            machine.grow(missing)
            address, size = machine.locate()
        for at, piece in image.pieces:
            ctypes.memmove(address + at, piece, len(piece))
        machine.set_stack(image.stack_bottom + STACK_BYTES)
        self._api = Api(machine, image.context, image.inbox, image.scratch)

    def _begin(self, source: bytes) -> Step:
        api, functions = self._api, self._image.functions
        api.call(functions["begin"], api.parse(encode_start(self._start, self._limits)))
        try:
            main = api.evaluate(source, PROTOCOL["program"])
        except Threw as exc:
            return self._fail(self._describe(exc.value))
        api.call(functions["run"], main)
        return self._pump()

    def _resume(self, message: bytes) -> Step:
        if message:
            self._api.call(self._image.functions["deliver"], self._api.parse(message))
        return self._pump()

    def _pump(self) -> Step:
        """Runs jobs and due timers until nothing is left to do now."""
        machine, api, functions = self._api.machine, self._api, self._image.functions
        calls: list[Call] = []
        while True:
            while machine.call32("js_std_loop_once", api.context) == 0xFFFFFFFE:
                reason = machine.call("JS_GetException", api.context)
                api.call(functions["rejected"], UNDEFINED, reason)
            outbox = decode_outbox(api.text(api.call(functions["collect"])), self._limits, self._known)
            calls += outbox.calls
            if outbox.state in (DONE, FAILED) or outbox.wake_ms != 0:
                break
            api.call(functions["fire"])
        self._check_canary()
        return self._decide(outbox, calls)

    def _decide(self, outbox: Outbox, calls: list[Call]) -> Step:
        if outbox.state == FAILED:
            if calls:
                names = ", ".join(
                    f"{call.backend or call.kind}.{call.tool or 'readResource'}" for call in calls
                )
                self._notes.append(f"not sent, because the code ended first: {names}"[:2000])
            error = self._api.text(self._api.call(self._image.functions["outcome"]))
            return self._fail(self._placed(*decode_error(error)))
        if outbox.state == DONE:
            return self._done() if outbox.open == 0 else Calls(calls, None, settled=True)
        if outbox.open == 0 and outbox.wake_ms is None:
            return self._fail(self._deadlock())
        return Calls(calls, outbox.wake_ms)

    def outcome(self) -> Step:
        """The end of a chain whose code is settled, without waiting for its open calls."""
        return self._step(self._done)

    def _done(self) -> Done:
        summary = self._sum_up()
        text = self._api.text(self._api.call(self._image.functions["outcome"]))
        return Done(
            text.decode("utf-8", "replace"),
            summary.kind,
            [*self._notes, *summary.notes],
            self._console(),
            summary.unawaited,
            summary.refs,
        )

    def _sum_up(self) -> Summary:
        """Reports rejections nobody handled, then asks for notes and ids."""
        api, image = self._api, self._image
        entry = int.from_bytes(api.machine.read(image.rejections + 4, 4), "little")
        for _ in range(MOST_REJECTIONS):
            if entry == image.rejections:
                break
            _, after, promise, reason = struct.unpack("<IIQQ", api.machine.read(entry, 24))
            duplicates = (api.machine.call("JS_DupValue", api.context, value) for value in (promise, reason))
            api.call(image.functions["rejected"], *duplicates)
            entry = after
        return decode_summary(api.text(api.call(image.functions["summary"])))

    def _fail(self, error: ErrorInfo) -> Failed:
        """A failed end with whatever can still be learned: console always, notes if the guest still runs."""
        notes, unawaited = list(self._notes), list[int]()
        if error.limit is None and self._machine is not None:
            try:
                summary = self._machine.run(self._sum_up)
                notes += summary.notes
                unawaited = summary.unawaited
            except (Trapped, Threw, GuestFault):
                notes.append("the notes of this chain were lost with it")
        return Failed(error, notes, self._console(), unawaited)

    def _console(self) -> Console:
        if self._machine is None:
            return Console()
        head = struct.unpack("<4i", self._machine.read(self._image.console, 16))
        body = self._machine.read(self._image.console + 16, PROTOCOL["console"]["bytes"])
        return decode_console(head, body)

    # --- errors ------------------------------------------------------------------------------------------------

    def _describe(self, thrown: int) -> ErrorInfo:
        text = self._api.text(self._api.call(self._image.functions["describe"], thrown))
        return self._placed(*decode_error(text))

    def _placed(self, error: ErrorInfo, stack: str) -> ErrorInfo:
        """Positions of the program's frames, as the author sees them; a memory error in our words."""
        # QuickJS counts the columns of the first line, and of no other, from 0.
        frames = [
            (name, int(line), int(column) + (line == "1"))
            for name, line, column in _FRAME.findall(stack)[:MOST_FRAMES]
        ]
        if frames and error.limit is None:
            name, line, column = frames[0]
            exact = refine(self._program.js, error.name, error.message, line, column, len(frames) > 1)
            frames[0] = (name, *exact)
        error.stack = [(name, *self._program.position(line, column)) for name, line, column in frames]
        if error.stack:
            _, error.line, error.column = error.stack[0]
        if error.limit is None and error.message.startswith(OUT_OF_MEMORY_NULL) and self._is_full():
            error.limit, error.message = codes.MEMORY, "out of memory"
        if error.limit == codes.MEMORY:
            error.name, error.message = "MemoryError", self._memory_text(error.message)
        return error

    def _is_full(self) -> bool:
        return self.memory_bytes > 0.9 * self._limits.memory_mb * MIB

    def _memory_text(self, cause: str) -> str:
        return f"{cause}: the code may use {self._limits.memory_mb} MiB ({codes.MEMORY})"

    def _deadlock(self) -> ErrorInfo:
        if self._is_full():
            return ErrorInfo("MemoryError", self._memory_text("out of memory"), limit=codes.MEMORY)
        return ErrorInfo(
            "DeadlockError",
            "the code waits for a promise that nothing will settle: nothing left to run, no call open, no timer set",
        )

    def _limit_error(self, trapped: Trapped) -> ErrorInfo:
        limits, reason = self._limits, trapped.reason
        match reason:
            case codes.CPU:
                text = f"the code used more than {limits.cpu_seconds:g} s of CPU time ({codes.CPU})"
                return ErrorInfo("TimeoutError", text, limit=codes.CPU)
            case codes.WALL:
                text = f"the chain ran longer than {limits.wall_seconds:g} s, waiting included ({codes.WALL})"
                return ErrorInfo("TimeoutError", text, limit=codes.WALL)
            case codes.STACK:
                text = f"the code nests its calls too deeply: the stack is full ({codes.STACK})"
                return ErrorInfo("StackError", text, limit=codes.STACK)
            case codes.MEMORY:
                return ErrorInfo("MemoryError", self._memory_text("out of memory"), limit=codes.MEMORY)
            case "cancelled":
                return ErrorInfo("CancelledError", "the chain was cancelled", limit="cancelled")
        if self._is_full():
            return ErrorInfo("MemoryError", self._memory_text("out of memory"), limit=codes.MEMORY)
        return ErrorInfo(
            "InternalError", f"the guest ended itself: {trapped.text[:200]}", limit="sandbox.guest_fault"
        )

    def _check_canary(self) -> None:
        if self._api.machine.read(self._image.stack_bottom, len(CANARY)) != CANARY:
            raise Trapped(codes.STACK)
