"""Keep guests ready for the next chains: new machines with the booted image as memory, and used ones put back to it.

A chain can change the memory and the stack pointer of its machine and nothing else: the guest's one table has a fixed
size and no instruction writes it, one global can change, and no segment is passive (tests/sandbox/test_shelf.py reads
the module for that). A machine whose chain ended by itself, within the memory it began with, serves again, which takes
0.04 ms of CPU time against 0.35 for a new one; every other machine is thrown away.
"""

from __future__ import annotations

import ctypes
import logging
import threading
from contextlib import suppress
from dataclasses import dataclass

import wasmtime

from gatemini_sandbox import pages
from gatemini_sandbox.budget import Budget, Ledger
from gatemini_sandbox.engine import Engine, Machine, Trapped
from gatemini_sandbox.errors import HostExhausted
from gatemini_sandbox.module import PAGE
from gatemini_sandbox.wasi import Clock

logger = logging.getLogger(__name__)

SHELF = 2
"""Guests kept ready: one for the next chain, one for a chain that comes before that one's place is filled."""


@dataclass(frozen=True, slots=True)
class Image:
    """The memory of a booted guest as differences from a fresh instance, and addresses in it."""

    pages: int
    pieces: tuple[tuple[int, bytes], ...]
    """(address, content), in order of address."""
    context: int
    functions: dict[str, int]
    inbox: int
    scratch: int
    rejections: int
    console: int
    console_bytes: int


class Shelf:
    """Machines with the booted memory, in which nothing of a chain is. Thread-safe; blocking."""

    def __init__(self, engine: Engine, image: Image, memory_bytes: int) -> None:
        self._engine = engine
        self._image = image
        self._memory_bytes = memory_bytes
        self._ready: list[Machine] = []
        self._filling = threading.Lock()
        self._closed = False

    @property
    def full(self) -> bool:
        return len(self._ready) >= SHELF

    def take(self) -> Machine:
        """A machine for a chain, which sets its budget and clock; made now if none is ready."""
        with suppress(IndexError):
            return self._ready.pop()
        with self._filling, suppress(IndexError):  # one that is being made now is ready sooner than another
            return self._ready.pop()
        return self._make()

    def give_back(self, machine: Machine) -> bool:
        """Puts a machine whose chain ended by itself back to the image, for another chain; False: close it."""
        if not pages.CAN_DROP or self._closed or self.full or machine.locate()[1] != self._image.pages * PAGE:
            return False
        machine.retire()
        if not machine.forget(self._image.pieces):
            return False
        self._fill(machine)
        machine.reuse(self._unused())
        self._ready.append(machine)
        if self._closed:
            self.close()
        return True

    def restock(self) -> None:
        """Make the shelf full."""
        if self._closed or self.full or not self._filling.acquire(blocking=False):
            return
        try:
            while not self.full:
                self._ready.append(self._make())
        except (Trapped, HostExhausted, wasmtime.WasmtimeError):
            logger.debug("no machine could be made; the next chain tries again", exc_info=True)
        finally:
            self._filling.release()
        if self._closed:
            self.close()

    def close(self) -> None:
        self._closed = True
        with suppress(IndexError):  # two may close it, and each takes what is left
            while True:
                self._ready.pop().close()

    def _unused(self) -> Budget:
        return Budget(0.0, 0.0, Ledger(self._memory_bytes))

    def _make(self) -> Machine:
        image = self._image
        machine = Machine(self._engine, self._unused(), Clock.at(0.0), self._memory_bytes)
        try:
            missing = image.pages - machine.locate()[1] // PAGE
            if missing > 0:
                machine.grow(missing)
            self._fill(machine)
        except BaseException:
            machine.close()
            raise
        return machine

    def _fill(self, machine: Machine) -> None:
        address = machine.locate()[0]
        for at, piece in self._image.pieces:
            ctypes.memmove(address + at, piece, len(piece))
