"""The core on threads of the gateway's own process: for embedding, and where the walls of a process cannot be had."""

from __future__ import annotations

import asyncio
import contextlib
from typing import cast

from gatemini_sandbox.core import Core, OfSession
from gatemini_sandbox.link import GONE, Link
from gatemini_sandbox.messages import Answer, Request


class ThreadLink(Link):
    """A core in this process. Its threads hand every answer to the loop that runs the session."""

    _core: Core | None = None
    _loop: asyncio.AbstractEventLoop | None = None

    def _start(self) -> None:
        core = Core(self.settings, self._emit)
        core.start_threads()
        self._core, self.cache_problem = core, core.engine.cache_problem

    def _attach(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def send(self, request: Request) -> None:
        if self._core is not None:
            self._core.handle(cast("OfSession", request))

    def _emit(self, answer: Answer) -> None:
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: no session waits any more
                loop.call_soon_threadsafe(self._received, answer)

    def close(self) -> None:
        core, self._core = self._core, None
        if core is not None:
            core.close()
        if not self.gone:
            self._lose(GONE)
