"""wasmtime's private module is as wasmtime_raw.py assumes."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import pytest
import wasmtime
from wasmtime import _ffi as ffi

from gatemini_sandbox.webassembly.wasmtime_raw import (
    Instance,
    Linked,
    deadline_callback,
    host_function,
    new_error,
    new_trap,
)

MODULE = """(module (import "host" "twice" (func $twice (param i64) (result i64)))
(import "host" "refuse" (func $refuse))
(memory (export "memory") 1 2) (global (export "global") i32 (i32.const -5))
(func (export "twice_and_add") (param i64 i64) (result i64) (i64.add (call $twice (local.get 0)) (local.get 1)))
(func (export "load") (param i32) (result i32) (i32.load (local.get 0)))
(func (export "fall") (unreachable)) (func (export "call_refuse") (call $refuse)) (func (export "spin") (loop (br 0))))"""
KEPT: list[Any] = []
"""Callbacks that wasmtime may still call."""


def twice(_env: Any, _caller: Any, slots: Any, count: int) -> int:
    assert count == 1
    slots[0].i64 *= 2
    return 0


@pytest.fixture
def engine() -> wasmtime.Engine:
    config = wasmtime.Config()
    config.epoch_interruption = True
    return wasmtime.Engine(config)


@pytest.fixture
def numbers() -> list[int | None]:
    """What the deadline's callback was called with."""
    return []


@pytest.fixture
def one(engine: wasmtime.Engine, numbers: list[int | None]) -> Iterator[Instance]:
    def end(_context: Any, number: int | None, _delta: Any, _kind: Any) -> int:
        numbers.append(number)
        return new_error(b"over")

    module = wasmtime.Module(engine, MODULE)
    hosts = [host_function(twice), host_function(lambda *_: new_trap(b"refused"))]
    ended = deadline_callback(end)
    KEPT.extend([*hosts, ended])
    bound = [
        ("host", entry.name, entry.type, host) for entry, host in zip(module.imports, hosts, strict=True)
    ]
    linked = Linked(engine, module, bound)
    made = Instance(wasmtime.Store(engine), linked, ended, 7)
    made.end_at_next_tick()
    yield made
    linked.delete()


def test_values_memory_and_globals_are_where_they_are_read(one: Instance) -> None:
    assert ctypes.sizeof(ffi.wasmtime_val_raw_t) == 16
    assert one.call("twice_and_add", 1 << 40, 2) == (1 << 41) + 2
    assert one.global_i32("global") == -5
    assert (one.locate()[1], one.grow_memory(1), one.locate()[1]) == (65536, True, 131072)
    assert not one.grow_memory(1)
    ctypes.memmove(one.locate()[0] + 8, b"\x2a\0\0\0", 4)
    assert one.call32("load", 8) == 42


@pytest.mark.parametrize(("function", "text"), [("fall", "unreachable"), ("call_refuse", "refused")])
def test_a_trap_is_raised_with_its_text(one: Instance, function: str, text: str) -> None:
    with pytest.raises((wasmtime.Trap, wasmtime.WasmtimeError), match=text):
        one.call(function)


def test_the_deadline_calls_back_with_the_number_of_the_store_and_may_end_it(
    engine: wasmtime.Engine, one: Instance, numbers: list[int | None]
) -> None:
    engine.increment_epoch()
    with pytest.raises(wasmtime.WasmtimeError, match="over"):
        one.call("spin")
    assert numbers == [7]
