"""Secrets that programs and servers tell: asked for in the background, so that only who needs one waits for it.

A keychain may be locked and a vault slow: the backends without such secrets start meanwhile. Each provider is asked on a
thread of its own, one secret after another, each within the provider's bound; whenever an answer is news, the
configuration is read again with it. Above: app.py. Below: config/secrets.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterable

import anyio
import anyio.abc

from gatemini.config.load import Loaded
from gatemini.config.secrets import SecretAnswers, SecretResolver
from gatemini.config.unavailable import SecretUnavailable

logger = logging.getLogger(__name__)

COMMANDS_AT_ONCE = 8
"""Commands (`secretref:exec:`) that run at the same time; other providers are asked one question at a time."""


class Awaited:
    """What is asked for, for the length of `run`; used on the event loop."""

    def __init__(self) -> None:
        self.answers = SecretAnswers()
        self._news = anyio.Event()
        self._anew = False
        self._asking: set[str] = set()
        self._resolvers: list[SecretResolver] = []
        self._commands = anyio.CapacityLimiter(COMMANDS_AT_ONCE)
        self._tasks: anyio.abc.TaskGroup | None = None

    def anew(self) -> None:
        """Ask for everything once more with the next `follow`: the files have changed. From any thread."""
        self._anew = True

    async def news(self) -> None:
        """Until an answer has come that the configuration in force was read without."""
        await self._news.wait()
        self._news = anyio.Event()

    async def run(self, loaded: Loaded, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        """Ask until cancelled; then nobody is asked any more, and commands that run are killed."""
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
        """Ask for what this configuration needs and nobody has told yet."""
        resolver, anew, self._anew = loaded.resolver, self._anew, False
        if resolver is None or not resolver.later or self._tasks is None:
            return
        needed = dict.fromkeys(resolver.slow)
        for gone in self.answers.values.keys() - needed:
            del self.answers.values[gone]
        wanted = [r for r in needed if r not in self._asking and (anew or r not in self.answers.values)]
        self._asking.update(wanted)
        for group in _groups(wanted):
            self._tasks.start_soon(self._ask, resolver, group)

    async def _ask(self, resolver: SecretResolver, references: list[str]) -> None:
        self._resolvers.append(resolver)
        is_command = references[0].startswith("exec:")
        for reference in references:
            before = self.answers.values.get(reference)
            async with self._commands if is_command else contextlib.nullcontext():
                await _on_thread(lambda: resolver.ask(reference))  # noqa: B023 - awaited here
            self._asking.discard(reference)
            if not _same(before, self.answers.values.get(reference)):
                self._news.set()
        self._resolvers.remove(resolver)


def _groups(references: Iterable[str]) -> list[list[str]]:
    """What is asked one after another: all of one provider, but each command for itself."""
    groups: dict[str, list[str]] = {}
    for reference in references:
        provider = reference.partition(":")[0]
        groups.setdefault(reference if provider == "exec" else provider, []).append(reference)
    return list(groups.values())


def _same(one: str | SecretUnavailable | None, other: str | SecretUnavailable | None) -> bool:
    if isinstance(one, SecretUnavailable) and isinstance(other, SecretUnavailable):
        return one.message == other.message
    return one == other


async def _on_thread(work: Callable[[], None]) -> None:
    """Run `work` on a thread that keeps nobody from leaving: a library may hold it for as long as it likes."""
    loop, done = asyncio.get_running_loop(), anyio.Event()

    def run() -> None:
        try:
            work()
        except Exception:
            logger.exception("a secret could not be asked for")
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(done.set)

    threading.Thread(target=run, name="gatemini-secrets", daemon=True).start()
    await done.wait()
