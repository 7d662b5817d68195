"""Run the guest: one compiled module, many machines, each ended at an epoch tick when its budget is used up.

It knows nothing of JavaScript; QuickJS' C API is in quickjs.py.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import wasmtime

from gatemini_sandbox import limits
from gatemini_sandbox.errors import GuestFault, GuestTampered, HostExhausted
from gatemini_sandbox.webassembly import wasi, wasmtime_raw
from gatemini_sandbox.webassembly.budget import Budget
from gatemini_sandbox.webassembly.module_cache import load_module
from gatemini_sandbox.webassembly.patched_module import (
    PAGE,
    RED_ZONE,
    STACK_BYTES,
    STACK_POINTER,
    guest_wasm,
    patched,
)
from gatemini_sandbox.webassembly.traps import Trapped, trapped
from gatemini_sandbox.webassembly.turns import (
    LONG_SECONDS,
    TICK_SECONDS,
    TURN_SECONDS,
    Ticker,
    Turns,
    free_cores,
)

if sys.platform != "win32":
    import resource

NATIVE_STACK = 2 * limits.MIB
"""wasmtime's own bound on native stack; above its async stack size (2 MiB) it would abort the process."""
WASI_MODULE = "wasi_snapshot_preview1"
RESERVATION = 4096 * limits.MIB
"""Address space of one linear memory: all that 32 bits can address, so that code needs no checks of its accesses and
growing moves nothing. With the 256 MiB that a guest may use, code takes 1.2 to 1.5 times as long."""
GUARD = 32 * limits.MIB
"""Address space before and after each memory that traps: what an instruction may add to an address."""
RESERVED = RESERVATION + 2 * GUARD


_machines: dict[int, Machine] = {}
_numbers = itertools.count(1)
_on_thread = threading.local()


def _deadline(_context: Any, number: int | None, delta: Any, _kind: Any) -> int:
    """Called by wasmtime on the guest's thread at every tick: go on for one more, or stop."""
    machine = _machines.get(number or 0)
    if machine is not None:
        machine.stopped = machine.verdict() or machine.wait_for_turn()
        if machine.stopped is None:
            delta[0] = 1
            return 0
    return wasmtime_raw.new_error(b"stopped")


_deadline_callback = wasmtime_raw.deadline_callback(_deadline)


def _stub(name: str) -> Any:
    """One WASI function as a raw callback: arguments in, result in the same slots."""

    def run(_env: Any, _caller: Any, slots: Any, count: int) -> int:
        machine: Machine = _on_thread.machine
        if name == "proc_exit":
            machine.stopped = "fault"
            return wasmtime_raw.new_trap(b"exit")
        arguments = [slots[at].i32 & 0xFFFFFFFF for at in range(count)]
        slots[0].i32 = wasi.answer(name, machine, machine.clock, arguments)
        return 0

    return wasmtime_raw.host_function(run)


_stubs = {name: _stub(name) for name in wasi.BINDINGS}


class Engine:
    """The compiled guest and what its instances share; thread-safe."""

    def __init__(self, cache_dir: Path | None) -> None:
        config = wasmtime.Config()
        config.epoch_interruption = True
        config.max_wasm_stack = NATIVE_STACK
        config.memory_reservation = RESERVATION
        config.memory_guard_size = GUARD
        config.memory_may_move = False
        wasm = guest_wasm()
        try:
            self.wasmtime = wasmtime.Engine(config)
            self.module, self.cache_problem = load_module(self.wasmtime, lambda: patched(wasm), cache_dir)
        except wasmtime.WasmtimeError as exc:  # the module is the pinned one: it is not to blame
            raise _exhausted("the guest cannot be compiled", exc) from None
        self.ticker = Ticker(self.wasmtime)
        self.turns = Turns(free_cores())
        self.stack_bottom = _first_pages(self.module) * PAGE - STACK_BYTES
        """Address of the lowest byte of the guest's C stack; see patched_module.py."""
        self.linked = wasmtime_raw.Linked(self.wasmtime, self.module, self._bound_imports())
        weakref.finalize(self, self.linked.delete).atexit = False
        weakref.finalize(self, self.ticker.end).atexit = False

    def _bound_imports(self) -> Iterator[tuple[str, str, wasmtime.FuncType, Any]]:
        for entry in self.module.imports:
            check_import(entry.module, entry.name or "")
            if not isinstance(entry.type, wasmtime.FuncType):
                raise GuestTampered(f"the guest imports {entry.name}, which is no function")
            yield entry.module, entry.name or "", entry.type, _stubs[entry.name or ""]


