"""Instances of a dedicated backend: each session gets its own process, so that state does not bleed.

`Seats` decides purely who gets which; `Pool` starts and stops what it decides. Above: `manager.py`. Below:
`actor.py`, one per instance.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio
import anyio.abc

from gatemini.backends.actor import Backend
from gatemini.config.schema import BackendConfig, PoolConfig
from gatemini.errors import BackendBusy

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Seats:
    """Which session sits on which instance; instances are numbers here."""

    limits: PoolConfig
    idle: list[int] = field(default_factory=list)
    taken: dict[str, int] = field(default_factory=dict)
    retiring: set[int] = field(default_factory=set)

    @property
    def total(self) -> int:
        return len(self.idle) + len(self.taken) + len(self.retiring)

    def seat(self, session: str, fresh: Callable[[], int]) -> int | None:
        """The session's instance: its own, an idle one, a fresh one; None: all are taken."""
        if session in self.taken:
            return self.taken[session]
        if self.idle:
            number = self.idle.pop(0)
        elif self.total < self.limits.max_instances:
            number = fresh()
        else:
            return None
        self.taken[session] = number
        return number

    def missing(self) -> int:
        """How many idle instances are to be started now."""
        room = self.limits.max_instances - self.total
        return max(0, min(self.limits.min_idle - len(self.idle), room))

    def release(self, session: str) -> int | None:
        """The instance that the session leaves behind; it is not given to anybody else."""
        number = self.taken.pop(session, None)
        if number is not None:
            self.retiring.add(number)
        return number


class Pool:
    """The running instances of one dedicated backend."""

    def __init__(self, config: BackendConfig, make: Callable[[BackendConfig], Backend]) -> None:
        self._config = config
        self._make = make
        self._numbers = itertools.count(1)
        self._instances: dict[int, Backend] = {}
        self._seats = Seats(config.pool)
        self._freed = anyio.Event()
        self._tasks: anyio.abc.TaskGroup | None = None
        self._scope = anyio.CancelScope()
        self.finished = anyio.Event()

    @property
    def instances(self) -> list[Backend]:
        return list(self._instances.values())

    @property
    def idle(self) -> int:
        return len(self._seats.idle)

    async def run(self) -> None:
        """Own all instances until stopped."""
        try:
            with self._scope:
                async with anyio.create_task_group() as tasks:
                    self._tasks = tasks
                    for backend in self._instances.values():
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
        """Let open calls end (bounded), then stop; another pool has taken its place."""
        async with anyio.create_task_group() as tasks:
            for backend in self.instances:
                tasks.start_soon(backend.retire)
        self.stop()
        await self.finished.wait()

    async def instance(self, session: str, deadline: float) -> Backend:
        """The session's own instance, started if need be; raises `BackendBusy` when none gets free in time."""
        give_up = min(deadline, anyio.current_time() + self._config.pool.acquire_timeout)
        while True:
            freed = self._freed
            number = self._seats.seat(session, self._fresh)
            if number is not None:
                self._fill()
                return self._instances[number]
            with anyio.move_on_at(give_up) as wait:
                await freed.wait()
            if wait.cancelled_caught:
                raise BackendBusy(
                    f"all {self._config.pool.max_instances} instances of {self._config.name} are taken",
                    hint="wait until another session ends, or raise pool.max_instances",
                )

    def release(self, session: str) -> None:
        """The session is over: its instance is stopped, and a fresh one takes its place after a while."""
        number = self._seats.release(session)
        if number is not None and self._tasks is not None:
            self._tasks.start_soon(self._retire, number)

    async def _retire(self, number: int) -> None:
        backend = self._instances[number]
        backend.stop()
        await backend.finished.wait()
        del self._instances[number]
        self._seats.retiring.discard(number)
        freed, self._freed = self._freed, anyio.Event()
        freed.set()
        await anyio.sleep(self._config.pool.replenish_delay)
        self._fill()

    def _fresh(self) -> int:
        number = next(self._numbers)
        backend = self._instances[number] = self._make(self._config)
        if self._tasks is not None:
            self._tasks.start_soon(backend.run)
        return number

    def _fill(self) -> None:
        for _ in range(self._seats.missing()):
            self._seats.idle.append(self._fresh())
