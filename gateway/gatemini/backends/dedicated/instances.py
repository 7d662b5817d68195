"""Instances of a dedicated backend: each session gets a process of its own, so that sessions do not share state."""

from __future__ import annotations

import logging
from collections.abc import Callable

import anyio
import anyio.abc

from gatemini.backends.actor import Backend
from gatemini.backends.calls.callers import Caller
from gatemini.config.model.schema import BackendConfig
from gatemini.config.session_values import needs_session
from gatemini.errors import BackendBusy

logger = logging.getLogger(__name__)


class Instances:
    """The running instances of one dedicated backend."""

    def __init__(self, config: BackendConfig, make: Callable[[str | None], Backend]) -> None:
        self._config = config
        self._make = make
        """Makes an instance, with the values of a session where the configuration names some."""
        self._by_session = needs_session(config) or config.is_per_user
        self._idle: list[Backend] = []
        self._leased: dict[str, Backend] = {}
        """Instances by session; none is ever leased to another one."""
        self._ending: list[Backend] = []
        self._freed = anyio.Event()
        self._tasks: anyio.abc.TaskGroup | None = None
        self._scope = anyio.CancelScope()
        self.finished = anyio.Event()

    @property
    def instances(self) -> list[Backend]:
        return [*self._idle, *self._leased.values(), *self._ending]

    @property
    def idle(self) -> int:
        return len(self._idle)

    async def run(self) -> None:
        """Own all instances until stopped."""
        try:
            with self._scope:
                async with anyio.create_task_group() as tasks:
                    self._tasks = tasks
                    for backend in self.instances:
                        tasks.start_soon(backend.run)
                    if not self._config.lazy:
                        self._fill()
                    await anyio.sleep_forever()
        finally:
            self._tasks = None
            self.finished.set()

    def stop(self) -> None:
        """End `run`; wait for `finished`."""
        self._scope.cancel()

    async def retire(self) -> None:
        """Wait (bounded) for open calls to end, then stop."""
        async with anyio.create_task_group() as tasks:
            for backend in self.instances:
                tasks.start_soon(backend.retire)
        self.stop()
        await self.finished.wait()

    def owner(self, caller: Caller) -> str | None:
        """Return whose instance serves a caller; None where the backend itself does."""
        return caller.session

    def leased(self, session: str) -> Backend | None:
        """Return the session's instance, where it has one already."""
        return self._leased.get(session)

    async def lease(self, session: str, deadline: float) -> Backend:
        """The session's own instance, started if necessary; raises `BackendBusy` when none gets free in time."""
        give_up = min(deadline, anyio.current_time() + self._config.pool.acquire_timeout)
        while session not in self._leased:
            freed = self._freed
            if self._idle or self._room:
                self._leased[session] = self._idle.pop(0) if self._idle else self._started(session)
                self._fill()
                break
            with anyio.move_on_at(give_up) as wait:
                await freed.wait()
            if wait.cancelled_caught:
                raise BackendBusy(
                    f"all {self._config.pool.max_instances} instances of {self._config.name} are taken",
                    hint="wait until another session ends, or raise pool.max_instances",
                )
        return self._leased[session]

    def release(self, session: str) -> None:
        """Stop the instance of a session that has ended; a new one replaces it after a while."""
        if session in self._leased and self._tasks is not None:
            backend = self._leased.pop(session)
            self._ending.append(backend)
            self._tasks.start_soon(self._replace, backend)

    async def _replace(self, backend: Backend) -> None:
        backend.stop()
        await backend.finished.wait()
        self._ending.remove(backend)
        freed, self._freed = self._freed, anyio.Event()
        freed.set()
        await anyio.sleep(self._config.pool.replenish_delay)
        self._fill()

    @property
    def _room(self) -> int:
        """How many more instances may run."""
        return self._config.pool.max_instances - len(self.instances)

    def _started(self, session: str | None = None) -> Backend:
        backend = self._make(session)
        if self._tasks is not None:
            self._tasks.start_soon(backend.run)
        return backend

    def _fill(self) -> None:
        """Start instances until `min_idle` are idle: none where each session's differs."""
        if self._by_session:
            return
        for _ in range(min(self._config.pool.min_idle - len(self._idle), self._room)):
            self._idle.append(self._started())


class UserInstances(Instances):
    """Connections of one backend, one for each principal; the one unused for the longest makes room for another."""

    def owner(self, caller: Caller) -> str | None:
        return caller.principal if caller.is_remote else None

    async def lease(self, session: str, deadline: float) -> Backend:
        """The principal's own connection."""
        if session in self._leased:
            self._leased[session] = self._leased.pop(session)  # now the latest
        elif not self._room:
            unused = next((key for key, backend in self._leased.items() if not backend.limits.open), None)
            if unused is not None:
                self.release(unused)
        return await super().lease(session, deadline)


def kind_of(config: BackendConfig) -> type[Instances] | None:
    """The instances that a backend has besides itself; None where it serves all alone."""
    if config.is_per_user:
        return UserInstances
    if config.instance_mode != "dedicated":
        return None
    if config.transport not in ("stdio", "cli-adapter"):
        logger.warning("%s: instance_mode dedicated has no effect on %s", config.name, config.transport)
        return None
    return Instances
