"""Guests kept ready for the next chains: machines whose memory is the booted image, new ones or put back to it.

What a chain can change of its machine is its memory and its stack pointer: the guest has one table of fixed size, which
no instruction of it writes, one global that changes, and no passive segment. Both are put back after a chain that ended
by itself within the memory it began with; every other machine is thrown away. A test compares the whole memory, and
another reads the module's code. Above: guest.py. Below: engine.py.
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
    """The memory of a booted guest as differences from a fresh instance, and where things are in it."""

    pages: int
    pieces: tuple[tuple[int, bytes], ...]
    """Where, and what stands there, in order of address."""
    runtime: int
    context: int
    functions: dict[str, int]
    called: tuple[str, ...]
    """What every chain calls of the C API: found while its guest waits on the shelf, not while the chain waits."""
    inbox: int
    scratch: int
    rejections: int
    console: int
    console_bytes: int


class Shelf:
    """Machines with the booted memory in them, for the next chains: nothing of a chain is in an image.

    Thread-safe; blocking."""

    def __init__(self, engine: Engine, image: Image, memory_bytes: int) -> None:
        self._engine = engine
        self._image = image
        self._memory_bytes = memory_bytes
        self._ready: list[Machine] = []
        self._filling = threading.Lock()
        self._closed = False
        self._reusing: bool | None = None  # not known yet

    @property
    def ready(self) -> bool:
        """Whether the next `take` has nothing to make."""
        return bool(self._ready)

    @property
    def reusing(self) -> bool:
        """Whether memory can be put back on this system, as far as is known."""
        return self._reusing is True

    @property
    def full(self) -> bool:
        return len(self._ready) >= SHELF

    def take(self) -> Machine:
        """A machine for a chain, which brings its own budget and clock; made now if none is ready or nearly so."""
        with suppress(IndexError):
            return self._ready.pop()
        with self._filling, suppress(IndexError):  # what is being made now is there sooner than another one
            return self._ready.pop()
        return self._make()

    def give_back(self, machine: Machine) -> bool:
        """Puts a machine whose chain ended by itself back to the image, for another chain; False: close it."""
        if not self.reusing or self._closed or self.full or machine.locate()[1] != self._image.pages * PAGE:
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
            if self._reusing is None:
                self._reusing = self._can_reuse()
        except (Trapped, HostExhausted, wasmtime.WasmtimeError):
            logger.debug("no machine could be made ahead; the next chain tries again", exc_info=True)
        finally:
            self._filling.release()
        if self._closed:
            self.close()

    def close(self) -> None:
        self._closed = True
        with suppress(IndexError):  # two may close it, and each takes what is left
            while True:
                self._ready.pop().close()

    def _can_reuse(self) -> bool:
        """Tries once whether nothing is left of a memory full of something else: kernels are many."""
        one = self._make()
        try:
            other = self._make()
        except BaseException:
            one.close()
            raise
        try:
            address, size = one.locate()
            ctypes.memset(address, 0xA5, size)
            if not one.forget(self._image.pieces):
                return False
            self._fill(one)
            # Not as bytes of Python: copies of both memories would stay with the process.
            same = pages.equal(address, other.locate()[0], size) and one.stack() == other.stack()
        finally:
            one.close()
            other.close()
        if not same:
            logger.warning("memory of a guest cannot be put back here: every chain gets a new one")
        return same

    def _unused(self) -> Budget:
        return Budget(0.0, 0.0, Ledger(self._memory_bytes))

    def _make(self) -> Machine:
        image = self._image
        machine = Machine(self._engine, self._unused(), Clock.at(0.0), self._memory_bytes)
        try:
            missing = image.pages - machine.locate()[1] // PAGE
            if missing > 0:
                machine.grow(missing)
            for at, piece in image.pieces:
                machine.prefault(at, len(piece))
            self._fill(machine)
            machine.look_up(image.called)
        except BaseException:
            machine.close()
            raise
        return machine

    def _fill(self, machine: Machine) -> None:
        address = machine.locate()[0]
        for at, piece in self._image.pieces:
            ctypes.memmove(address + at, piece, len(piece))
