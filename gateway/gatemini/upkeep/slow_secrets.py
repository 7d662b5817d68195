"""Ask slow secret providers (commands, the OS keychain) in the background, so that they do not delay the start.

Only backends that need such a secret wait for it. Every new answer makes the configuration load again with it; when its
files change, every provider is asked again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

import anyio
import anyio.abc
import anyio.to_thread

from gatemini.config.load import Loaded
from gatemini.config.references import SecretAnswers, SecretResolver
from gatemini.config.unavailable import SecretUnavailable

logger = logging.getLogger(__name__)

AT_ONCE = 8
"""Providers that are asked at the same time."""
ONE_BY_ONE = ("keyring", "bws")
"""A locked keychain would open one prompt for each question; bws answers many references with one list."""


class Awaited:
    """The questions of the configuration in force, while `run` runs. Used on the event loop."""

    def __init__(self) -> None:
        self.answers = SecretAnswers()
        self._news = anyio.Event()
        self._again = False
        self._open: dict[str, SecretResolver] = {}
        """Reference → the resolver whose answer counts; one of an older configuration is dropped."""
        self._resolvers: list[SecretResolver] = []
        self._threads = anyio.CapacityLimiter(AT_ONCE)
        self._tasks: anyio.abc.TaskGroup | None = None

    def anew(self) -> None:
        """Ask for everything again with the next `follow`: the files have changed. From any thread."""
        self._again = True

    async def news(self) -> None:
        """Wait for an answer that the configuration in force was loaded without."""
        await self._news.wait()
        self._news = anyio.Event()

    async def run(self, loaded: Loaded, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        """Ask until cancelled, then kill the commands that still run."""
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                self.follow(loaded)
                task_status.started()
                await anyio.sleep_forever()
        finally:
            self._tasks = None
            for resolver in self._resolvers:
                resolver.commands.end()

    def follow(self, loaded: Loaded) -> None:
        """Ask for the references of this configuration that have no answer yet, and drop all others."""
        resolver, again, self._again = loaded.resolver, self._again, False
        if self._tasks is None:
            return
        if resolver is None or not resolver.later:
            self._open.clear()
            self._end_outdated()
            return
        needed = dict.fromkeys(resolver.slow)
        for gone in self.answers.values.keys() - needed:
            del self.answers.values[gone]
        for gone in self._open.keys() - needed:
            del self._open[gone]
        wanted = [r for r in needed if again or (r not in self._open and r not in self.answers.values)]
        self._open.update(dict.fromkeys(wanted, resolver))
        self._end_outdated()
        for group in _groups(resolver, wanted):
            self._resolvers.append(resolver)
            self._tasks.start_soon(self._ask, resolver, group)

    def _end_outdated(self) -> None:
        wanted = {id(resolver) for resolver in self._open.values()}
        for resolver in self._resolvers:
            if id(resolver) not in wanted:
                resolver.commands.end()

    async def _ask(self, resolver: SecretResolver, references: list[str]) -> None:
        for reference in references:
            if self._open.get(reference) is not resolver:
                continue
            answer = await self._answer(resolver, reference)
            if self._open.get(reference) is resolver:
                self._keep(reference, answer)
        self._resolvers.remove(resolver)

    async def _answer(self, resolver: SecretResolver, reference: str) -> str | SecretUnavailable:
        try:
            return await anyio.to_thread.run_sync(
                resolver.ask, reference, abandon_on_cancel=True, limiter=self._threads
            )
        except Exception:  # an answer too, or the backend would wait without end
            logger.exception("a secret provider could not be asked")
            return SecretUnavailable(
                f"secretref:{reference} could not be asked for", "The log of the gateway has the cause"
            )

    def _keep(self, reference: str, answer: str | SecretUnavailable) -> None:
        del self._open[reference]
        before = self.answers.values.get(reference)
        self.answers.values[reference] = answer
        if not _same(before, answer):
            self._news.set()


def _groups(resolver: SecretResolver, references: Iterable[str]) -> list[list[str]]:
    """References that are asked for one after another; the groups are asked at the same time."""
    groups: dict[str, list[str]] = {}
    for reference in references:
        lane = resolver.lane(reference)
        groups.setdefault(lane if lane in ONE_BY_ONE else reference, []).append(reference)
    return list(groups.values())


def _same(one: str | SecretUnavailable | None, other: str | SecretUnavailable | None) -> bool:
    if isinstance(one, SecretUnavailable) and isinstance(other, SecretUnavailable):
        return one.message == other.message
    return one == other
