"""Call slow secret providers (commands, the OS keychain) in the background, so that they do not delay the start.

Only backends that need such a secret wait for it. Every new answer makes the configuration load again with it; when its
files change, every provider is called again.
"""

from __future__ import annotations

import logging
from collections import defaultdict

import anyio
import anyio.abc
import anyio.to_thread

from gatemini.config.load import Loaded
from gatemini.config.variables.errors import SecretUnavailable
from gatemini.config.variables.references import SecretAnswers, SecretResolver

logger = logging.getLogger(__name__)

AT_ONCE = 8
"""Providers that are called at the same time."""
ONE_BY_ONE = ("keyring", "bws")
"""A locked keychain would open one prompt for each question; bws answers many references with one list."""


class Awaited:
    """Fetch the secrets of the configuration in force, while `run` runs. Used on the event loop."""

    def __init__(self) -> None:
        self.answers = SecretAnswers()
        self._news = anyio.Event()
        self._again = True
        self._resolver: SecretResolver | None = None
        """The one whose references are fetched now; answers of an older configuration are dropped."""
        self._threads = anyio.CapacityLimiter(AT_ONCE)
        self._tasks: anyio.abc.TaskGroup | None = None

    def anew(self) -> None:
        """Fetch everything again with the next `follow`: the files have changed. From any thread."""
        self._again = True

    async def news(self) -> None:
        """Wait for an answer that the configuration in force was loaded without."""
        await self._news.wait()
        self._news = anyio.Event()

    async def run(self, loaded: Loaded, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        """Fetch until cancelled, then kill the commands that still run."""
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                self.follow(loaded)
                task_status.started()
                await anyio.sleep_forever()
        finally:
            self._tasks = None
            self._end()

    def follow(self, loaded: Loaded) -> None:
        """Fetch the references of this configuration, unless it is the one being fetched with only answers added."""
        if self._tasks is None or not self._again:
            return
        self._again = False
        self._end()
        resolver = self._resolver = loaded.resolver
        if resolver is None or not resolver.later:
            return
        needed = dict.fromkeys(resolver.slow)
        for gone in self.answers.values.keys() - needed:
            del self.answers.values[gone]
        groups: defaultdict[str, list[str]] = defaultdict(list)
        for reference in needed:
            provider = reference.removeprefix("command:").partition(":")[0]
            groups[provider if provider in ONE_BY_ONE else reference].append(reference)
        for group in groups.values():
            self._tasks.start_soon(self._ask, resolver, group)

    def _end(self) -> None:
        """Kill the commands of a configuration that is no longer in force."""
        if self._resolver is not None:
            self._resolver.commands.end()

    async def _ask(self, resolver: SecretResolver, references: list[str]) -> None:
        """Fetch references one after another; groups are fetched at the same time."""
        for reference in references:
            if self._resolver is not resolver:
                return
            answer = await self._answer(resolver, reference)
            if self._resolver is resolver:
                before = self.answers.values.get(reference)
                self.answers.values[reference] = answer
                if not _same(before, answer):
                    self._news.set()

    async def _answer(self, resolver: SecretResolver, reference: str) -> str | SecretUnavailable:
        try:
            return await anyio.to_thread.run_sync(
                resolver.ask, reference, abandon_on_cancel=True, limiter=self._threads
            )
        except Exception:  # an answer too, or the backend would wait without end
            logger.exception("a secret provider could not be called")
            return SecretUnavailable(
                f"secretref:{reference} could not be fetched", "The log of the gateway has the cause"
            )


def _same(one: str | SecretUnavailable | None, other: str | SecretUnavailable | None) -> bool:
    if isinstance(one, SecretUnavailable) and isinstance(other, SecretUnavailable):
        return one.message == other.message
    return one == other
