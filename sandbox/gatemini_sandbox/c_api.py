"""Call the C API of QuickJS-NG 0.15 (the pinned reactor build) in a machine, and check the constants of that build."""

from __future__ import annotations

import struct

from gatemini_sandbox import limits as codes
from gatemini_sandbox.engine import Machine, Trapped
from gatemini_sandbox.errors import GuestFault, GuestTampered
from gatemini_sandbox.module import PAGE

# `check_build` compares these with the guest at each boot; docs/contributing.md says where each comes from.
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
        if value >> 32 >= COUNTED_FROM:
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


def track_rejections(machine: Machine, runtime: int, scratch: int) -> int:
    """Have unhandled rejections of promises listed; gives the address of the list's head."""
    machine.call("JS_SetHostPromiseRejectionTracker", runtime, REJECTION_TRACKER, 0)
    machine.write(scratch, struct.pack("<I", runtime) + bytes(252))
    return machine.call32("js_std_cmd", LIBC_OPAQUE, scratch) + REJECTION_LIST


def check_build(api: Api, rejections: int) -> None:
    """Raises GuestTampered naming the constant that is not as in the build; see docs/contributing.md."""
    _assume("UNDEFINED, or EVAL_GLOBAL,", api.evaluate(b"undefined", "probe"), UNDEFINED)
    _assume("tag of whole numbers (NaN boxing)", api.evaluate(b"7", "probe"), 7)
    for source, counted in (
        (b"1.5", False),
        (b"-1e308", False),
        (b"null", False),
        (b"({})", True),
        (b"[1] + ''", True),
    ):
        value = api.evaluate(source, "probe")
        _assume(f"COUNTED_FROM for {source.decode()}", value >> 32 >= COUNTED_FROM, counted)
        api.release(value)
    try:
        _assume("TAG_EXCEPTION", api.evaluate(b"throw 7", "probe") >> 32, TAG_EXCEPTION)
    except Threw as exc:
        _assume("TAG_EXCEPTION", exc.value, 7)
    api.evaluate(b"queueMicrotask(() => { throw 7 })", "probe")
    _assume("JOB_THREW", api.machine.call32("js_std_loop_once", api.context), JOB_THREW)
    _assume("what a job threw", api.machine.call("JS_GetException", api.context), 7)
    _check_rejections(api, rejections)


def _check_rejections(api: Api, rejections: int) -> None:
    """The list of rejected promises fills when one is rejected, and empties when it is handled."""
    machine = api.machine
    what = "list of rejections (REJECTION_TRACKER, REJECTION_LIST, LIBC_OPAQUE)"
    try:
        handle = api.evaluate(b"(p => () => { p.catch(() => 0) })(Promise.reject(7))", "probe")
        entry = struct.unpack("<I", machine.read(rejections + 4, 4))[0]
        before, after, _, reason = struct.unpack(REJECTION, machine.read(entry, REJECTION_BYTES))
        _assume(what, (before, after, reason), (rejections, rejections, 7))
        api.call(handle)
        machine.call32("js_std_loop_once", api.context)
        _assume(what, struct.unpack("<II", machine.read(rejections, 8)), (rejections, rejections))
        api.release(handle)
    except (Trapped, GuestFault) as exc:
        raise GuestTampered(f"the guest is another build than assumed: {what}: {exc}") from None


def _assume(constant: str, found: object, assumed: object) -> None:
    if found != assumed:
        raise GuestTampered(f"the guest is another build than assumed: {constant} is {found}, not {assumed}")
