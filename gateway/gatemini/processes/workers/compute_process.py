"""The compute process: what is too large for the event loop is read and reduced there.

It knows which secrets to take out, and never sees the code of agents. A request is a header, as JSON, and bytes.
"""

from __future__ import annotations

import codecs
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Any

import anyio.lowlevel
import orjson

from gatemini.processes.workers.worker_pool import WorkerPool

LARGE_BYTES = 1024 * 1024
"""Messages and texts above this size are read in the compute process. The event loop reads this much in 2 to 13 ms, and
the way to the process and back takes 7 to 18 ms; at 4 MB the loop would be held for up to 300."""

REDUCED_BYTES = 512 * 1024
"""Answers above this size are reduced there: the loop takes 2 to 13 ms for this much, 23 with an intent that many rows match."""

MODULE = "gatemini.chain.values.large_results"
PART_CHARS = 1 << 20
"""Characters of a text that are encoded at a time."""
HEAD_BYTES = 4
"""In front of a header: its length."""

_pool: anyio.lowlevel.RunVar[WorkerPool] = anyio.lowlevel.RunVar("compute process")


@asynccontextmanager
async def compute_process() -> AsyncIterator[None]:
    """Have a process for what is computed in this event loop, started when something needs it."""
    pool = WorkerPool(MODULE)
    _pool.set(pool)
    try:
        yield
    finally:
        await pool.close()


async def compute(header: dict[str, Any], body: Sequence[bytes]) -> tuple[Any, memoryview]:
    """The header and the bytes of the answer. Raises WorkerFailed or WorkerLost.

    Without `compute_process` a process is started for this request alone.
    """
    request = [frame(header), *body]
    try:
        pool = _pool.get()
    except LookupError:
        pool = WorkerPool(MODULE)
        try:
            return unframed(await pool.ask(request))
        finally:
            await pool.close()
    return unframed(await pool.ask(request))


async def encoded(text: str) -> list[bytes]:
    """A text as UTF-8 in parts, with lone surrogates kept; others have their turn between two parts."""
    parts = []
    for at in range(0, len(text), PART_CHARS):
        parts.append(text[at : at + PART_CHARS].encode("utf-8", "surrogatepass"))
        await anyio.lowlevel.checkpoint()
    return parts


async def decoded(data: memoryview) -> str:
    """UTF-8 as a text, a part at a time: 40 MB at once take 20 ms. Lone surrogates are kept."""
    decoder = codecs.getincrementaldecoder("utf-8")("surrogatepass")
    whole = ""
    for at in range(0, len(data), PART_CHARS):
        whole += decoder.decode(data[at : at + PART_CHARS])  # a string without other owners grows in place
        await anyio.lowlevel.checkpoint()
    return whole


async def joined(parts: Sequence[bytes]) -> bytes:
    """The parts as one, a part at a time."""
    whole = BytesIO()
    for part in parts:
        whole.write(part)
        await anyio.lowlevel.checkpoint()
    return whole.getvalue()


def frame(header: Any) -> bytes:
    """A header as it stands in front of the bytes of a request or an answer."""
    data = orjson.dumps(header, option=orjson.OPT_NON_STR_KEYS)
    return len(data).to_bytes(HEAD_BYTES, "little") + data


def unframed(data: bytes | bytearray | memoryview) -> tuple[Any, memoryview]:
    """The header and the bytes after it."""
    view = memoryview(data)
    end = HEAD_BYTES + int.from_bytes(view[:HEAD_BYTES], "little")
    return orjson.loads(view[HEAD_BYTES:end]), view[end:]
