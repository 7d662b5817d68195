"""A machine is given to a second chain only with the booted memory in all of it; every other one is thrown away."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from fixtures.wasm import functions
from gatemini_sandbox.guests.guest import Guest
from gatemini_sandbox.limits import MIB, Limits
from gatemini_sandbox.messages import Start, encode_start
from gatemini_sandbox.webassembly import machine_pool
from gatemini_sandbox.webassembly.budget import Ledger
from gatemini_sandbox.webassembly.engine import Engine, Machine
from gatemini_sandbox.webassembly.image import Image, boot
from gatemini_sandbox.webassembly.machine_pool import CAN_DROP, MachinePool
from gatemini_sandbox.webassembly.patched_module import (
    CODE_SECTION,
    GLOBAL_SECTION,
    GLOBAL_SET,
    STACK_BYTES,
    guest_wasm,
    patched,
    read_leb,
    sections,
)
from gatemini_sandbox.webassembly.wasi import Clock

needs_forgetting = pytest.mark.skipif(not CAN_DROP, reason="no way to put memory back on this system")
BOUND = 60.0
LIMITS = Limits(cpu_seconds=0.3, memory_mb=64)


@pytest.fixture(scope="module")
def engine(module_cache: Path) -> Engine:
    return Engine(module_cache)


@pytest.fixture(scope="module")
def image(engine: Engine) -> Image:
    return boot(engine, LIMITS)


@pytest.fixture
def stocked(engine: Engine, image: Image):
    made = MachinePool(engine, image, LIMITS.memory_mb * MIB)
    made.restock()
    yield made
    made.close()


def begun(stocked: MachinePool, image: Image, code: str) -> tuple[Guest, Machine, str | None]:
    """A guest after the first step of `code`, its machine and how it ended."""
    guest = Guest(stocked, image, LIMITS, Ledger(1 << 40), Clock.at(0.0))
    begin = encode_start(Start(backends=[("demo", "demo")], seed=bytes(32), now_ms=0.0), LIMITS)
    raw = guest.begin(begin, f"(async () => {{ {code} }})".encode())
    assert guest._machine is not None
    return guest, guest._machine, raw.end


def content(machine: Machine) -> bytes:
    return machine.read(0, machine.locate()[1])


ORDINARY = {
    "a value": "return [1, 2, 3].map(x => ({x, s: 'y'.repeat(x)}))",
    "an error": "throw new Error('secret ' + 'x'.repeat(1000))",
    "a chain that waits for ever": "await new Promise(() => {})",
    "globals changed and frozen": """
        globalThis.left = 'behind'; Array.prototype.left = 1; JSON.parse = () => 'left';
        Object.prototype.then = () => 0; Object.freeze(globalThis); Object.freeze(Object.prototype); return 1""",
    "the heap filled": "const all = []; for (let n = 0; n < 2000; n++) all.push('secret' + n); return all.length",
    "the console filled": "for (let n = 0; n < 3000; n++) console.log('secret', n); return 1",
    "the stack used": "const down = n => n ? 1 + down(n - 1) : 0; return down(500)",
    "timers and jobs": "for (let n = 0; n < 50; n++) setTimeout(() => n, 1e6); await null; return 1",
    "symbols and registries": "Symbol.for('left'); globalThis.m = new Map([[{}, 1]]); return 1",
    "a call left open": "demo.echo({}); return 1",
}


@needs_forgetting
@pytest.mark.parametrize("code", ORDINARY.values(), ids=ORDINARY)
def test_a_machine_that_serves_again_has_the_memory_of_a_new_one(
    engine: Engine, image: Image, stocked: MachinePool, code: str
) -> None:
    new = content(stocked._make())
    guest, machine, end = begun(stocked, image, code)
    if end is None:
        end = guest.outcome().end
    assert end in ("done", "failed", "deadlock")
    assert content(machine) != new
    guest.close()
    assert stocked.take() is machine
    assert content(machine) == new
    assert machine.stack() == machine.engine.stack_bottom + STACK_BYTES


FINISHED = {
    "its stack ran over": "const down = n => 1 + down(n + 1); return down(0)",
    "its memory grew": "globalThis.much = new Uint8Array(4e6).fill(1); return much.length",
    "its memory ran out": "const all = []; for (;;) all.push(new Uint8Array(1e6).fill(1))",
    "its time was over": "for (;;);",
    "its chain did not end": "await demo.echo({}); return 1",
}


@pytest.mark.parametrize("code", FINISHED.values(), ids=FINISHED)
def test_a_machine_is_freed_after_an_unclean_end(image: Image, stocked: MachinePool, code: str) -> None:
    guest, machine, _ = begun(stocked, image, code)
    guest.stop()
    guest.close()
    assert machine not in stocked._ready
    assert not machine._open.acquire(blocking=False)


@needs_forgetting
def test_closing_a_guest_on_many_threads_puts_its_machine_back_once(
    image: Image, stocked: MachinePool
) -> None:
    for _ in range(50):
        guest, machine, _ = begun(stocked, image, "return 1")
        together = threading.Barrier(4)

        def close(guest: Guest = guest, together: threading.Barrier = together) -> None:
            together.wait()
            guest.close()

        closers = [threading.Thread(target=close) for _ in range(4)]
        for closer in closers:
            closer.start()
        for closer in closers:
            closer.join()
        assert stocked._ready.count(machine) == 1


@needs_forgetting
def test_a_guest_that_has_ended_has_no_hold_on_the_next_chain_of_its_machine(
    image: Image, stocked: MachinePool
) -> None:
    first, machine, _ = begun(stocked, image, "return 1")
    first.close()
    second, again, end = begun(stocked, image, "await demo.echo({}); return 1")
    assert again is machine
    assert end is None
    first.stop()
    first.close()
    assert second.resume(b"").end is None


def test_where_memory_cannot_be_put_back_a_new_machine_is_made(
    image: Image, stocked: MachinePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gatemini_sandbox.webassembly.machine_pool.CAN_DROP", False)
    guest, machine, _ = begun(stocked, image, "return 1")
    guest.close()
    stocked.restock()
    assert stocked.full
    assert machine not in stocked._ready


def test_no_more_machines_are_kept_than_the_pool_holds_and_none_once_it_is_closed(
    image: Image, stocked: MachinePool
) -> None:
    guests = [begun(stocked, image, "return 1") for _ in range(machine_pool.MOST_READY + 3)]
    for guest, _, _ in guests[1:]:
        guest.close()
    assert len(stocked._ready) <= machine_pool.MOST_READY
    stocked.close()
    last, machine, _ = guests[0]
    last.close()
    assert stocked._ready == []
    assert not machine._open.acquire(blocking=False)


INDIRECT, TABLE_SECTION = 0x11, 4
MEMORY_INIT, DATA_DROP, ELEM_DROP = 0xFC08, 0xFC09, 0xFC0D
TABLE_WRITES = {0x26, 0xFC0C, 0xFC0E, 0xFC0F, 0xFC11}  # set; init, copy, grow, fill


def test_the_guest_can_change_nothing_of_its_machine_but_memory_and_stack_pointer() -> None:
    parts = dict(sections(patched(guest_wasm())))
    code = [one for body in functions(parts[CODE_SECTION]) for one in body]
    kinds = {kind for kind, _, _ in code}
    globals_set = {operand for kind, operand, _ in code if kind == GLOBAL_SET}
    assert INDIRECT in kinds  # the reading works
    assert not kinds & TABLE_WRITES
    assert not kinds & {MEMORY_INIT, DATA_DROP, ELEM_DROP}
    assert globals_set == {0}  # the stack pointer
    count, at = read_leb(parts[TABLE_SECTION], 0)
    assert count == 1
    limited, at = parts[TABLE_SECTION][at + 1], at + 2
    least, at = read_leb(parts[TABLE_SECTION], at)
    assert (limited, least) == (1, read_leb(parts[TABLE_SECTION], at)[0])  # as large as it will ever be
    assert parts[GLOBAL_SECTION][:3] == bytes([2, 0x7F, 1])  # two, the first of which can change
    assert parts[GLOBAL_SECTION].endswith(bytes([0x7F, 0, 0x41, 0, 0x0B]))  # and the second cannot


def test_a_machine_in_the_pool_may_not_run(stocked: MachinePool) -> None:
    machine = stocked.take()
    assert machine.budget.verdict() is not None
    machine.close()
