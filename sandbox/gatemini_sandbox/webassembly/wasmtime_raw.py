"""Call wasmtime's C interface through its Python package's private module `wasmtime._ffi`: the only file that does.

A call by the public interface looks up the function's type and takes 50 microseconds, one with raw values 4; a chain
makes about twenty. The public interface also has no epoch callback. tests/sandbox/test_wasmtime_raw.py checks what is
assumed of the private module, on the lowest and the highest version that pyproject.toml allows.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from typing import Any

import wasmtime
from wasmtime import _ffi as ffi

from gatemini_sandbox.errors import GuestTampered

MOST_SLOTS = 8
"""Arguments of the guest function with the most."""

_DEADLINE_TYPE = ctypes.CFUNCTYPE(
    ctypes.c_size_t,
    ctypes.POINTER(ffi.wasmtime_context_t),
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_uint64),
    ctypes.POINTER(ffi.wasmtime_update_deadline_kind_t),
)
_FINALIZER_TYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_no_finalizer = _FINALIZER_TYPE(0)
# So cheap that releasing the GIL for them, as CFUNCTYPE does, would cost more than they do.
_LOOK_UP = ctypes.PYFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p)


def _keeping_gil(name: str) -> Any:
    return _LOOK_UP(ctypes.cast(getattr(ffi.dll, name), ctypes.c_void_p).value or 0)


_memory_data = _keeping_gil("wasmtime_memory_data")
_memory_size = _keeping_gil("wasmtime_memory_data_size")

Deadline = Callable[[Any, int | None, Any, Any], int]
"""(context, the store's number, out: further ticks, out: kind) -> 0, or `new_error` to end the guest."""
Host = Callable[[Any, Any, Any, int], int]
"""(environment, caller, slots, count) -> 0, or `new_trap`; arguments are in the slots, the result goes into the first."""


def deadline_callback(function: Deadline) -> Any:
    """To be kept as long as a store uses it."""
    return _DEADLINE_TYPE(function)


def host_function(function: Host) -> Any:
    """To be kept as long as a linker uses it."""
    return ffi.wasmtime_func_unchecked_callback_t(function)


def new_error(text: bytes) -> int:
    return _address(ffi.wasmtime_error_new(ctypes.create_string_buffer(text)))


def new_trap(text: bytes) -> int:
    return _address(ffi.wasmtime_trap_new(ctypes.create_string_buffer(text, len(text)), len(text)))


def _address(pointer: Any) -> int:
    return ctypes.cast(pointer, ctypes.c_void_p).value or 0


def _raise(error: Any) -> None:
    if error:
        raise wasmtime.WasmtimeError._from_ptr(error)


class Linked:
    """A module with its imports bound, from which instances are made."""

    def __init__(
        self,
        engine: wasmtime.Engine,
        module: wasmtime.Module,
        imports: Iterable[tuple[str, str, wasmtime.FuncType, Any]],
    ) -> None:
        """`imports`: module, name, type, and what `host_function` gave."""
        self._linker = wasmtime.Linker(engine)
        for where, name, kind, function in imports:
            _raise(
                ffi.wasmtime_linker_define_func_unchecked(
                    self._linker.ptr(), *_name(where), *_name(name), kind.ptr(), function, None, _no_finalizer
                )
            )
        self.pointer = ctypes.POINTER(ffi.wasmtime_instance_pre_t)()
        _raise(
            ffi.wasmtime_linker_instantiate_pre(self._linker.ptr(), module.ptr(), ctypes.byref(self.pointer))
        )

    def delete(self) -> None:
        """Frees what instances are made from; the module has a descriptor of its own (the image of its memory)."""
        ffi.wasmtime_instance_pre_delete(self.pointer)


def _name(text: str) -> tuple[Any, int]:
    raw = text.encode()
    return ctypes.create_string_buffer(raw), len(raw)


class Instance:
    """One instance in a store of its own, called with raw values."""

    def __init__(self, store: wasmtime.Store, linked: Linked, deadline: Any, number: int) -> None:
        """`number` is what `deadline` gets. Raises WasmtimeError, mostly for want of address space."""
        self.store = store
        self._context = store._context()
        ffi.wasmtime_store_epoch_deadline_callback(
            store.ptr(), deadline, ctypes.c_void_p(number), _no_finalizer
        )
        self._functions: dict[str, tuple[Any, Any]] = {}
        self._values = (ffi.wasmtime_val_raw_t * MOST_SLOTS)()
        self._slots = (ctypes.c_uint64 * (2 * MOST_SLOTS)).from_buffer(self._values)
        self._trap = ctypes.POINTER(ffi.wasm_trap_t)()
        self._trap_ref = ctypes.byref(self._trap)
        self._instance = ffi.wasmtime_instance_t()
        _raise(
            ffi.wasmtime_instance_pre_instantiate(
                linked.pointer, self._context, ctypes.byref(self._instance), self._trap_ref
            )
        )
        if self._trap:
            raise wasmtime.Trap._from_ptr(self._trap)
        self._memory_item = self._export("memory").of.memory
        self._where = (_address(self._context), ctypes.addressof(self._memory_item))

    def _export(self, name: str) -> Any:
        item = ffi.wasmtime_extern_t()
        found = ffi.wasmtime_instance_export_get(
            self._context, ctypes.byref(self._instance), *_name(name), ctypes.byref(item)
        )
        if not found:
            raise GuestTampered(f"the guest does not export {name}")
        return item

    def locate(self) -> tuple[int, int]:
        """Address and size in bytes of the linear memory; the size changes when it grows."""
        return _memory_data(*self._where), _memory_size(*self._where)

    def grow_memory(self, pages: int) -> bool:
        before = ctypes.c_uint64(0)
        error = ffi.wasmtime_memory_grow(
            self._context, ctypes.byref(self._memory_item), pages, ctypes.byref(before)
        )
        if error:
            ffi.wasmtime_error_delete(error)
        return not error

    def global_i32(self, name: str) -> int:
        """The value of an exported global, signed; also after a trap."""
        item, value = self._export(name), ffi.wasmtime_val_t()
        ffi.wasmtime_global_get(self._context, ctypes.byref(item.of.global_), ctypes.byref(value))
        return int(value.of.i32)

    def end_at_next_tick(self) -> None:
        """The deadline callback is called at the next tick of the engine's epoch."""
        ffi.wasmtime_context_set_epoch_deadline(self._context, 1)

    def _function(self, name: str) -> tuple[Any, Any]:
        item = self._export(name)
        function = self._functions[name] = (ctypes.byref(item.of.func), item)
        return function

    def call(self, name: str, *arguments: int) -> int:
        """A guest function with whole numbers; the result is unsigned 64 bit. Raises what `_trapped` makes."""
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

    def _trapped(self, error: Any) -> Exception:
        return self.failure(error)

    def failure(self, error: Any) -> wasmtime.WasmtimeError | wasmtime.Trap:
        """What ended the last call; takes over `error`, a pointer that may be null, or the trap."""
        if error:
            return wasmtime.WasmtimeError._from_ptr(error)
        trap = wasmtime.Trap._from_ptr(self._trap)
        self._trap = ctypes.POINTER(ffi.wasm_trap_t)()
        self._trap_ref = ctypes.byref(self._trap)
        return trap
