"""The compute process: what is too large for the event loop is read and reduced there.

It knows which secrets to take out, and never sees the code of agents. A request is a header, as JSON, and bytes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio.lowlevel
import orjson

from gatemini.processes.pool import WorkerPool

LARGE_BYTES = 512 * 1024
"""Messages and answers above this size go to the compute process; below, the event loop takes a few milliseconds."""

MODULE = "gatemini.chain.compute_process"
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


def encoded(text: str) -> list[bytes]:
    """A text as UTF-8 in parts; lone surrogates are kept."""
    starts = range(0, len(text), PART_CHARS)
    return [text[at : at + PART_CHARS].encode("utf-8", "surrogatepass") for at in starts]


def frame(header: Any) -> bytes:
    """A header as it stands in front of the bytes of a request or an answer."""
    data = orjson.dumps(header, option=orjson.OPT_NON_STR_KEYS)
    return len(data).to_bytes(HEAD_BYTES, "little") + data


def unframed(data: bytes | bytearray) -> tuple[Any, memoryview]:
    """The header and the bytes after it."""
    view = memoryview(data)
    end = HEAD_BYTES + int.from_bytes(view[:HEAD_BYTES], "little")
    return orjson.loads(view[HEAD_BYTES:end]), view[end:]
