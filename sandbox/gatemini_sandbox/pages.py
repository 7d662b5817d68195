"""Drop pages of guest memory, so that they are again what they were when the memory was made."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from typing import Any

IMAGE_PAGE = 4096
"""A guest's image is cut at pages of this size."""
_libc: Any = ctypes.CDLL(None) if sys.platform == "linux" else None


def drop(address: int, size: int) -> bool:
    """Whether these pages, whole ones, are again what they were when they were mapped: zero, or the file's."""
    return bool(_libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), mmap.MADV_DONTNEED) == 0)


def _can_drop() -> bool:
    """Tries it on a private mapping of a file, as a guest's memory is one: only Linux promises it, and kernels are many
    that take its calls."""
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
