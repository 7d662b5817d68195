"""Processes that backends need beside them: found running, or started before the backend and stopped after it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from subprocess import DEVNULL

import anyio
import anyio.abc
import psutil

from gatemini.config.model.schema import BackendConfig, Prerequisite
from gatemini.errors import BackendStopped
from gatemini.processes.child_environment import child_environment, find_program, working_directory
from gatemini.processes.children import KILL_SHIELD_SECONDS, Children
from gatemini.processes.command import OutputTail, describe_exit
from gatemini.processes.pipes import ChildPipes
from gatemini.processes.process_mark import clear_mark

SHOWN_STDERR_BYTES = 2000

STDERR_DRAIN_SECONDS = 1.0
"""How long stderr is still read after the process has ended."""

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Managed:
    """A prerequisite that this gateway started, and the number of connections that use it."""

    child: ChildPipes
    users: int = 1


class Prerequisites:
    """The prerequisites of one gateway. One that several backends need is started once and stopped after the last.

    Backends with the same `process_match` share it; without one, a backend shares it with its own instances only.
    """

    def __init__(self, children: Children) -> None:
        self._children = children
        self._locks: dict[str, anyio.Lock] = {}
        self._managed: dict[str, _Managed] = {}
        self._unmanaged: dict[str, anyio.abc.Process] = {}

    @asynccontextmanager
    async def running(self, config: BackendConfig) -> AsyncIterator[None]:
        """Keep the backend's prerequisite, if it has one, running for the length of the context.

        Raises `BackendStopped` when it cannot be started or fails within its `startup_delay`.
        """
        wanted = config.prerequisite
        if wanted is None:
            yield
            return
        key = wanted.process_match or f"of backend {config.name}"
        lock = self._locks.setdefault(key, anyio.Lock())
        async with lock:
            managed = await self._acquire(key, config, wanted)
        try:
            yield
        finally:
            if managed is not None:
                with anyio.move_on_after(config.shutdown_grace_period + KILL_SHIELD_SECONDS, shield=True):
                    async with lock:
                        await self._release(key, managed, config.shutdown_grace_period)

    async def _acquire(self, key: str, config: BackendConfig, wanted: Prerequisite) -> _Managed | None:
        """Start the prerequisite unless it runs; None where this gateway must not stop it."""
        managed = self._managed.get(key)
        if managed is not None and managed.child.returncode is None:
            managed.users += 1
            return managed
        pattern = wanted.process_match
        if pattern is not None and await anyio.to_thread.run_sync(_matches, pattern):
            return None
        if not wanted.managed:
            before = self._unmanaged.get(key)
            if before is None or before.returncode is not None:
                self._unmanaged[key] = await _start_unmanaged(config.name, wanted)
            return None
        errors = OutputTail(SHOWN_STDERR_BYTES)
        child = ChildPipes(f"the prerequisite of {config.name}", OutputTail(0).take, errors.take)
        with _as_backend_error(config.name):
            program, environment, cwd = _command(wanted)
            await child.start([program, *wanted.args], cwd=cwd, env=environment, stdin=False)
        self._children.started(child.pid, child.mark)
        managed = _Managed(child)
        try:
            with anyio.move_on_after(wanted.startup_delay):
                await child.exited.wait()
            if child.returncode:
                with anyio.move_on_after(STDERR_DRAIN_SECONDS):
                    await child.errors_over.wait()
                raise _failed(config.name, wanted, child.returncode, " ".join(errors.lines()))
        except BaseException:
            with anyio.move_on_after(config.shutdown_grace_period + KILL_SHIELD_SECONDS, shield=True):
                await self._release(key, managed, config.shutdown_grace_period)
            raise
        self._managed[key] = managed
        return managed

    async def _release(self, key: str, managed: _Managed, grace: float) -> None:
        """Stop the prerequisite with its last user."""
        managed.users -= 1
        if managed.users > 0:
            return
        if self._managed.get(key) is managed:
            del self._managed[key]
        await self._children.stop(managed.child.pid, managed.child.name, grace=grace)
        managed.child.close()
        await managed.child.exited.wait()


async def _start_unmanaged(name: str, wanted: Prerequisite) -> anyio.abc.Process:
    """Start a process that may outlive the gateway: without a mark and without pipes."""
    with _as_backend_error(name):
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
        clear_mark(process.pid)
    with anyio.move_on_after(wanted.startup_delay):
        await process.wait()
    if process.returncode:
        raise _failed(name, wanted, process.returncode)
    return process


def _failed(name: str, wanted: Prerequisite, code: int, stderr: str = "") -> BackendStopped:
    said = f": {stderr}" if stderr else ""
    return BackendStopped(
        f"{name}: the prerequisite {wanted.command} {describe_exit(code)}{said}",
        hint="correct `prerequisite` in its config",
    )


def _command(wanted: Prerequisite) -> tuple[str, dict[str, str], str | None]:
    """Program, environment and directory; raises `BackendStopped`."""
    environment = child_environment(wanted.env)
    cwd = working_directory(wanted.cwd)
    return find_program(wanted.command, environment, cwd), environment, cwd


@contextmanager
def _as_backend_error(name: str) -> Iterator[None]:
    """Turn a failure to start the prerequisite into the error of its backend."""
    try:
        yield
    except BackendStopped as error:
        raise BackendStopped(f"{name}: prerequisite: {error.message}", hint=error.hint) from error
    except (OSError, ValueError) as error:
        raise BackendStopped(
            f"{name}: the prerequisite could not be started: {error}",
            hint="correct `prerequisite` in its config",
        ) from error


def _matches(pattern: str) -> bool:
    """Whether the command line of another process contains the pattern."""
    own = psutil.Process().pid
    return any(
        process.info["pid"] != own and pattern in " ".join(process.info["cmdline"] or ())
        for process in psutil.process_iter(["pid", "cmdline"])
    )
