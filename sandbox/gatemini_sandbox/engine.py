"""WebAssembly machines: one compiled module, many instances, each stopped by epoch ticks when its budget is over.

wasmtime's Python calls look up a function's type on every call; this file keeps each function and one array of raw
values and goes through the C interface, which is several times cheaper. It knows nothing of JavaScript.
Above: guest.py, shelf.py. Below: budget.py, module.py, module_cache.py, pages.py, wasi.py, wasmtime.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import wasmtime
from wasmtime import _ffi as ffi

from gatemini_sandbox import limits, pages, wasi
from gatemini_sandbox.budget import (
    LONG_SECONDS,
    TICK_SECONDS,
    TURN_SECONDS,
    Budget,
    Ticker,
    Turns,
    free_cores,
)
from gatemini_sandbox.errors import GuestFault, GuestTampered, HostExhausted
from gatemini_sandbox.module import PAGE, RED_ZONE, STACK_BYTES, STACK_POINTER, guest_wasm, patched
from gatemini_sandbox.module_cache import load_module

NATIVE_STACK = 2 * limits.MIB
"""wasmtime's own bound on native stack; above its async stack size (2 MiB) it would abort the process."""
WASI_MODULE = "wasi_snapshot_preview1"
MOST_SLOTS = 8
CALL_STACK = 4 * limits.MIB
"""Stack of a call that can be left and gone on with: the most wasm code may use, and as much for what it calls."""
I32 = 0
YIELD = 1  # WASMTIME_UPDATE_DEADLINE_YIELD


class Trapped(Exception):
    """The instance is finished. `reason` is a limit code, "cancelled", or "fault" with wasmtime's text."""

    def __init__(self, reason: str, text: str = "") -> None:
        super().__init__(reason, text)
        self.reason = reason
        self.text = text


# Two look-ups so cheap that letting go of the GIL for them would cost more than they do.
_LOOK_UP = ctypes.PYFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p)


def _cheap(name: str) -> Any:
    return _LOOK_UP(ctypes.cast(getattr(ffi.dll, name), ctypes.c_void_p).value or 0)


_memory_data = _cheap("wasmtime_memory_data")
_memory_size = _cheap("wasmtime_memory_data_size")

_machines: dict[int, Machine] = {}
_numbers = itertools.count(1)
_on_thread = threading.local()


def _deadline(_context: Any, number: int | None, delta: Any, kind: Any) -> int:
    """Called by wasmtime on the guest's thread at every tick: go on for one more, leave what can be left, or stop."""
    machine = _machines.get(number or 0)
    if machine is not None:
        machine.stopped = machine.verdict() or (None if machine.here else machine.wait_for_turn())
        if machine.stopped is None:
            delta[0] = 1
            if machine.leaves:
                kind[0] = YIELD
            return 0
    error = ffi.wasmtime_error_new(ctypes.create_string_buffer(b"stopped"))
    return ctypes.cast(error, ctypes.c_void_p).value or 0


# The callbacks must have exactly the types of the C interface, and live as long as the process.
_DEADLINE_TYPE = ctypes.CFUNCTYPE(
    ctypes.c_size_t,
    ctypes.POINTER(ffi.wasmtime_context_t),
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_uint64),
    ctypes.POINTER(ffi.wasmtime_update_deadline_kind_t),
)
_FINALIZER_TYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_deadline_callback = _DEADLINE_TYPE(_deadline)
_no_finalizer = _FINALIZER_TYPE(0)


def _stub(name: str) -> Any:
    """One WASI function as a raw callback: arguments in, result in the same slots."""

    def run(_env: Any, _caller: Any, slots: Any, _count: int) -> int:
        machine: Machine = _on_thread.machine
        if name == "proc_exit":
            machine.stopped = "fault"
            trap = ffi.wasmtime_trap_new(ctypes.create_string_buffer(b"exit"), 4)
            return ctypes.cast(trap, ctypes.c_void_p).value or 0
        memory, clock = machine.memory, machine.clock
        if name == "clock_time_get":
            answer = wasi.clock_time_get(memory, clock, slots[0].i32, slots[2].i32 & 0xFFFFFFFF)
        elif name == "environ_sizes_get":
            answer = wasi.environ_sizes_get(memory, slots[0].i32 & 0xFFFFFFFF, slots[1].i32 & 0xFFFFFFFF)
        elif name == "environ_get":
            answer = wasi.ERRNO_OK
        elif name == "fd_write":
            fd, at, count, written = (slots[i].i32 & 0xFFFFFFFF for i in range(4))
            answer = wasi.fd_write(memory, fd, at, count, written)
        else:
            answer = wasi.refusal(name)
        slots[0].i32 = answer
        return 0

    return ffi.wasmtime_func_unchecked_callback_t(run)


