"""The code of a chain made runnable within its time: read on the event loop when small, else on a thread.

Above: script.py. Below: the sandbox's wrap.py and oxc.py, deadline.py.
"""

from __future__ import annotations

import anyio
import anyio.to_thread

from gatemini.chain.deadline import ChainTime
from gatemini.chain.names import WATCHED
from gatemini.errors import ChainTimeout, CodeError
from gatemini_sandbox.errors import ReadingTooLong, SecondParserCold
from gatemini_sandbox.patience import patience
from gatemini_sandbox.typescript.oxc import make_ready
from gatemini_sandbox.typescript.prepare import Program, prepare

SMALL_SOURCE = 2 * 1024
"""Code up to this many characters is prepared on the event loop: a few milliseconds, however it is written."""

READING_SECONDS = 5.0
"""Most that parsing may take: a hundred times what the largest program a person writes needs."""


async def read(code: str, identifiers: tuple[str, ...], chain_time: ChainTime) -> Program:
    """The code made runnable. The second parser, where it is needed, is first compiled at nobody's expense but the
    chain's time: that the machine is slow does not make the code slow to read."""
    try:
        return await _read(code, identifiers, chain_time, compiling=False)
    except SecondParserCold:
        with anyio.move_on_after(chain_time.left()):
            await anyio.to_thread.run_sync(make_ready, abandon_on_cancel=True)
    return await _read(code, identifiers, chain_time, compiling=True)


async def _read(
    code: str, identifiers: tuple[str, ...], chain_time: ChainTime, *, compiling: bool
) -> Program:
    """The code made runnable, on a thread unless it is small, and given up when it takes too long."""
    seconds = min(READING_SECONDS, chain_time.left())

    def parsed() -> Program:
        with patience(seconds):
            return prepare(code, identifiers, WATCHED, compiling=compiling)

    why = f"the code could not be parsed within {READING_SECONDS:g} s"
    try:
        if len(code) <= SMALL_SOURCE:
            return parsed()
        with anyio.move_on_after(seconds):
            return await anyio.to_thread.run_sync(parsed, abandon_on_cancel=True)
    except ReadingTooLong as exc:
        why = str(exc)
    if chain_time.left() <= 0:
        raise ChainTimeout.after(chain_time.seconds)
    raise CodeError(
        why,
        hint="send code as a person would write it: close every quote and bracket, nest less, keep data out of it",
    )
