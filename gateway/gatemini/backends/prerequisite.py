"""A process that a backend needs beside it: found running, or started before it and stopped with it.

Above: `manager.py` wraps it around the opening of a link. Below: `process.py`'s bounds, `children.py`, psutil.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from subprocess import DEVNULL, PIPE

import anyio
import anyio.abc
import psutil

from gatemini.backends.children import Children
from gatemini.backends.environment import child_environment, find_program, working_directory
from gatemini.backends.process import KILL_SHIELD_SECONDS, describe_exit
from gatemini.config.schema import BackendConfig, Prerequisite
from gatemini.errors import BackendStopped

SHOWN_STDERR_BYTES = 2000

logger = logging.getLogger(__name__)

LAST_WORDS_SECONDS = 1.0
"""How long the stderr of a process that has ended is read on: its end may come after the exit."""


@asynccontextmanager
async def prerequisite_running(config: BackendConfig, children: Children) -> AsyncIterator[None]:
    """Hold the prerequisite for the length of the context; nothing to do without one.

    Raises `BackendStopped` when it cannot be started or fails within its `startup_delay`.
    """
    wanted = config.prerequisite
    if wanted is None or await _is_running(wanted):
        yield
        return
    process = await _start(config.name, wanted)
    if wanted.managed:
        children.started(process.pid)
    try:
        async with anyio.create_task_group() as tasks:
            tail = _Tail()
            tasks.start_soon(tail.read, process.stderr)
            await _settle(config.name, wanted, process, tail)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()
    finally:
        if wanted.managed:
            grace = config.shutdown_grace_period
            with anyio.move_on_after(grace + KILL_SHIELD_SECONDS, shield=True):
                await children.stop(process.pid, grace=grace)
                await process.aclose()


async def _start(name: str, wanted: Prerequisite) -> anyio.abc.Process:
    environment = child_environment(wanted.env)
    cwd = working_directory(wanted.cwd)
    try:
        program = find_program(wanted.command, environment, cwd)
        return await anyio.open_process(
            [program, *wanted.args],
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=PIPE if wanted.managed else DEVNULL,
            cwd=cwd,
            env=environment,
            start_new_session=True,
        )
    except BackendStopped as error:
        raise BackendStopped(f"{name}: prerequisite: {error.message}", hint=error.hint) from error
    except (OSError, ValueError) as error:
        raise BackendStopped(f"{name}: the prerequisite could not be started: {error}") from error


async def _settle(name: str, wanted: Prerequisite, process: anyio.abc.Process, tail: _Tail) -> None:
    """Give it its time; one that ends well within it was a preparation and is done."""
    with anyio.move_on_after(wanted.startup_delay) as delay:
        await process.wait()
    if not delay.cancelled_caught and process.returncode != 0:
        with anyio.move_on_after(LAST_WORDS_SECONDS):
            await tail.over.wait()
        said = f": {tail.text()}" if tail.text() else ""
        raise BackendStopped(
            f"{name}: the prerequisite {wanted.command} {describe_exit(process.returncode or 0)}{said}",
            hint="correct `prerequisite` in its config",
        )


async def _is_running(wanted: Prerequisite) -> bool:
    pattern = wanted.process_match
    return pattern is not None and await anyio.to_thread.run_sync(_matches, pattern)


def _matches(pattern: str) -> bool:
    """Whether the command line of some process of ours to see contains the text."""
    own = psutil.Process().pid
    for process in psutil.process_iter(["pid", "cmdline"]):
        line = process.info["cmdline"]
        if process.info["pid"] != own and line and pattern in " ".join(line):
            return True
    return False


class _Tail:
    """The end of what a process wrote; read so that it never blocks on a full pipe."""

    def __init__(self) -> None:
        self._end = b""
        self.over = anyio.Event()

    async def read(self, stream: anyio.abc.ByteReceiveStream | None) -> None:
        try:
            while stream is not None:
                self._end = (self._end + await stream.receive())[-SHOWN_STDERR_BYTES:]
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            return
        finally:
            self.over.set()

    def text(self) -> str:
        return " ".join(self._end.decode("utf-8", "replace").split())
