"""Call the C API of QuickJS-NG 0.15 (the pinned reactor build) in a machine: the only file that knows it.

`start` also checks the constants that depend on the build.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from gatemini_sandbox import limits as codes
from gatemini_sandbox.errors import GuestFault, GuestTampered
from gatemini_sandbox.limits import MIB
from gatemini_sandbox.webassembly.engine import Machine
from gatemini_sandbox.webassembly.patched_module import PAGE, STACK_BYTES
from gatemini_sandbox.webassembly.traps import Trapped

# `start` compares these with the guest at each boot; docs/contributing.md says where each comes from.
#
# JSValue is 64 bits with the tag in the upper half (NaN boxing of 32-bit builds, quickjs.h).
UNDEFINED = 3 << 32
TAG_EXCEPTION = 6
COUNTED_FROM = 0xFFFF0001
"""Tags from here, the negative ones, are of values with a reference count."""
EVAL_GLOBAL = 0
JOB_THREW = 0xFFFFFFFE
"""What js_std_loop_once gives for a job that ended with an exception: -2."""
REJECTION_TRACKER = 73
"""Slot of js_std_promise_rejection_tracker in the function table."""
REJECTION_LIST = 32
"""Where the head of the list that it fills is in quickjs-libc's thread state."""
REJECTION = "<IIQQ"
"""One entry of that list: previous, next, promise, reason."""
REJECTION_BYTES = struct.calcsize(REJECTION)
LIBC_OPAQUE = 0  # js_std_cmd: the runtime's libc state

INBOX_BYTES = PAGE
"""Messages up to this size use a block that is always there."""
SCRATCH_BYTES = 256
"""Block for arguments and results of the C API; a file's name goes into it from NAME_AT on."""
NAME_AT = 64
GC_BYTES = 2 * MIB
"""Allocation after which QuickJS first looks for cycles; its own 256 KiB costs a short chain several looks."""


