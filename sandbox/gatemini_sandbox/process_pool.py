"""The processes of a sandbox: started, shared among chains, replaced when they are lost, ended when they idle."""

from __future__ import annotations

import asyncio
import importlib
import itertools
import logging
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import anyio

from gatemini_sandbox import spawn
from gatemini_sandbox.errors import SandboxError, SessionClosed
from gatemini_sandbox.limits import MIB, Limits
from gatemini_sandbox.link import Lane, Link, ProcessLink
from gatemini_sandbox.messages import Settings as CoreSettings

logger = logging.getLogger(__name__)

Isolation = Literal["thread", "process"]
IDLE_SECONDS = 60.0
"""How long a process beyond the usual ones is kept without a chain."""


def usual_processes() -> int:
    """Sandbox processes where nothing else is configured: one on two cores or fewer, else two."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 1 if cores <= 2 else 2


class Pool:
    """Links to the cores that chains run in. `warm` may be called from any thread, all else belongs to the event loop."""

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        cache_dir: Path | None = None,
        isolation: Isolation = "process",
        processes: int | None = None,
        guests_per_process: int = 32,
        watched: frozenset[str] = frozenset(),
    ) -> None:
        self.limits = limits or Limits()
        self.isolation: Isolation = "thread" if sys.platform == "win32" else isolation
        self.running = anyio.CapacityLimiter(self.limits.guests)
        """Places of guests that compute; those that wait for calls hold none."""
        self.held: dict[int, int] = {}
        """Bytes of each guest that waits, in whatever process."""
        self._processes = processes or usual_processes()
        if self.isolation == "thread":
            self._processes = 1
            spawn.drop_early()
        self._guests_per_process = guests_per_process
        self._cache_dir = None if cache_dir is None else str(cache_dir)
        self._watched = watched
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()  # of the list of links: `warm` adds to it on a thread
        self._links: list[Link] = []
        self._retired: list[Link] = []
        self._closed = False

    def next_number(self) -> int:
        return next(self._numbers)

    def warm(self) -> None:
        """Start the usual processes and wait for them; blocking, idempotent. Raises SandboxError."""
        while True:
            with self._lock:
                links = [link for link in self._links if link.lane == "small"]
                if len(links) < self._processes:
                    links = [self._new("small")]
            for link in links:
                self._made_ready(link)
            if len(links) == self._processes:
                return

    def set_limits(self, limits: Limits) -> None:
        """Limits of the chains that begin from now on; new processes take them, the old ones end with their chains."""
        if limits == self.limits:
            return
        with self._lock:
            self.limits = limits
            self.running.total_tokens = limits.guests
            links, self._links = self._links, []
            self._retired += links
        for link in links:
            self._changed(link)
        if links:
            self._warm_soon()

    def holds_too_much(self, session: int, memory: int) -> bool:
        """Note what a guest holds; whether it must end because all together hold too much, and it the most. Within one
        process that is seen at every tick; only here is it known of several."""
        self.held[session] = memory
        if len(self._links) + len(self._retired) < 2:
            return False
        sizes = self.held.values()
        return sum(sizes) > self.limits.total_memory_mb * MIB and memory >= max(sizes)

    async def until_ready(self, link: Link) -> None:
        """Wait for the start of a process. Raises SandboxError."""
        try:
            await link.until_ready()
        except SandboxError:
            self._forget(link)
            raise

    def close(self) -> None:
        """End all processes and threads; sessions still open are lost."""
        with self._lock:
            self._closed = True
            links = [*self._links, *self._retired]
            self._links, self._retired = [], []
        for link in links:
            link.close()

    @property
    def confinement(self) -> list[str]:
        """The walls around sandbox processes that the kernel granted; empty in thread mode."""
        return next((link.confinement for link in self._links if link.ready), [])

    @property
    def cache_problem(self) -> str:
        """Why the compiled guest cannot be kept on disk, so that every start compiles it; "" when it can."""
        return next((link.cache_problem for link in self._links if link.ready), "")

    def link_for(self, lane: Lane) -> Link:
        """The least busy process of a kind; a new one, which is still to start, when all are full."""
        with self._lock:
            if self.isolation == "thread":
                return next(iter(self._links), None) or self._new("small")
            links = [link for link in self._links if link.lane == lane and not link.gone and not link.late]
            free = [link for link in links if link.guests < self._guests_per_process]
            usual = self._processes if lane == "small" else 1
            best = min(free, key=lambda link: (not link.ready, link.guests), default=None)
            if best is None or (len(links) < usual and best.guests):
                return self._new(lane)
            return best

    def _new(self, lane: Lane) -> Link:
        if self._closed:
            raise SessionClosed("the sandbox is closed")
        limits = self.limits
        settings = CoreSettings(limits, limits.guests + 1, self._cache_dir, self._watched)
        if self.isolation == "thread":
            # Imported here because it brings the engine and the parsers into this process.
            embedded = importlib.import_module("gatemini_sandbox.embedded")
            link: Link = embedded.ThreadLink(settings, lane, self._changed)
        else:
            link = ProcessLink(settings, lane, self._changed)
        self._links.append(link)
        return link

    def _made_ready(self, link: Link) -> None:
        try:
            link.make_ready()
        except SandboxError:
            self._forget(link)
            raise
        if self._closed:  # meanwhile
            link.close()
            raise SessionClosed("the sandbox is closed")

    def _forget(self, link: Link) -> None:
        with self._lock:
            for links in (self._links, self._retired):
                if link in links:
                    links.remove(link)

    def _changed(self, link: Link) -> None:
        """A process was lost, or has a chain less: replace it, or end it when it is not needed any more."""
        if link.gone:
            was_usual = link in self._links and link.lane == "small"
            self._forget(link)
            if was_usual and not self._closed:
                self._warm_soon()
        elif not link.guests:
            if link in self._retired:
                self._forget(link)
                link.close()
            elif self._is_extra(link):
                self._let_go_later(link)

    def _is_extra(self, link: Link) -> bool:
        usual = [one for one in self._links if one.lane == "small"][: self._processes]
        return self.isolation == "process" and link in self._links and link not in usual

    def _let_go_later(self, link: Link) -> None:
        def let_go() -> None:
            if not link.guests and self._is_extra(link):
                self._forget(link)
                link.close()

        _on_the_loop(lambda loop: loop.call_later(IDLE_SECONDS, let_go))

    def _warm_soon(self) -> None:
        def warm() -> None:
            try:
                self.warm()
            except SandboxError as exc:
                if not self._closed:
                    logger.warning("no sandbox process is ready for the next chain: %s", exc)

        _on_the_loop(lambda loop: loop.run_in_executor(None, warm))


def _on_the_loop(do: Callable[[asyncio.AbstractEventLoop], object]) -> None:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:  # closed without one: the next chain starts what it needs
        return
    do(loop)
