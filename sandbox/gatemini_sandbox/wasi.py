"""Answer every WASI import of the guest: a clock, an empty environment, a bounded sink, or a refusal.

Functions read and write guest memory only within its bounds, where the WASI call says. `BINDINGS` is the whole list:
`gatemini sandbox inspect` prints it, and a test compares it with the module's imports.
"""

from __future__ import annotations

import ctypes
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

ERRNO_OK = 0
ERRNO_BADF = 8
ERRNO_INVAL = 28
ERRNO_NOSYS = 52

BINDINGS: dict[str, str] = {
    "clock_time_get": "clock: the chain's start time plus elapsed monotonic time, in microseconds",
    "environ_get": "empty: success, no entries",
    "environ_sizes_get": "empty: success, zero entries, zero bytes",
    "fd_close": "refused: EBADF",
    "fd_fdstat_get": "refused: EBADF",
    "fd_fdstat_set_flags": "refused: EBADF",
    "fd_prestat_dir_name": "refused: EBADF",
    "fd_prestat_get": "refused: EBADF (no directory is open)",
    "fd_read": "refused: EBADF",
    "fd_readdir": "refused: EBADF",
    "fd_seek": "refused: EBADF",
    "fd_write": "sink: descriptors 1 and 2 are counted and thrown away, all others EBADF",
    "path_create_directory": "refused: ENOSYS",
    "path_filestat_get": "refused: ENOSYS",
    "path_filestat_set_times": "refused: ENOSYS",
    "path_open": "refused: ENOSYS",
    "path_remove_directory": "refused: ENOSYS",
    "path_rename": "refused: ENOSYS",
    "path_unlink_file": "refused: ENOSYS",
    "poll_oneoff": "refused: ENOSYS (nothing in here can wait)",
    "proc_exit": "trap: the guest is ended",
}
"""WASI function -> what it is bound to; a guest that imports anything else is not started."""

MOST_VECTORS = 1024
"""Pieces one fd_write may name; the sink only has to add up their lengths."""


MOST_READINGS = 10_000
"""Readings of the wall clock remembered for running a chain again; a loop that polls the clock makes more."""


@dataclass(slots=True)
class Clock:
    """The guest's time: a host-made start, moved on by the monotonic clock.

    Readings of the wall clock are kept, and may be given: a chain that is run again reads the same times in the same
    order, then goes on from the last. The bridge's own timers read the monotonic clock, which is not kept."""

    start_ms: float
    started: float
    given: Sequence[int] = ()
    readings: list[int] = field(default_factory=list)

    @classmethod
    def at(cls, start_ms: float, given: Sequence[int] = ()) -> Clock:
        return cls(start_ms, time.monotonic(), given)

    def nanoseconds(self, clock_id: int) -> int:
        elapsed = time.monotonic() - self.started
        if clock_id != 0:
            return int(elapsed * 1e6) * 1000
        count = len(self.readings)
        if count < len(self.given):
            reading = self.given[count]
            # What comes after the last given reading goes on from it.
            self.start_ms = reading / 1e6 - elapsed * 1000
        else:
            reading = int((self.start_ms / 1000 + elapsed) * 1e6) * 1000
        if count < MOST_READINGS:
            self.readings.append(reading)
        return reading


class Memory:
    """Bounds-checked access to a guest's linear memory; `locate` gives its current address and size."""

    __slots__ = ("_locate",)

    def __init__(self, locate: Callable[[], tuple[int, int]]) -> None:
        self._locate = locate

    def read(self, at: int, size: int) -> bytes | None:
        address, length = self._locate()
        if at < 0 or size < 0 or at + size > length:
            return None
        return ctypes.string_at(address + at, size)

    def write(self, at: int, data: bytes) -> bool:
        address, length = self._locate()
        if at < 0 or at + len(data) > length:
            return False
        ctypes.memmove(address + at, data, len(data))
        return True


def clock_time_get(memory: Memory, clock: Clock, clock_id: int, at: int) -> int:
    return ERRNO_OK if memory.write(at, struct.pack("<Q", clock.nanoseconds(clock_id))) else ERRNO_INVAL


def environ_sizes_get(memory: Memory, count_at: int, bytes_at: int) -> int:
    zero = b"\0\0\0\0"
    return ERRNO_OK if memory.write(count_at, zero) and memory.write(bytes_at, zero) else ERRNO_INVAL


def fd_write(memory: Memory, fd: int, vectors_at: int, count: int, written_at: int) -> int:
    if fd not in (1, 2):
        return ERRNO_BADF
    if not 0 <= count <= MOST_VECTORS:
        return ERRNO_INVAL
    vectors = memory.read(vectors_at, 8 * count)
    if vectors is None:
        return ERRNO_INVAL
    total = sum(size for _, size in struct.iter_unpack("<II", vectors))
    return ERRNO_OK if memory.write(written_at, struct.pack("<I", total & 0xFFFFFFFF)) else ERRNO_INVAL


def refusal(name: str) -> int:
    """The errno a refused function answers with."""
    return ERRNO_NOSYS if "ENOSYS" in BINDINGS[name] else ERRNO_BADF
