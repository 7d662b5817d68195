"""All backends of one gateway: starts each in its own task, finds them by name, passes calls on.

`run` lives in the app's root task group and owns one task per backend; when it is cancelled every backend is
stopped and no process is left. Above: `app.py`, `chain/invoke.py`, `server/`. Below: `actor.py` and the
transports.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import anyio
import anyio.abc
import psutil
from anyio.abc import TaskStatus

from gatemini.backends.actor import Backend, Events
from gatemini.backends.base import BackendStatus, Era, OpenLink, ProgressFn, State
from gatemini.backends.children import Children
from gatemini.backends.cli_adapter import open_cli
from gatemini.backends.http import open_sse, open_streamable
from gatemini.backends.python import open_python
from gatemini.backends.stdio import open_stdio, stderr_text
from gatemini.config.schema import BackendConfig, HealthConfig
from gatemini.errors import BackendError, BackendNotFound, BackendStopped
from gatemini.model import CallOutcome, Json, Tool

STOP_MARGIN_SECONDS = 15.0
"""Beyond the longest grace period: the most that stopping all backends may take."""

logger = logging.getLogger(__name__)


def _nothing(_name: str, _state: State) -> None:
    return None


def _no_era(_name: str, _era: Era) -> None:
    return None


class Manager:
    """The backends of one gateway, by name.

    `on_tools(name, tools)` is called when a backend has listed, `on_tools(name, None)` when it was removed;
    `on_state` on every change of state; `on_era` when a backend's handshake became known. All of them are
    plain functions called on the event loop.
    """

    def __init__(
        self,
        *,
        on_tools: Callable[[str, list[Tool] | None], None],
        on_state: Callable[[str, State], None] | None = None,
        on_era: Callable[[str, Era], None] | None = None,
        client_info: Json | None = None,
        health: HealthConfig | None = None,
        record_dir: Path | None = None,
    ) -> None:
        self._on_tools = on_tools
        self._events = Events(tools=on_tools, state=on_state or _nothing, era=on_era or _no_era)
        self._client_info = client_info or {"name": "gatemini", "version": _own_version()}
        self._health = health or HealthConfig()
        self._children = Children(record_dir)
        self._backends: dict[str, Backend] = {}
        self._tasks: anyio.abc.TaskGroup | None = None
        self._waiting: list[Backend] = []

    # -- life --------------------------------------------------------------------------------------

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Own all backends until cancelled; returns with every one stopped."""
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                await anyio.to_thread.run_sync(self._children.sweep)
                for backend in self._waiting:
                    tasks.start_soon(backend.run)
                self._waiting.clear()
                tasks.start_soon(self._watch_memory)
                task_status.started()
        finally:
            self._tasks = None
            with anyio.move_on_after(STOP_MARGIN_SECONDS, shield=True):
                await self._children.close()

    def add(self, config: BackendConfig, *, dynamic: bool = False, era: Era | None = None) -> None:
        """Start a backend and return at once; `era` is an earlier verdict on its handshake.

        A name that is taken is an error of the caller (`ValueError`).
        """
        if config.name in self._backends:
            raise ValueError(f"backend {config.name!r} is there already")
        backend = Backend(
            config,
            open_link=self._opener(config),
            events=self._events,
            client_info=self._client_info,
            health=self._health,
            dynamic=dynamic,
            era=era,
        )
        self._backends[config.name] = backend
        if self._tasks is None:
            self._waiting.append(backend)
        else:
            self._tasks.start_soon(backend.run, name=f"backend {config.name}")

    async def add_and_wait(self, config: BackendConfig, *, dynamic: bool = True) -> list[Tool]:
        """Start a backend, wait until it has listed, and give its tools.

        Raises `BackendError` with its last stderr lines; then nothing of it stays.
        """
        self.add(config.model_copy(update={"lazy": False}), dynamic=dynamic)
        backend = self._backends[config.name]
        try:
            await backend.ready(anyio.current_time() + config.connect_timeout)
            if not backend.tools:
                raise BackendStopped(f"{config.name} lists no tools{stderr_text(backend.stderr_tail())}")
            return list(backend.tools.values())
        except BaseException:
            with anyio.move_on_after(config.shutdown_grace_period + STOP_MARGIN_SECONDS, shield=True):
                await self.remove(config.name)
            raise

    async def remove(self, name: str) -> int:
        """Stop a backend and forget it; the number of tools it had."""
        backend = self._find(name)
        backend.stop()
        if self._tasks is not None:
            await backend.finished.wait()
        if self._backends.get(name) is backend:
            del self._backends[name]
            self._on_tools(name, None)
        return len(backend.tools)

    # -- calls -------------------------------------------------------------------------------------

    async def call_tool(
        self,
        backend: str,
        tool: str,
        arguments: Json,
        *,
        timeout: float,
        on_progress: ProgressFn | None = None,
    ) -> CallOutcome:
        """Call one tool, waiting for a starting backend; raises the `BackendError` that says what failed."""
        return await self._find(backend).call_tool(tool, arguments, timeout=timeout, on_progress=on_progress)

    async def read_resource(self, backend: str, uri: str, *, timeout: float) -> Json:
        """A backend's `resources/read` result; `contents` is always a list of objects."""
        return await self._find(backend).read_resource(uri, timeout=timeout)

    async def ping(self, backend: str, *, timeout: float) -> None:
        """Ask for a sign of life; raises `BackendError` without one."""
        await self._find(backend).ping(timeout=timeout)

    async def wait_ready(self, name: str, timeout: float) -> None:
        """Wait until a backend answers calls, starting it if need be; raises `BackendError` if it does not."""
        await self._find(name).ready(anyio.current_time() + timeout)

    # -- facts -------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        return sorted(self._backends)

    def config(self, name: str) -> BackendConfig:
        return self._find(name).config

    def timeout(self, name: str) -> float:
        """Seconds one call of this backend may take."""
        return self._find(name).config.timeout

    def state(self, name: str) -> State | None:
        backend = self._backends.get(name)
        return backend.state if backend else None

    def error(self, name: str) -> str | None:
        backend = self._backends.get(name)
        return backend.error.message if backend and backend.error else None

    def stderr_tail(self, name: str) -> list[str]:
        backend = self._backends.get(name)
        return backend.stderr_tail() if backend else []

    def status(self, name: str) -> BackendStatus:
        return self._find(name).status()

    def statuses(self) -> list[BackendStatus]:
        return [self._backends[name].status() for name in self.names()]

    # -- inside ------------------------------------------------------------------------------------

    def _find(self, name: str) -> Backend:
        backend = self._backends.get(name)
        if backend is None:
            close = difflib.get_close_matches(name, self._backends, n=3, cutoff=0.5)
            raise BackendNotFound(
                f"there is no backend {name!r}",
                hint=f"did you mean {' or '.join(close)}?"
                if close
                else f"there are: {', '.join(self.names())}",
            )
        return backend

    def _opener(self, config: BackendConfig) -> OpenLink:
        if config.transport == "stdio":
            return partial(open_stdio, config, children=self._children)
        if config.transport == "python":
            return partial(open_python, config)
        if config.transport == "streamable-http":
            return partial(open_streamable, config)
        if config.transport == "sse":
            return partial(open_sse, config)
        return partial(open_cli, config, children=self._children)

    async def _watch_memory(self) -> None:
        """Measure all children in one pass; reading the process table happens off the event loop."""
        while True:
            await anyio.sleep(self._health.memory_check_interval)
            pids = {b.pid: b for b in self._backends.values() if b.pid is not None}
            if pids:
                sizes = await anyio.to_thread.run_sync(resident_sizes, list(pids))
                for pid, backend in pids.items():
                    if pid in sizes and backend.pid == pid:
                        backend.sampled(sizes[pid], anyio.current_time())


def resident_sizes(roots: Sequence[int]) -> dict[int, int]:
    """Resident bytes of each process and its descendants, in one pass over the process table."""
    parents: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for process in psutil.process_iter(["pid", "ppid", "memory_info"]):
        memory = process.info["memory_info"]
        if memory is not None:
            parents[process.info["pid"]] = process.info["ppid"] or 0
            sizes[process.info["pid"]] = memory.rss
    wanted = set(roots)
    totals = {root: 0 for root in roots if root in sizes}
    for pid, size in sizes.items():
        ancestor, steps = pid, 0
        while ancestor and ancestor not in wanted and steps < 64:
            ancestor, steps = parents.get(ancestor, 0), steps + 1
        if ancestor in totals:
            totals[ancestor] += size
    return totals


def _own_version() -> str:
    try:
        return version("gatemini")
    except PackageNotFoundError:
        return "0"


__all__ = ["BackendError", "BackendStatus", "Manager", "State", "resident_sizes"]
