"""Run a command to its end: bounded output, its whole group gone afterwards, whatever happens.

For processes that are started, read and done; the long-lived ones are `stdio.py`'s. Above: `cli_adapter.py`,
`prerequisite.py`. Below: `pipes.py`, `children.py`.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import anyio
import anyio.abc

from gatemini.processes.children import Children
from gatemini.processes.pipes import ChildPipes

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
    name: str,
    line: Sequence[str],
    *,
    environment: Mapping[str, str],
    cwd: str | None,
    stdin: bytes | None,
    max_bytes: int,
    children: Children,
    grace: float,
) -> Finished:
    """Run `line`, called `name` in the log; raises `OSError` if it cannot start and `OutputTooLarge`. Cancelling ends the process."""
    output = _Collector(max_bytes, keep_end=False)
    errors = _Collector(STDERR_BYTES, keep_end=True)
    child = ChildPipes(name, output.take, errors.take)
    await child.start(line, cwd=cwd, env=environment, stdin=stdin is not None)
    children.started(child.pid, child.mark)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_write, child, stdin)
            tasks.start_soon(_end_early, output.overflow, tasks)
            await child.exited.wait()
            with anyio.move_on_after(OUTPUT_DRAIN_SECONDS):
                await child.output_over.wait()
                await child.errors_over.wait()
            tasks.cancel_scope.cancel()
    finally:
        with anyio.move_on_after(grace + KILL_SHIELD_SECONDS, shield=True):
            if child.returncode is None or await children.strays(child.pid):
                await children.stop(child.pid, name, grace=grace)
            children.ended(child.pid)
            child.close()
            await child.exited.wait()
    if output.overflow.is_set():
        raise OutputTooLarge
    code = child.returncode
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
    """Keeps what a pipe brings: up to a limit, or only its end."""

    def __init__(self, limit: int, *, keep_end: bool) -> None:
        self.overflow = anyio.Event()
        self._limit = limit
        self._keep_end = keep_end
        self._parts: list[bytes] = []
        self._size = 0

    def take(self, part: bytes) -> bool:
        """Whether it was asked for: all but the beginnings of what is kept only as an end."""
        if self.overflow.is_set():
            return False
        self._parts.append(part)
        self._size += len(part)
        if self._size > self._limit and not self._keep_end:
            self.overflow.set()
        while self._keep_end and self._size - len(self._parts[0]) > self._limit:
            self._size -= len(self._parts.pop(0))
        return not self._keep_end

    def data(self) -> bytes:
        return b"".join(self._parts)

    def lines(self) -> list[str]:
        return [line for line in self.data().decode("utf-8", "replace").splitlines() if line.strip()]


async def _write(child: ChildPipes, data: bytes | None) -> None:
    if data is None:
        return
    try:
        await child.write(data)
    except anyio.BrokenResourceError:
        return  # a command need not read all it is given
    child.end_input()


async def _end_early(overflow: anyio.Event, tasks: anyio.abc.TaskGroup) -> None:
    await overflow.wait()
    tasks.cancel_scope.cancel()
