"""A process that a backend needs beside it: found running, or started before it and stopped with it.

Above: `manager.py` wraps it around the opening of a link. Below: `pipes.py`, `process.py`'s bounds,
`children.py`, psutil.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from subprocess import DEVNULL

import anyio
import anyio.abc
import psutil

from gatemini.backends.children import Children
from gatemini.backends.environment import child_environment, find_program, working_directory
from gatemini.backends.mark import spare
from gatemini.backends.pipes import ChildPipes
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
    if wanted is None:
        yield
        return
    async with AsyncExitStack() as held:
        async with children.one_at_a_time(wanted.process_match):  # backends may need the same one
            if not await _is_running(wanted):
                await held.enter_async_context(_started(config, wanted, children))
        yield


@asynccontextmanager
async def _started(config: BackendConfig, wanted: Prerequisite, children: Children) -> AsyncIterator[None]:
    """Started and settled; a managed one is stopped at the end."""
    tail = _Tail()
    if not wanted.managed:
        await _settle(config.name, wanted, await _start_unmanaged(config.name, wanted), tail)
        yield
        return
    child = ChildPipes(f"the prerequisite of {config.name}", tail.forget, tail.take)
    with _explained(config.name):
        program, environment, cwd = _command(wanted)
        await child.start([program, *wanted.args], cwd=cwd, env=environment, stdin=False)
    children.started(child.pid, child.mark)
    try:
        await _settle(config.name, wanted, child, tail)
        yield
    finally:
        grace = config.shutdown_grace_period
        with anyio.move_on_after(grace + KILL_SHIELD_SECONDS, shield=True):
            await children.stop(child.pid, child.name, grace=grace)
            child.close()
            await child.exited.wait()


async def _start_unmanaged(name: str, wanted: Prerequisite) -> anyio.abc.Process:
    """It belongs to nobody here and may outlive the gateway: no mark, no pipe."""
    with _explained(name):
        program, environment, cwd = _command(wanted)
        process = await anyio.open_process(
            [program, *wanted.args],
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=DEVNULL,
            cwd=cwd,
            env=environment,
            start_new_session=True,
        )
        spare(process.pid)
        return process


def _command(wanted: Prerequisite) -> tuple[str, dict[str, str], str | None]:
    """Program, environment and directory; raises `BackendStopped`."""
    environment = child_environment(wanted.env)
    cwd = working_directory(wanted.cwd)
    return find_program(wanted.command, environment, cwd), environment, cwd


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """What keeps a prerequisite from starting is its backend's error."""
    try:
        yield
    except BackendStopped as error:
        raise BackendStopped(f"{name}: prerequisite: {error.message}", hint=error.hint) from error
    except (OSError, ValueError) as error:
        raise BackendStopped(
            f"{name}: the prerequisite could not be started: {error}",
            hint="correct `prerequisite` in its config",
        ) from error


async def _settle(
    name: str, wanted: Prerequisite, process: ChildPipes | anyio.abc.Process, tail: _Tail
) -> None:
    """Give it its time; one that ends well within it was a preparation and is done."""
    with anyio.move_on_after(wanted.startup_delay) as delay:
        if isinstance(process, ChildPipes):
            await process.exited.wait()
        else:
            await process.wait()
    if not delay.cancelled_caught and process.returncode != 0:
        if isinstance(process, ChildPipes):
            with anyio.move_on_after(LAST_WORDS_SECONDS):
                await process.errors_over.wait()
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
    """The end of what a process wrote to stderr; all of it is read, so that it never blocks on a full pipe."""

    def __init__(self) -> None:
        self._end = b""

    def take(self, data: bytes) -> None:
        self._end = (self._end + data)[-SHOWN_STDERR_BYTES:]

    def forget(self, data: bytes) -> None:
        """For stdout, which nobody wants."""

    def text(self) -> str:
        return " ".join(self._end.decode("utf-8", "replace").split())
