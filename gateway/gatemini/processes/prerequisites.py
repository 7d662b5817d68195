"""A process that a backend needs beside it: found running, or started before it and stopped with it.

Above: `manager.py` wraps it around the opening of a link. Below: `pipes.py`, `process.py`'s bounds,
`children.py`, psutil.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from subprocess import DEVNULL

import anyio
import anyio.abc
import psutil

from gatemini.config.schema import BackendConfig, Prerequisite
from gatemini.errors import BackendStopped
from gatemini.processes.child_environment import child_environment, find_program, working_directory
from gatemini.processes.children import Children
from gatemini.processes.command import KILL_SHIELD_SECONDS, describe_exit
from gatemini.processes.mark import spare
from gatemini.processes.pipes import ChildPipes

SHOWN_STDERR_BYTES = 2000

logger = logging.getLogger(__name__)

LAST_WORDS_SECONDS = 1.0
"""How long the stderr of a process that has ended is read on: its end may come after the exit."""


@dataclass(slots=True, eq=False)
class _Held:
    """A managed prerequisite that was started here, and how many backends need it now."""

    child: ChildPipes
    users: int = 1


class Prerequisites:
    """The prerequisites of one gateway: one that several backends need is started once and stopped with the last of them.

    The same text in `process_match` makes it the same one; without it, it is that of one backend and all its instances.
    """

    def __init__(self, children: Children) -> None:
        self._children = children
        self._turns: dict[str, anyio.Lock] = {}
        self._held: dict[str, _Held] = {}
        self._unmanaged: dict[str, anyio.abc.Process] = {}

    @asynccontextmanager
    async def running(self, config: BackendConfig) -> AsyncIterator[None]:
        """Hold the prerequisite for the length of the context; nothing to do without one.

        Raises `BackendStopped` when it cannot be started or fails within its `startup_delay`.
        """
        wanted = config.prerequisite
        if wanted is None:
            yield
            return
        which = wanted.process_match or f"of backend {config.name}"
        turn = self._turns.setdefault(which, anyio.Lock())
        async with turn:
            held = await self._hold(which, config, wanted)
        try:
            yield
        finally:
            if held is not None:
                with anyio.move_on_after(config.shutdown_grace_period + KILL_SHIELD_SECONDS, shield=True):
                    async with turn:
                        await self._let_go(which, held, config.shutdown_grace_period)

    async def _hold(self, which: str, config: BackendConfig, wanted: Prerequisite) -> _Held | None:
        """The prerequisite, started if it does not run; None where it is not ours to stop."""
        held = self._held.get(which)
        if held is not None and held.child.returncode is None:
            held.users += 1
            return held
        if await _is_running(wanted):
            return None
        tail = _Tail()
        if not wanted.managed:
            before = self._unmanaged.get(which)
            if before is None or before.returncode is not None:
                started = self._unmanaged[which] = await _start_unmanaged(config.name, wanted)
                await _settle(config.name, wanted, started, tail)
            return None
        child = ChildPipes(f"the prerequisite of {config.name}", tail.forget, tail.take)
        with _explained(config.name):
            program, environment, cwd = _command(wanted)
            await child.start([program, *wanted.args], cwd=cwd, env=environment, stdin=False)
        self._children.started(child.pid, child.mark)
        held = _Held(child)
        try:
            await _settle(config.name, wanted, child, tail)
        except BaseException:
            with anyio.move_on_after(config.shutdown_grace_period + KILL_SHIELD_SECONDS, shield=True):
                await self._let_go(which, held, config.shutdown_grace_period)
            raise
        self._held[which] = held
        return held

    async def _let_go(self, which: str, held: _Held, grace: float) -> None:
        """One backend needs it no more: the last one stops it."""
        held.users -= 1
        if held.users > 0:
            return
        if self._held.get(which) is held:
            del self._held[which]
        await self._children.stop(held.child.pid, held.child.name, grace=grace)
        held.child.close()
        await held.child.exited.wait()


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

    def take(self, data: bytes) -> bool:
        self._end = (self._end + data)[-SHOWN_STDERR_BYTES:]
        return False

    def forget(self, data: bytes) -> bool:
        """For stdout, which nobody wants."""
        del data
        return False

    def text(self) -> str:
        return " ".join(self._end.decode("utf-8", "replace").split())