_stubs = {name: _stub(name) for name in wasi.BINDINGS}


class Engine:
    """The compiled guest and what its instances share; thread-safe."""

    def __init__(self, cache_dir: Path | None) -> None:
        config = wasmtime.Config()
        config.epoch_interruption = True
        config.max_wasm_stack = NATIVE_STACK
        ffi.wasmtime_config_async_stack_size_set(config.ptr(), CALL_STACK)
        wasm = guest_wasm()
        try:
            self.wasmtime = wasmtime.Engine(config)
            self.module, self.cache_problem = load_module(self.wasmtime, lambda: patched(wasm), cache_dir)
        except wasmtime.WasmtimeError as exc:  # the module is the pinned one: it is not to blame
            raise HostExhausted(f"the guest cannot be compiled: {_in_one_line(exc)}") from None
        self.ticker = Ticker(self.wasmtime)
        self.turns = Turns(free_cores())
        self._linker = wasmtime.Linker(self.wasmtime)
        self.stack_bottom = _first_pages(self.module) * PAGE - STACK_BYTES
        """Address of the lowest byte of the guest's C stack; see module.py."""
        self.check_imports([(entry.module, entry.name or "") for entry in self.module.imports])
        for entry in self.module.imports:
            self._bind(entry)
        self._ready = ctypes.POINTER(ffi.wasmtime_instance_pre_t)()
        error = ffi.wasmtime_linker_instantiate_pre(
            self._linker.ptr(), self.module.ptr(), ctypes.byref(self._ready)
        )
        if error:
            raise wasmtime.WasmtimeError._from_ptr(error)
        # With the last machine and the sandbox: the module has a descriptor of its own (the image of its memory).
        weakref.finalize(self, ffi.wasmtime_instance_pre_delete, self._ready).atexit = False
        weakref.finalize(self, self.ticker.end).atexit = False

    @staticmethod
    def check_imports(imports: Sequence[tuple[str, str]]) -> None:
        """Raises GuestTampered for an import that is not one of ours."""
        for module, name in imports:
            if module != WASI_MODULE or name not in _stubs:
                raise GuestTampered(f"the guest imports {module}.{name}, which is not bound")

    def _bind(self, entry: wasmtime.ImportType) -> None:
        name, kind = entry.name or "", entry.type
        if not isinstance(kind, wasmtime.FuncType):
            raise GuestTampered(f"the guest imports {name}, which is no function")
        module, function = WASI_MODULE.encode(), name.encode()
        error = ffi.wasmtime_linker_define_func_unchecked(
            self._linker.ptr(),
            ctypes.create_string_buffer(module),
            len(module),
            ctypes.create_string_buffer(function),
            len(function),
            kind.ptr(),
            _stubs[name],
            None,
            _no_finalizer,
        )
        if error:
            raise wasmtime.WasmtimeError._from_ptr(error)

    def instantiate(self, store: wasmtime.Store) -> Any:
        """Raises HostExhausted: of a module that was checked, only the memory may be lacking."""
        instance = ffi.wasmtime_instance_t()
        trap = ctypes.POINTER(ffi.wasm_trap_t)()
        error = ffi.wasmtime_instance_pre_instantiate(
            self._ready, store._context(), ctypes.byref(instance), ctypes.byref(trap)
        )
        if error:
            failure = wasmtime.WasmtimeError._from_ptr(error)
            raise HostExhausted(f"no memory for another guest: {_in_one_line(failure)}")
        if trap:
            raise wasmtime.Trap._from_ptr(trap)
        return instance


def _first_pages(module: wasmtime.Module) -> int:
    """Pages a new instance has."""
    kinds = [entry.type for entry in module.exports]
    return next(int(kind.limits.min) for kind in kinds if isinstance(kind, wasmtime.MemoryType))


def _in_one_line(error: wasmtime.WasmtimeError) -> str:
    return " ".join(str(error).split())