def check_import(module: str, name: str) -> None:
    """Raises GuestTampered for an import that is not one of ours."""
    if module != WASI_MODULE or name not in _stubs:
        raise GuestTampered(f"the guest imports {module}.{name}, which is not bound")


def _first_pages(module: wasmtime.Module) -> int:
    """Pages a new instance has."""
    kinds = [entry.type for entry in module.exports]
    return next(int(kind.limits.min) for kind in kinds if isinstance(kind, wasmtime.MemoryType))


def _exhausted(what: str, error: wasmtime.WasmtimeError) -> HostExhausted:
    """Of a module that was checked, only memory can be lacking. Names the limit, for the operator to raise."""
    text = f"{what}: {' '.join(str(error).split())}; a guest reserves {RESERVED // limits.MIB} MiB of address space"
    most = address_space_limit()
    if most is None:
        return HostExhausted(f"{text}, and this process has no limit of its own: the machine gives no more")
    return HostExhausted(
        f"{text}, and all of this process may take {most // limits.MIB} MiB (RLIMIT_AS, `ulimit -v`): "
        "raise that limit or lift it"
    )


def address_space_limit() -> int | None:
    """Bytes that this process may map; None where nothing limits them."""
    if sys.platform == "win32":
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft


class Machine(wasmtime_raw.Instance):
    """One instance with its memory. Used by one thread at a time; after Trapped only its memory may be read."""

    def __init__(self, engine: Engine, budget: Budget, clock: wasi.Clock, memory_bytes: int) -> None:
        self.engine = engine
        self.budget = budget
        self.clock = clock
        self.stopped: str | None = None
        self._open = threading.Lock()  # taken for good by the thread that frees it
        self._turn_since: float | None = None
        self.number = next(_numbers)
        store = wasmtime.Store(engine.wasmtime)
        store.set_limits(memory_size=memory_bytes, instances=1, memories=1, tables=1)
        try:
            super().__init__(store, engine.linked, _deadline_callback, self.number)
        except wasmtime.WasmtimeError as exc:
            raise _exhausted("no memory for another guest", exc) from None
        self._stack_end = engine.stack_bottom + RED_ZONE  # a pointer below it trapped in the patch's check
        _machines[self.number] = self

    def retire(self) -> None:
        """It will not run any more: it counts no longer, but its memory is freed by `close` only."""
        _machines.pop(self.number, None)
        self.budget.ledger.forget(self.number)

    def close(self) -> None:
        """Frees the instance and its memory; idempotent. Not while it runs."""
        self.retire()
        if self._open.acquire(blocking=False):
            self.store.close()

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
        return limits.TOTAL_MEMORY if self.budget.ledger.over(self.number, self.locate()[1]) else None

    def grow(self, pages: int) -> None:
        if not self.grow_memory(pages):
            raise Trapped(limits.MEMORY)

    def reuse(self, budget: Budget) -> None:
        """For another chain, after `retire`."""
        self.budget = budget
        _machines[self.number] = self

    def stack(self) -> int:
        """The guest's C stack pointer, signed: a frame may have been put below address 0. Also after a trap."""
        return self.global_i32(STACK_POINTER)

    def run(self, work: Callable[[], Any]) -> Any:
        """Do `work`, which calls the guest, with the budget counting and ticks coming."""
        budget = self.budget
        before = getattr(_on_thread, "machine", None)
        _on_thread.machine = self
        budget.cpu_at_entry = time.thread_time()
        self.end_at_next_tick()
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

    def _trapped(self, error: Any) -> Trapped:
        return trapped(self.failure(error), self.stopped, below_stack=self.stack() < self._stack_end)

    def read(self, at: int, size: int) -> bytes:
        return ctypes.string_at(self._address(at, size), size)

    def write(self, at: int, data: bytes) -> None:
        ctypes.memmove(self._address(at, len(data)), data, len(data))

    def _address(self, at: int, size: int) -> int:
        """Where a piece of guest memory is in this process; addresses and sizes that the guest names may be wrong."""
        address, length = self.locate()
        if at < 0 or size < 0 or at + size > length:
            raise GuestFault(f"the guest has no memory at {at} to {at + size}: it has {length} bytes")
        return address + at
