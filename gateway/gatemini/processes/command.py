"""Run a command to its end: its output is bounded, and its whole process group is gone afterwards."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO

import anyio
import anyio.abc

from gatemini.processes.children import KILL_SHIELD_SECONDS, Children
from gatemini.processes.pipes import ChildPipes

STDERR_BYTES = 64 << 10
"""Bytes of stderr that are kept, from its end."""

OUTPUT_DRAIN_SECONDS = 0.5
"""How long output is still read after the process ended: processes that it left may hold the pipe open."""


class OutputTooLarge(Exception):
    """The command printed more than it may."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The exit code of a command and what it printed."""

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
    """Run the command `line`, called `name` in the log. Cancelling ends the process.

    Raises `OSError` or `ValueError` if it cannot start, and `OutputTooLarge`.
    """
    running = anyio.CancelScope()
    output, errors = Output(max_bytes, running.cancel), OutputTail(STDERR_BYTES)
    child = ChildPipes(name, output.take, errors.take)
    await child.start(line, cwd=cwd, env=environment, stdin=stdin is not None)
    children.started(child.pid, child.mark)
    try:
        with running:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_write, child, stdin)
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
    if output.overflown:
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


class Output:
    """All output of a pipe, up to a limit in bytes; more calls `on_overflow`."""

    def __init__(self, limit: int, on_overflow: Callable[[], None]) -> None:
        self.overflown = False
        self._limit = limit
        self._on_overflow = on_overflow
        self._data = BytesIO()

    def take(self, part: bytes) -> bool:
        """Add a part; False once there is too much."""
        if not self.overflown:
            self._data.write(part)
            self.overflown = self._data.tell() > self._limit
            if self.overflown:
                self._on_overflow()
        return not self.overflown

    def data(self) -> bytes:
        return self._data.getvalue()


class OutputTail:
    """The last bytes of a pipe; everything is read, so that the process never blocks on a full pipe."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._end = b""

    def take(self, part: bytes) -> bool:
        """Add a part, which counts as unsolicited output."""
        self._end = (self._end + part)[-self._limit :] if self._limit else b""
        return False

    def lines(self) -> list[str]:
        """The lines that are not empty."""
        return [line for line in self._end.decode("utf-8", "replace").splitlines() if line.strip()]


async def _write(child: ChildPipes, data: bytes | None) -> None:
    if data is None:
        return
    try:
        await child.write(data)
    except anyio.BrokenResourceError:
        return  # a command need not read all its input
    child.end_input()
