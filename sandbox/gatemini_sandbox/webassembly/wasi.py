"""Answer every WASI import of the guest: a clock, an empty environment, a bounded sink, or a refusal.

`BINDINGS` is the whole list: `gatemini sandbox inspect` prints it, and a test compares it with the module's imports.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gatemini_sandbox.errors import GuestFault

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


class Memory(Protocol):
    """A guest's linear memory; both raise GuestFault outside of its bounds."""

    def read(self, at: int, size: int) -> bytes: ...

    def write(self, at: int, data: bytes) -> None: ...


def answer(name: str, memory: Memory, clock: Clock, arguments: Sequence[int]) -> int:
    """The errno of one call, with unsigned arguments; results go where the arguments say."""
    try:
        match name:
            case "clock_time_get":
                clock_id, _, at = arguments
                memory.write(at, struct.pack("<Q", clock.nanoseconds(clock_id)))
            case "environ_sizes_get":
                for at in arguments:
                    memory.write(at, bytes(4))
            case "environ_get":
                pass
            case "fd_write":
                return _fd_write(memory, *arguments)
            case _:
                return ERRNO_NOSYS if "ENOSYS" in BINDINGS[name] else ERRNO_BADF
    except GuestFault:
        return ERRNO_INVAL
    return ERRNO_OK


def _fd_write(memory: Memory, fd: int, vectors_at: int, count: int, written_at: int) -> int:
    if fd not in (1, 2):
        return ERRNO_BADF
    if count > MOST_VECTORS:
        return ERRNO_INVAL
    total = sum(size for _, size in struct.iter_unpack("<II", memory.read(vectors_at, 8 * count)))
    memory.write(written_at, struct.pack("<I", total & 0xFFFFFFFF))
    return ERRNO_OK
