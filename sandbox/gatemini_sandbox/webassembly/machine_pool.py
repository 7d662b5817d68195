"""Keep machines ready for the next chains: new ones with the booted image as memory, and used ones put back to it.

A chain can change the memory and the stack pointer of its machine and nothing else: the guest's one table has a fixed
size and no instruction writes it, one global can change, and no segment is passive (tests/sandbox/test_machine_pool.py reads
the module for that). A machine whose chain ended by itself, within the memory it began with, serves again, which takes
0.04 ms of CPU time against 0.35 for a new one; every other machine is thrown away.
"""

from __future__ import annotations

import ctypes
import logging
import mmap
import os
import sys
import threading
from contextlib import suppress
from typing import Any

import wasmtime

from gatemini_sandbox.errors import HostExhausted
from gatemini_sandbox.webassembly.budget import Budget, Ledger
from gatemini_sandbox.webassembly.engine import Engine, Machine
from gatemini_sandbox.webassembly.image import IMAGE_PAGE, Image
from gatemini_sandbox.webassembly.patched_module import PAGE
from gatemini_sandbox.webassembly.traps import Trapped
from gatemini_sandbox.webassembly.wasi import Clock

logger = logging.getLogger(__name__)

MOST_READY = 2
"""Machines kept ready: one for the next chain, one for a chain that comes before that one's place is filled."""
_libc: Any = ctypes.CDLL(None) if sys.platform == "linux" else None


def _can_drop() -> bool:
    """Whether pages that are dropped are again what they were when they were mapped: only Linux promises it, and other
    kernels take its calls. Tried on a private mapping of a file, as a guest's memory is one."""
    if sys.platform != "linux" or mmap.PAGESIZE != IMAGE_PAGE:
        return False
    file = os.memfd_create("pages")
    try:
        os.write(file, b"a" * IMAGE_PAGE)
        with mmap.mmap(file, IMAGE_PAGE, access=mmap.ACCESS_COPY) as page:
            page[:1] = b"b"
            page.madvise(mmap.MADV_DONTNEED)
            return page[:1] == b"a"
    finally:
        os.close(file)


CAN_DROP = _can_drop()


class MachinePool:
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
        return len(self._ready) >= MOST_READY

    def take(self) -> Machine:
        """A machine for a chain, which sets its budget and clock; made now if none is ready."""
        with suppress(IndexError):
            return self._ready.pop()
        with self._filling, suppress(IndexError):  # one that is being made now is ready sooner than another
            return self._ready.pop()
        return self._make()

    def give_back(self, machine: Machine) -> bool:
        """Puts a machine whose chain ended by itself back to the image, for another chain; False: close it."""
        if not CAN_DROP or self._closed or self.full or machine.locate()[1] != self._image.pages * PAGE:
            return False
        machine.retire()
        if machine.stopped is not None or not self._drop_pages(machine):
            return False
        self._fill(machine)
        machine.reuse(self._unused())
        self._ready.append(machine)
        if self._closed:
            self.close()
        return True

    def restock(self) -> None:
        """Make as many machines as are kept ready."""
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
            machine.grow(image.pages - machine.locate()[1] // PAGE)
            self._fill(machine)
        except BaseException:
            machine.close()
            raise
        return machine

    def _drop_pages(self, machine: Machine) -> bool:
        """Put all memory but the image's pieces back to what it was in the fresh instance; False if that failed."""
        address, size = machine.locate()
        at = 0
        for start, piece in (*self._image.pieces, (size, b"")):
            first, length = ctypes.c_void_p(address + at), ctypes.c_size_t(start - at)
            if start > at and _libc.madvise(first, length, mmap.MADV_DONTNEED) != 0:
                return False
            at = start + len(piece)
        return True

    def _fill(self, machine: Machine) -> None:
        address = machine.locate()[0]
        for at, piece in self._image.pieces:
            ctypes.memmove(address + at, piece, len(piece))
