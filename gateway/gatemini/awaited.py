"""Secrets that programs and servers tell: asked for in the background, so that only who needs one waits for it.

A keychain may be locked and a vault slow: the backends without such secrets start meanwhile. Each provider is asked on a
thread of its own, one secret after another, each within the provider's bound; whenever an answer is news, the
configuration is read again with it. When the files change, all is asked anew: what the settings before would still
answer is of no use. Above: app.py. Below: config/secrets.py.
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
from gatemini.config.secrets import SecretAnswers, SecretResolver, unasked
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
        self._asking: dict[str, SecretResolver] = {}
        """Who is asked for a reference: the answer of another, whose settings are no longer in force, does not count."""
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
        if self._tasks is None:
            return
        if resolver is None or not resolver.later:
            self._asking.clear()
            self._end_outdated()
            return
        needed = dict.fromkeys(resolver.slow)
        for gone in self.answers.values.keys() - needed:
            del self.answers.values[gone]
        for gone in self._asking.keys() - needed:
            del self._asking[gone]
        wanted = [r for r in needed if anew or (r not in self._asking and r not in self.answers.values)]
        self._asking.update(dict.fromkeys(wanted, resolver))
        self._end_outdated()
        for group in _groups(wanted):
            self._resolvers.append(resolver)
            self._tasks.start_soon(self._ask, resolver, group)

    def _end_outdated(self) -> None:
        """Kill the commands of those from whom no answer is wanted any more."""
        wanted = {id(resolver) for resolver in self._asking.values()}
        for resolver in self._resolvers:
            if id(resolver) not in wanted:
                resolver.commands.end()

    async def _ask(self, resolver: SecretResolver, references: list[str]) -> None:
        is_command = references[0].startswith("exec:")
        for reference in references:
            if self._asking.get(reference) is not resolver:
                continue
            async with self._commands if is_command else contextlib.nullcontext():
                answer = await _answer(resolver, reference)
            if self._asking.get(reference) is resolver:
                self._keep(reference, answer)
        self._resolvers.remove(resolver)

    def _keep(self, reference: str, answer: str | SecretUnavailable) -> None:
        del self._asking[reference]
        before = self.answers.values.get(reference)
        self.answers.values[reference] = answer
        if not _same(before, answer):
            self._news.set()


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


async def _answer(resolver: SecretResolver, reference: str) -> str | SecretUnavailable:
    """What the provider says; whatever else happens is an answer too, or its backend would wait without end."""
    told: list[str | SecretUnavailable] = []
    await _on_thread(lambda: told.append(resolver.ask(reference)))
    return told[0] if told else unasked(reference)


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

    try:
        threading.Thread(target=run, name="gatemini-secrets", daemon=True).start()
    except RuntimeError:  # no thread is to be had
        logger.exception("a secret could not be asked for")
        return
    await done.wait()
