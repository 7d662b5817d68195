"""Frames on a worker's pipes: an operation and byte strings, length before everything. The other side is hostile.

    u32 size of what follows | u8 operation | u16 number of parts | (u32 length, bytes) for each part

Above: worker.py (one side), workers.py (the other). Below: nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from gatemini_sandbox.errors import GuestFault

MOST_BYTES = 192 << 20
"""Of one frame: a batch of the largest replies a guest takes, with room to spare."""

# To the worker: settings (once), start, replies, outcome, drop. From it: ready or unfit (once), taken (before it runs
# what came with start), raw.
SETTINGS, START, REPLIES, OUTCOME, DROP, READY, UNFIT, RAW, TAKEN = range(1, 10)


def pack(operation: int, parts: Sequence[bytes]) -> bytes:
    body = [struct.pack("<BH", operation, len(parts))]
    for part in parts:
        body.append(struct.pack("<I", len(part)))
        body.append(part)
    text = b"".join(body)
    return struct.pack("<I", len(text)) + text


def read(receive: Callable[[int], bytes]) -> tuple[int, list[bytes]]:
    """One frame. `receive(n)` gives exactly n bytes or raises. GuestFault for a frame that lies about itself."""
    size = struct.unpack("<I", receive(4))[0]
    if not 3 <= size <= MOST_BYTES:
        raise GuestFault(f"a frame of {size} bytes")
    body = memoryview(receive(size))
    operation, count = struct.unpack_from("<BH", body)
    parts: list[bytes] = []
    at = 3
    for _ in range(count):
        if at + 4 > size:
            raise GuestFault("a frame ends within a part")
        length = struct.unpack_from("<I", body, at)[0]
        at += 4
        if at + length > size:
            raise GuestFault("a part is longer than its frame")
        parts.append(bytes(body[at : at + length]))
        at += length
    if at != size:
        raise GuestFault("a frame with something behind its parts")
    return operation, parts