class Machine:
    """One instance with its memory. Used by one thread at a time; after Trapped only its memory may be read."""

    def __init__(self, engine: Engine, budget: Budget, clock: wasi.Clock, memory_bytes: int) -> None:
        self.engine = engine
        self.budget = budget
        self.clock = clock
        self.stopped: str | None = None
        self._open = threading.Lock()  # taken by whoever frees it, for good
        self._turn_since: float | None = None
        self.number = next(_numbers)
        self.store = wasmtime.Store(engine.wasmtime)
        self.store.set_limits(memory_size=memory_bytes, instances=1, memories=1, tables=1)
        self._context = self.store._context()
        ffi.wasmtime_store_epoch_deadline_callback(
            self.store.ptr(), _deadline_callback, ctypes.c_void_p(self.number), _no_finalizer
        )
        self._instance = engine.instantiate(self.store)
        self._functions: dict[str, tuple[Any, Any]] = {}
        self._values = (ffi.wasmtime_val_raw_t * MOST_SLOTS)()
        self._slots = (ctypes.c_uint64 * (2 * MOST_SLOTS)).from_buffer(self._values)
        self._trap = ctypes.POINTER(ffi.wasm_trap_t)()
        self._trap_ref = ctypes.byref(self._trap)
        self._stack_end = engine.stack_bottom + RED_ZONE  # a pointer below it trapped in the patch's check
        self.here = self.leaves = False
        self._left: Any = None  # a call that was begun and is not over
        self._typed = (ffi.wasmtime_val_t * 2)()  # argument and result of such a call
        self._error = ctypes.POINTER(ffi.wasmtime_error_t)()
        self._memory_item = self._export("memory").of.memory
        self._memory = ctypes.byref(self._memory_item)
        self._where = (
            ctypes.cast(self._context, ctypes.c_void_p).value,
            ctypes.addressof(self._memory_item),
        )
        self.memory = wasi.Memory(self.locate)
        _machines[self.number] = self

    def retire(self) -> None:
        """It will not run any more: it counts no longer, but its memory is freed by `close` only."""
        _machines.pop(self.number, None)
        self.budget.ledger.forget(self.number)

    def close(self) -> None:
        """Frees the instance and its memory; idempotent. Not while it runs."""
        self.retire()
        if self._open.acquire(blocking=False):
            left, self._left = self._left, None
            if left is not None:
                ffi.wasmtime_call_future_delete(left)
            self.store.close()
            del self.memory  # it refers to this machine, which refers to the engine

    def _export(self, name: str) -> Any:
        item = ffi.wasmtime_extern_t()
        raw = name.encode()
        found = ffi.wasmtime_instance_export_get(
            self._context,
            ctypes.byref(self._instance),
            ctypes.create_string_buffer(raw),
            len(raw),
            ctypes.byref(item),
        )
        if not found:
            raise GuestTampered(f"the guest does not export {name}")
        return item

    def locate(self) -> tuple[int, int]:
        """Address and size of the linear memory; both change when it grows."""
        return _memory_data(*self._where), _memory_size(*self._where)

    def verdict(self) -> str | None:
        """The limit that is over, if one is; called while the guest runs."""
        return self.budget.verdict() or self.memory_verdict()

    def wait_for_turn(self) -> str | None:
        """For a step that computes for long: goes on when it has a turn, or says which limit ended the waiting."""
        turns, used = self.engine.turns, time.thread_time() - self.budget.cpu_at_entry
        if self._turn_since is not None:
            if used - self._turn_since < TURN_SECONDS or not turns.wanted:
                return None
            self._give_turn()
        elif used < LONG_SECONDS:
            return None
        while not turns.take(TICK_SECONDS):
            over = self.verdict()
            if over is not None:
                return over
        self._turn_since = used
        return None

    def _give_turn(self) -> None:
        if self._turn_since is not None:
            self._turn_since = None
            self.engine.turns.give()

    def memory_verdict(self) -> str | None:
        return (
            limits.TOTAL_MEMORY if self.budget.ledger.over(self.number, _memory_size(*self._where)) else None
        )

    def grow(self, pages: int) -> None:
        before = ctypes.c_uint64(0)
        error = ffi.wasmtime_memory_grow(self._context, self._memory, pages, ctypes.byref(before))
        if error:
            ffi.wasmtime_error_delete(error)
            raise Trapped(limits.MEMORY)

    def prefault(self, at: int, size: int) -> None:
        """Have these pages of memory mapped in one go: written one by one, each costs a fault of its own."""
        pages.populate(self.locate()[0] + at, size)

    def forget(self, kept: Sequence[tuple[int, bytes]]) -> bool:
        """All memory but the `kept` pieces, in order of address, is again what it was in the fresh instance.

        False where the system offers no way to that, or the machine ended in a way that leaves doubts."""
        if not pages.CAN_DROP or self.stopped is not None or self._left is not None:
            return False
        address, size = self.locate()
        at = 0
        for start, piece in (*kept, (size, b"")):
            if start > at and not pages.drop(address + at, start - at):
                return False
            at = start + len(piece)
        return True

    def reuse(self, budget: Budget) -> None:
        """For another chain, after `retire`."""
        self.budget = budget
        _machines[self.number] = self

    def stack(self) -> int:
        """The guest's C stack pointer, signed: a frame may have been put below address 0. Also after a trap."""
        item = self._export(STACK_POINTER)
        value: Any = ffi.wasmtime_val_t()
        ffi.wasmtime_global_get(self._context, ctypes.byref(item.of.global_), ctypes.byref(value))
        return int(value.of.i32)

    def run(self, work: Callable[[], Any], *, here: bool = False) -> Any:
        """`work` with the budget counting and ticks coming; all calls into the guest go through here.

        `here`: on a thread that others wait for; nothing waits then, and `begin32` leaves at the first tick."""
        budget = self.budget
        self.here = here
        before = getattr(_on_thread, "machine", None)
        _on_thread.machine = self
        budget.cpu_at_entry = time.thread_time()
        ffi.wasmtime_context_set_epoch_deadline(self._context, 1)
        self.engine.ticker.enter()
        try:
            verdict = budget.verdict()
            if verdict is not None:
                raise Trapped(verdict)
            return work()
        finally:
            self.engine.ticker.leave()
            self._give_turn()
            budget.used_cpu += time.thread_time() - budget.cpu_at_entry
            _on_thread.machine = before
            self.memory_verdict()

    def look_up(self, names: Iterable[str]) -> None:
        """Find guest functions ahead of the first calls of them."""
        for name in names:
            self._function(name)

    def _function(self, name: str) -> tuple[Any, Any]:
        item = self._export(name)
        function = self._functions[name] = (ctypes.byref(item.of.func), item)
        return function

    def call(self, name: str, *arguments: int) -> int:
        """A guest function with whole numbers; the result is unsigned 64 bit. Raises Trapped."""
        function = self._functions.get(name) or self._function(name)
        slots = self._slots
        at = 0
        for argument in arguments:
            slots[at] = argument
            at += 2
        error = ffi.wasmtime_func_call_unchecked(
            self._context, function[0], self._values, MOST_SLOTS, self._trap_ref
        )
        if error or self._trap:
            raise self._trapped(error)
        return slots[0]

    def call32(self, name: str, *arguments: int) -> int:
        """As `call`, for functions that return 32 bits."""
        return self.call(name, *arguments) & 0xFFFFFFFF

    def begin32(self, name: str, argument: int) -> int | None:
        """As `call32`, for what may take long: None when a tick came first; `finish32` goes on, on any thread."""
        function = self._functions.get(name) or self._function(name)
        typed: Any = self._typed
        value, result = typed
        value.kind = I32
        value.of.i32 = argument
        self._left = ffi.wasmtime_func_call_async(
            self._context,
            function[0],
            ctypes.byref(value),
            1,
            ctypes.byref(result),
            1,
            self._trap_ref,
            ctypes.byref(self._error),
        )
        self.leaves = True
        try:
            return self._went_on()
        finally:
            self.leaves = False

    def finish32(self) -> int:
        """The end of a call that `begin32` left."""
        while (value := self._went_on()) is None:
            pass  # the next tick came just as it was left
        return value

    def _went_on(self) -> int | None:
        if not ffi.wasmtime_call_future_poll(self._left):
            return None
        left, self._left = self._left, None
        ffi.wasmtime_call_future_delete(left)
        if self._error or self._trap:
            raise self._trapped(self._error)
        return self._typed[1].of.i32 & 0xFFFFFFFF

    def _trapped(self, error: Any) -> Trapped:
        reason, text = self.stopped, ""
        if error:
            failure = wasmtime.WasmtimeError._from_ptr(error)
            text = str(failure)
        else:
            trap = wasmtime.Trap._from_ptr(self._trap)
            text = trap.message
            self._trap = ctypes.POINTER(ffi.wasm_trap_t)()
            self._trap_ref = ctypes.byref(self._trap)
            if trap.trap_code is wasmtime.TrapCode.STACK_OVERFLOW or self.stack() < self._stack_end:
                reason = limits.STACK
        return Trapped(reason or "fault", text)

    def read(self, at: int, size: int) -> bytes:
        data = self.memory.read(at, size)
        if data is None:
            raise GuestFault(f"the guest named memory it does not have ({size} bytes at {at})")
        return data

    def write(self, at: int, data: bytes) -> None:
        if not self.memory.write(at, data):
            raise GuestFault(f"the guest gave memory it does not have ({len(data)} bytes at {at})")