class Threw(Exception):
    """A guest function ended with a JavaScript exception; `value` is the thrown JSValue, owned."""

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where a started QuickJS is in the memory of its machine."""

    runtime: int
    context: int
    inbox: int
    scratch: int
    rejections: int
    """Head of the list of promises that were rejected and not handled."""


class QuickJS:
    """A started QuickJS in one machine. JSValues are 64-bit numbers; an owned one is to be released or given away."""

    def __init__(self, machine: Machine, addresses: Addresses) -> None:
        self.machine = machine
        self.addresses = addresses
        self._context = addresses.context
        self._inbox = addresses.inbox
        self._scratch = addresses.scratch

    def allocate(self, size: int) -> int:
        at = self.machine.call32("malloc", size)
        if at == 0:
            raise Trapped(codes.MEMORY)
        return at

    def _put(self, data: bytes) -> tuple[int, bool]:
        """Writes `data` and a NUL into guest memory: where, and whether it must be freed."""
        own = len(data) >= INBOX_BYTES
        at = self.allocate(len(data) + 1) if own else self._inbox
        self.machine.write(at, data + b"\0")
        return at, own

    def _checked(self, value: int) -> int:
        if value >> 32 == TAG_EXCEPTION:
            raise Threw(self._exception())
        return value

    def _exception(self) -> int:
        return self.machine.call("JS_GetException", self._context)

    def parse(self, text: bytes) -> int:
        at, own = self._put(text)
        value = self.machine.call("JS_ParseJSON", self._context, at, len(text), self._scratch)
        if own:
            self.machine.call("free", at)
        return self._checked(value)

    def evaluate(self, source: bytes, name: str) -> int:
        label = name.encode() + b"\0"
        self.machine.write(self._scratch + NAME_AT, label)
        at, own = self._put(source)
        value = self.machine.call(
            "JS_Eval", self._context, at, len(source), self._scratch + NAME_AT, EVAL_GLOBAL
        )
        if own:
            self.machine.call("free", at)
        return self._checked(value)

    def call(self, function: int, *arguments: int) -> int:
        """Calls a JavaScript function; takes over the arguments, gives the result."""
        machine = self.machine
        if arguments:
            machine.write(self._scratch, struct.pack(f"<{len(arguments)}Q", *arguments))
        value = machine.call("JS_Call", self._context, function, UNDEFINED, len(arguments), self._scratch)
        for argument in arguments:
            self.release(argument)
        return self._checked(value)

    def release(self, value: int) -> None:
        if value >> 32 >= COUNTED_FROM:
            self.machine.call("JS_FreeValue", self._context, value)

    def text(self, value: int) -> bytes:
        """UTF-8 of a string, which is released."""
        machine = self.machine
        at = machine.call32("JS_ToCStringLen2", self._context, self._scratch, value, 0)
        if at == 0:
            raise Threw(self._exception())
        data = machine.read(at, int.from_bytes(machine.read(self._scratch, 4), "little"))
        machine.call("JS_FreeCString", self._context, at)
        self.release(value)
        return data

    def item(self, value: int, index: int) -> int:
        return self._checked(self.machine.call("JS_GetPropertyUint32", self._context, value, index))

    def again(self, value: int) -> int:
        """One more reference to a value, for a call that takes it over."""
        return self.machine.call("JS_DupValue", self._context, value)

    def bytes_address(self, buffer: int) -> int:
        """Address of the content of an ArrayBuffer; 0 if the value is none."""
        return self.machine.call32("JS_GetArrayBuffer", self._context, self._scratch, buffer)

    def run_jobs(self) -> int | None:
        """Run jobs until none is left, or one throws: gives what it threw, and must be called again."""
        if self.machine.call32("js_std_loop_once", self._context) == JOB_THREW:
            return self._exception()
        return None

    def collect_garbage(self) -> None:
        self.machine.call("JS_RunGC", self.addresses.runtime)

    def unhandled_rejections(self, most: int) -> Iterator[tuple[int, int]]:
        """(promise, reason) of promises that were rejected and not handled, oldest first; both owned."""
        head = self.addresses.rejections
        entry = int.from_bytes(self.machine.read(head + 4, 4), "little")
        for _ in range(most):
            if entry == head:
                return
            _, entry, promise, reason = struct.unpack(REJECTION, self.machine.read(entry, REJECTION_BYTES))
            yield self.again(promise), self.again(reason)


def start(machine: Machine) -> QuickJS:
    """Start QuickJS in a new machine. Raises GuestTampered if the guest is another build than assumed."""
    machine.call("_initialize")
    _check_heap(machine)
    runtime = machine.call32("JS_NewRuntime")
    # Our check of the C stack is in the module; QuickJS' own has no effect in this build.
    machine.call("JS_SetMaxStackSize", runtime, 0)
    machine.call("JS_SetGCThreshold", runtime, GC_BYTES)
    context = machine.call32("JS_NewContext", runtime)
    machine.call("js_std_init_handlers", runtime)
    inbox, scratch = machine.call32("malloc", INBOX_BYTES + 1), machine.call32("malloc", SCRATCH_BYTES)
    machine.call("JS_SetHostPromiseRejectionTracker", runtime, REJECTION_TRACKER, 0)
    machine.write(scratch, struct.pack("<I", runtime) + bytes(SCRATCH_BYTES - 4))
    rejections = machine.call32("js_std_cmd", LIBC_OPAQUE, scratch) + REJECTION_LIST
    quickjs = QuickJS(machine, Addresses(runtime, context, inbox, scratch, rejections))
    _check_build(quickjs)
    return quickjs


def _check_heap(machine: Machine) -> None:
    """Raises GuestTampered if the allocator takes the C stack for free memory: it must know its heap's end by itself."""
    bottom = machine.engine.stack_bottom
    for size in (PAGE, STACK_BYTES // 2):
        at = machine.call32("malloc", size)
        if bottom - size < at < bottom + STACK_BYTES:
            raise GuestTampered("the guest's allocator uses the C stack as heap (STACK_PAGES)")
        machine.call("free", at)


def _check_build(quickjs: QuickJS) -> None:
    """Raises GuestTampered naming the constant that is not as in the build; see docs/contributing.md."""
    _assume("UNDEFINED, or EVAL_GLOBAL,", quickjs.evaluate(b"undefined", "probe"), UNDEFINED)
    _assume("tag of whole numbers (NaN boxing)", quickjs.evaluate(b"7", "probe"), 7)
    for source, counted in (
        (b"1.5", False),
        (b"-1e308", False),
        (b"null", False),
        (b"({})", True),
        (b"[1] + ''", True),
    ):
        value = quickjs.evaluate(source, "probe")
        _assume(f"COUNTED_FROM for {source.decode()}", value >> 32 >= COUNTED_FROM, counted)
        quickjs.release(value)
    try:
        _assume("TAG_EXCEPTION", quickjs.evaluate(b"throw 7", "probe") >> 32, TAG_EXCEPTION)
    except Threw as exc:
        _assume("TAG_EXCEPTION", exc.value, 7)
    quickjs.evaluate(b"queueMicrotask(() => { throw 7 })", "probe")
    _assume("JOB_THREW, or what a job threw,", quickjs.run_jobs(), 7)
    _check_rejections(quickjs)


def _check_rejections(quickjs: QuickJS) -> None:
    """The list of rejected promises fills when one is rejected, and empties when it is handled."""
    machine, rejections = quickjs.machine, quickjs.addresses.rejections
    what = "list of rejections (REJECTION_TRACKER, REJECTION_LIST, LIBC_OPAQUE)"
    try:
        handle = quickjs.evaluate(b"(p => () => { p.catch(() => 0) })(Promise.reject(7))", "probe")
        entry = struct.unpack("<I", machine.read(rejections + 4, 4))[0]
        before, after, _, reason = struct.unpack(REJECTION, machine.read(entry, REJECTION_BYTES))
        _assume(what, (before, after, reason), (rejections, rejections, 7))
        quickjs.call(handle)
        quickjs.run_jobs()
        _assume(what, struct.unpack("<II", machine.read(rejections, 8)), (rejections, rejections))
        quickjs.release(handle)
    except (Trapped, GuestFault) as exc:
        raise GuestTampered(f"the guest is another build than assumed: {what}: {exc}") from None


def _assume(constant: str, found: object, assumed: object) -> None:
    if found != assumed:
        raise GuestTampered(f"the guest is another build than assumed: {constant} is {found}, not {assumed}")
