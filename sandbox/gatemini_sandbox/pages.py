"""Pages of guest memory as the operating system has them: mapped ahead of their first use, and dropped.

Above: engine.py. Below: madvise of Linux; elsewhere nothing is done, and the answer says so.
"""

from __future__ import annotations

import ctypes
import mmap
import sys

POPULATE_WRITE = 23
"""MADV_POPULATE_WRITE of Linux 5.14; Python's mmap module does not name it."""
LINUX_PAGE = 4096

_libc = ctypes.CDLL(None) if sys.platform == "linux" else None
_madvise = None if _libc is None else _libc.madvise
_memcmp = None if _libc is None else _libc.memcmp

CAN_DROP = _madvise is not None and mmap.PAGESIZE == LINUX_PAGE
"""Linux alone promises that dropped pages of private memory come back as they were mapped: zero, or the file's. A
guest's image is cut at pages of this size."""


def populate(address: int, size: int) -> None:
    """Have these pages mapped in one go: written one by one, each costs a fault of its own."""
    if _madvise is not None:
        start = address & -mmap.PAGESIZE
        # Only a matter of time: an older kernel refuses it, and the pages come when they are written.
        _madvise(ctypes.c_void_p(start), ctypes.c_size_t(address + size - start), POPULATE_WRITE)


def equal(one: int, other: int, size: int) -> bool:
    """Whether the same bytes stand at both addresses; only on Linux."""
    return (
        _memcmp is not None
        and _memcmp(ctypes.c_void_p(one), ctypes.c_void_p(other), ctypes.c_size_t(size)) == 0
    )


def drop(address: int, size: int) -> bool:
    """Whether these pages, whole ones, are again what they were when they were mapped."""
    if _madvise is None:
        return False
    return bool(_madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), mmap.MADV_DONTNEED) == 0)
