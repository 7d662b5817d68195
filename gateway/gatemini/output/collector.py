"""Python's garbage collector, kept from walking a document again and again while it is read.

Values read from JSON hold no cycles, so there is nothing to find in them; yet each few hundred of them start a walk.
Above: `pipeline.py`. Below: nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collector() -> Iterator[None]:
    """No collection in this block, of a few hundred milliseconds; of several at a time the last may end within another."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
