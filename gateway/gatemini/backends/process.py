"""Run a command to its end: bounded output, its whole group gone afterwards, whatever happens.

For processes that are started, read and done; the long-lived ones are `stdio.py`'s. Above: `cli_adapter.py`,
`prerequisite.py`. Below: `children.py`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from subprocess import DEVNULL, PIPE

import anyio
import anyio.abc

from gatemini.backends.children import Children

READ_BYTES = 1 << 16
STDERR_BYTES = 64 << 10
"""The end of stderr that is kept."""

OUTPUT_DRAIN_SECONDS = 0.5
"""How long output is still read after the process ended (what it left behind may hold the pipe open)."""

KILL_SHIELD_SECONDS = 5.0
"""Beyond the grace period: the most that ending a process may take."""


class OutputTooLarge(Exception):
    """The command printed more than it may."""


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended and what it printed."""

    code: int
    stdout: bytes
    stderr_lines: list[str]


async def run_to_end(
    line: Sequence[str],
    *,
    environment: Mapping[str, str],
    cwd: str | None,
    stdin: bytes | None,
    max_bytes: int,
    children: Children,
    grace: float,
) -> Finished:
    """Run `line`; raises `OSError` if it cannot start and `OutputTooLarge`. Cancelling ends the process."""
    process = await anyio.open_process(
        line,
        stdin=DEVNULL if stdin is None else PIPE,
        stdout=PIPE,
        stderr=PIPE,
        cwd=cwd,
        env=environment,
        start_new_session=True,
    )
    children.started(process.pid)
    output = _Collector(max_bytes, keep_end=False)
    errors = _Collector(STDERR_BYTES, keep_end=True)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(output.read, process.stdout)
            tasks.start_soon(errors.read, process.stderr)
            tasks.start_soon(_write, process.stdin, stdin)
            tasks.start_soon(_end_early, output.overflow, tasks)
            await process.wait()
            with anyio.move_on_after(OUTPUT_DRAIN_SECONDS):
                await output.over.wait()
                await errors.over.wait()
            tasks.cancel_scope.cancel()
    finally:
        with anyio.move_on_after(grace + KILL_SHIELD_SECONDS, shield=True):
            if process.returncode is None or _group_lives(process.pid):
                await children.stop(process.pid, grace=grace)
            children.ended(process.pid)
            await process.aclose()
    if output.overflow.is_set():
        raise OutputTooLarge
    code = process.returncode
    return Finished(-signal.SIGKILL if code is None else code, output.data(), errors.lines())


def describe_exit(code: int) -> str:
    """`exited with code 3`, or the signal's name."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


class _Collector:
    """Reads a stream into memory: up to a limit, or only its end."""

    def __init__(self, limit: int, *, keep_end: bool) -> None:
        self.over = anyio.Event()
        self.overflow = anyio.Event()
        self._limit = limit
        self._keep_end = keep_end
        self._parts: list[bytes] = []
        self._size = 0

    async def read(self, stream: anyio.abc.ByteReceiveStream | None) -> None:
        try:
            while stream is not None:
                part = await stream.receive(READ_BYTES)
                self._parts.append(part)
                self._size += len(part)
                if self._size > self._limit:
                    if not self._keep_end:
                        self.overflow.set()
                        return
                    while self._size - len(self._parts[0]) > self._limit:
                        self._size -= len(self._parts.pop(0))
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            pass  # the end, one way or another
        self.over.set()

    def data(self) -> bytes:
        return b"".join(self._parts)

    def lines(self) -> list[str]:
        return [line for line in self.data().decode("utf-8", "replace").splitlines() if line.strip()]


async def _write(stream: anyio.abc.ByteSendStream | None, data: bytes | None) -> None:
    if stream is None or data is None:
        return
    try:
        await stream.send(data)
        await stream.aclose()
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        return  # a command need not read all it is given


async def _end_early(overflow: anyio.Event, tasks: anyio.abc.TaskGroup) -> None:
    await overflow.wait()
    tasks.cancel_scope.cancel()


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except OSError:
        return False
    return True
