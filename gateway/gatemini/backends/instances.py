"""Instances of a dedicated backend: each session gets a process of its own, so that sessions do not share state."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio
import anyio.abc

from gatemini.backends.actor import Backend
from gatemini.config.schema import BackendConfig, PoolConfig
from gatemini.errors import BackendBusy


@dataclass(slots=True)
class Leases:
    """Which session has leased which instance (pure); instances are numbers."""

    limits: PoolConfig
    idle: list[int] = field(default_factory=list)
    taken: dict[str, int] = field(default_factory=dict)
    retiring: set[int] = field(default_factory=set)

    @property
    def total(self) -> int:
        return len(self.idle) + len(self.taken) + len(self.retiring)

    def lease(self, session: str, start: Callable[[], int]) -> int | None:
        """The session's instance: its own, an idle one, a new one from `start`; None when all are taken."""
        if session in self.taken:
            return self.taken[session]
        if self.idle:
            number = self.idle.pop(0)
        elif self.total < self.limits.max_instances:
            number = start()
        else:
            return None
        self.taken[session] = number
        return number

    def missing(self) -> int:
        """The number of idle instances to start now."""
        room = self.limits.max_instances - self.total
        return max(0, min(self.limits.min_idle - len(self.idle), room))

    def release(self, session: str) -> int | None:
        """End a session's lease; its instance is never leased again."""
        number = self.taken.pop(session, None)
        if number is not None:
            self.retiring.add(number)
        return number


class Instances:
    """The running instances of one dedicated backend."""

    def __init__(self, config: BackendConfig, make: Callable[[BackendConfig], Backend]) -> None:
        self._config = config
        self._make = make
        self._numbers = itertools.count(1)
        self._running: dict[int, Backend] = {}
        self._leases = Leases(config.pool)
        self._freed = anyio.Event()
        self._tasks: anyio.abc.TaskGroup | None = None
        self._scope = anyio.CancelScope()
        self.finished = anyio.Event()

    @property
    def instances(self) -> list[Backend]:
        return list(self._running.values())

    @property
    def idle(self) -> int:
        return len(self._leases.idle)

    async def run(self) -> None:
        """Own all instances until stopped."""
        try:
            with self._scope:
                async with anyio.create_task_group() as tasks:
                    self._tasks = tasks
                    for backend in self._running.values():
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

    async def lease(self, session: str, deadline: float) -> Backend:
        """The session's own instance, started if necessary; raises `BackendBusy` when none gets free in time."""
        give_up = min(deadline, anyio.current_time() + self._config.pool.acquire_timeout)
        while True:
            freed = self._freed
            number = self._leases.lease(session, self._start)
            if number is not None:
                self._fill()
                return self._running[number]
            with anyio.move_on_at(give_up) as wait:
                await freed.wait()
            if wait.cancelled_caught:
                raise BackendBusy(
                    f"all {self._config.pool.max_instances} instances of {self._config.name} are taken",
                    hint="wait until another session ends, or raise pool.max_instances",
                )

    def release(self, session: str) -> None:
        """Stop the instance of a session that has ended; a new one replaces it after a while."""
        number = self._leases.release(session)
        if number is not None and self._tasks is not None:
            self._tasks.start_soon(self._replace, number)

    async def _replace(self, number: int) -> None:
        backend = self._running[number]
        backend.stop()
        await backend.finished.wait()
        del self._running[number]
        self._leases.retiring.discard(number)
        freed, self._freed = self._freed, anyio.Event()
        freed.set()
        await anyio.sleep(self._config.pool.replenish_delay)
        self._fill()

    def _start(self) -> int:
        number = next(self._numbers)
        backend = self._running[number] = self._make(self._config)
        if self._tasks is not None:
            self._tasks.start_soon(backend.run)
        return number

    def _fill(self) -> None:
        for _ in range(self._leases.missing()):
            self._leases.idle.append(self._start())
