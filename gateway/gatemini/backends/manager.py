"""All backends of one gateway: starts each in its own task, finds them by name, passes calls on.

`run` lives in the app's root task group and owns one task per backend; when it is cancelled every backend is
stopped and no process is left. Above: `app.py`, `chain/invoke.py`, `server/`. Below: `actor.py` and the
transports.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import anyio
import anyio.abc
import psutil
from anyio.abc import TaskStatus

from gatemini.backends.actor import Backend
from gatemini.backends.callers import NOBODY, Caller, Clients, NoClients, ProgressFn
from gatemini.backends.calls.fallback import Call, able, fall_back
from gatemini.backends.instances import Pool
from gatemini.backends.status import SILENT, BackendStatus, Era, Events, State
from gatemini.backends.transports.addresses import Permitted
from gatemini.backends.transports.cli_adapter import open_cli
from gatemini.backends.transports.http import open_sse, open_streamable
from gatemini.backends.transports.link import Link, OpenLink, Receiver
from gatemini.backends.transports.python import open_python
from gatemini.backends.transports.stdio import open_stdio, stderr_text
from gatemini.config.schema import BackendConfig, HealthConfig
from gatemini.errors import (
    BackendCrashed,
    BackendError,
    BackendNotFound,
    BackendStarting,
    BackendStopped,
)
from gatemini.model import CallOutcome, Json, Tool
from gatemini.processes.children import Children
from gatemini.processes.prerequisites import Prerequisites

STOP_MARGIN_SECONDS = 15.0
"""Beyond the longest grace period: the most that stopping all backends may take."""

logger = logging.getLogger(__name__)


class Manager:
    """The backends of one gateway, by name.

    `on_tools(name, tools)` is called when a backend has listed, `on_tools(name, None)` when it was removed;
    `on_state` on every change of state; `on_era` when a backend's handshake became known. All of them are plain
    functions called on the event loop. `clients` is what backends are told of those behind the gateway, and whom
    they may ask outside of a call.
    """

    def __init__(
        self,
        *,
        on_tools: Callable[[str, list[Tool] | None], None],
        on_state: Callable[[str, State], None] | None = None,
        on_era: Callable[[str, Era], None] | None = None,
        client_info: Json | None = None,
        clients: Clients | None = None,
        health: HealthConfig | None = None,
        record_dir: Path | None = None,
    ) -> None:
        self._on_tools = on_tools
        self._events = Events(on_tools, on_state or SILENT.state, on_era or SILENT.era)
        self._client_info = client_info or {"name": "gatemini", "version": _own_version()}
        self._clients = clients or NoClients()
        self._log_level: str | None = None
        self._health = health or HealthConfig()
        self.permitted: Permitted | None = None
        """Where registered backends may connect to; None: anywhere, as configured ones do."""
        self._children = Children(record_dir)
        self._prerequisites = Prerequisites(self._children)
        self._backends: dict[str, Backend] = {}
        self._pools: dict[str, Pool] = {}
        self._tasks: anyio.abc.TaskGroup | None = None
        self._waiting: list[Backend | Pool] = []
        self._waits: dict[str, str] = {}
        """Backends of which something is not known yet, and what: they are starting until `apply` brings it."""

    # -- life --------------------------------------------------------------------------------------

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Own all backends until cancelled; returns with every one stopped."""
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                await anyio.to_thread.run_sync(self._children.sweep)
                for waiting in self._waiting:
                    tasks.start_soon(waiting.run)
                self._waiting.clear()
                tasks.start_soon(self._watch_memory)
                task_status.started()
        finally:
            self._tasks = None
            with anyio.move_on_after(STOP_MARGIN_SECONDS, shield=True):
                await self._children.close()

    def add(
        self,
        config: BackendConfig,
        *,
        dynamic: bool = False,
        era: Era | None = None,
        waits: str | None = None,
    ) -> None:
        """Start a backend and return at once; `era` is an earlier verdict on its handshake.

        `waits` says what must be known before it can run: it is starting until `apply` brings a configuration without.
        A name that is taken is an error of the caller (`ValueError`).
        """
        if config.name in self._backends:
            raise ValueError(f"backend {config.name!r} is there already")
        if waits is not None:
            self._waits[config.name] = waits
        for runner in self._build(config, dynamic=dynamic, era=era):
            self._launch(runner)

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
        except BaseException as exc:
            with anyio.move_on_after(config.shutdown_grace_period + STOP_MARGIN_SECONDS, shield=True):
                await self.remove(config.name)
            if isinstance(exc, BackendError) and (told := _not_added(exc, backend)) is not exc:
                raise told from exc
            raise

    async def remove(self, name: str) -> int:
        """Stop a backend and forget it; the number of tools it had."""
        backend = self._find(name)
        pool = self._pools.pop(name, None)
        self._waiting = [w for w in self._waiting if w not in (backend, pool)]
        for running in (backend, pool):
            if running is not None:
                running.stop()
        for running in (backend, pool):
            if running is not None and self._tasks is not None:
                await running.finished.wait()
        if self._backends.get(name) is backend:
            del self._backends[name]
            self._on_tools(name, None)
        return len(backend.tools)

    async def apply(
        self, configs: Mapping[str, BackendConfig], waits: Mapping[str, str] | None = None
    ) -> list[str]:
        """Make the configured backends these: new ones start, missing ones stop, changed ones restart.

        Unchanged ones and dynamic ones are not touched, but a dynamic one whose name is now configured gives way.
        `waits` as for `add`, by name. Gives the names that were touched.
        """
        self._waits = dict(waits or {})
        old = {name: b.config for name, b in self._backends.items() if not b.dynamic}
        gone = [name for name in old if name not in configs]
        changed = [name for name, config in old.items() if name in configs and configs[name] != config]
        changed += [name for name, b in self._backends.items() if b.dynamic and name in configs]
        async with anyio.create_task_group() as tasks:
            for name in gone:
                tasks.start_soon(self.remove, name)
        for name in changed:
            self._replace(configs[name])
        new = [name for name in configs if name not in self._backends]
        for name in new:
            self.add(configs[name])
        return sorted({*gone, *changed, *new})

    # -- calls -------------------------------------------------------------------------------------

    async def call_tool(
        self,
        backend: str,
        tool: str,
        arguments: Json,
        *,
        timeout: float,
        on_progress: ProgressFn | None = None,
        caller: Caller = NOBODY,
    ) -> CallOutcome:
        """Call one tool, waiting for a starting backend; raises the `BackendError` that says what failed.

        `caller` is whose call it is: whose instance of a dedicated backend serves, and who is asked and told
        what the backend wants to know and say meanwhile. Where the call certainly did not run (or may run twice), the backends of
        `fallback_chain` that have the tool are tried; then the outcome's notes and `_meta` name who answered. Getting ready
        may take each of them an equal part of the time, its own backend included.
        """
        begun = anyio.current_time()
        deadline = begun + timeout
        first = self._find(backend)
        share = 1 / (1 + len(able(tool, first, self._backends)))
        try:
            seat = await self._seat(first, caller, begun + timeout * share)
            return await seat.call_tool(
                tool, arguments, timeout=timeout, share=share, on_progress=on_progress, caller=caller
            )
        except BackendError as error:
            left = deadline - anyio.current_time()
            if not error.sent and left > 0 and self._backends.get(backend, first) is not first:
                # Its configuration changed while the call waited: the one in its place takes the call.
                return await self.call_tool(
                    backend, tool, arguments, timeout=left, on_progress=on_progress, caller=caller
                )
            call = Call(tool, arguments, deadline, on_progress, caller)
            outcome = await fall_back(call, first, error, self._backends, self._seat)
            if outcome is not None:
                return outcome
            if (named := self._named(backend, error)) is not error:
                raise named from error
            raise

    async def read_resource(self, backend: str, uri: str, *, timeout: float, caller: Caller = NOBODY) -> Json:
        """A backend's `resources/read` result; `contents` is always a list of objects."""
        deadline = anyio.current_time() + timeout
        first = self._find(backend)
        try:
            seat = await self._seat(first, caller, deadline)
            left = max(0.001, deadline - anyio.current_time())
            return await seat.read_resource(uri, timeout=left, caller=caller)
        except BackendError:
            left = deadline - anyio.current_time()
            if left <= 0 or self._backends.get(backend, first) is first:
                raise
        # Its configuration changed meanwhile: the one in its place is read, reading twice does no harm.
        return await self.read_resource(backend, uri, timeout=left, caller=caller)

    def end_session(self, session: str) -> None:
        """A client's stay is over: its instances of dedicated backends are stopped."""
        for pool in self._pools.values():
            pool.release(session)

    def roots_changed(self) -> None:
        """The client's roots are others now: those backends hear of it that were promised to."""
        for backend in self._running():
            if self._tasks is not None:
                self._tasks.start_soon(backend.roots_changed)

    def set_log_level(self, level: str) -> None:
        """From which level on backends of the handshake era are to log."""
        self._log_level = level
        for backend in self._running():
            if self._tasks is not None:
                self._tasks.start_soon(backend.set_log_level, level)

    async def ping(self, backend: str, *, timeout: float) -> None:
        """Ask for a sign of life; raises `BackendError` without one."""
        await self._find(backend).ping(timeout=timeout)

    async def wait_ready(self, name: str, timeout: float) -> None:
        """Wait until a backend answers calls, starting it if need be; raises `BackendError` if it does not."""
        deadline = anyio.current_time() + timeout
        while True:
            backend = self._find(name)
            try:
                await backend.ready(deadline)
                return
            except BackendError as error:
                if self._backends.get(name, backend) is backend:
                    if (named := self._named(name, error)) is not error:
                        raise named from error
                    raise
                # Its configuration changed meanwhile: the one in its place is waited for.

    def _named(self, name: str, error: BackendError) -> BackendError:
        """The error of a call that waited for a backend, with what that waits for itself."""
        if not isinstance(error, BackendStarting) or name not in self._waits:
            return error
        said = f"{name} {self._waits[name]}; the time for this call is over"
        return BackendStarting(said, hint=error.hint)

    # -- facts -------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        return sorted(self._backends)

    def config(self, name: str) -> BackendConfig:
        return self._find(name).config

    def timeout(self, name: str) -> float:
        """Seconds one call of this backend may take."""
        return self._find(name).config.timeout

    def fallbacks(self, name: str) -> tuple[str, ...]:
        """Who may answer for a backend, in order."""
        return self._find(name).config.fallback_chain

    def state(self, name: str) -> State | None:
        backend = self._backends.get(name)
        return backend.state if backend else None

    def error(self, name: str) -> str | None:
        backend = self._backends.get(name)
        return self._waits.get(name) or (backend.error.message if backend and backend.error else None)

    def stderr_tail(self, name: str) -> list[str]:
        backend = self._backends.get(name)
        return backend.stderr_tail() if backend else []

    def status(self, name: str) -> BackendStatus:
        status, pool = self._find(name).status(), self._pools.get(name)
        if name in self._waits:
            status = replace(status, error=self._waits[name])
        if pool is None:
            return status
        return replace(status, instances=len(pool.instances), idle_instances=pool.idle)

    def statuses(self) -> list[BackendStatus]:
        return [self.status(name) for name in self.names()]

    # -- inside ------------------------------------------------------------------------------------

    def _running(self) -> list[Backend]:
        """All backends and all instances of dedicated ones."""
        return [*self._backends.values(), *(b for p in self._pools.values() for b in p.instances)]

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

    def _make(self, config: BackendConfig, events: Events, *, dynamic: bool, era: Era | None) -> Backend:
        return Backend(
            config,
            open_link=self._opener(config, self.permitted if dynamic else None),
            events=events,
            client_info=self._client_info,
            clients=self._clients,
            health=self._health,
            dynamic=dynamic,
            era=era,
            log_level=self._log_level,
        )

    def _build(self, config: BackendConfig, *, dynamic: bool, era: Era | None) -> list[Backend | Pool]:
        """Put a backend, and the pool of a dedicated one, under its name; they are still to be run."""
        backend = self._backends[config.name] = self._make(config, self._events, dynamic=dynamic, era=era)
        if config.instance_mode == "shared":
            return [backend]
        if config.transport not in ("stdio", "cli-adapter"):
            logger.warning("%s: instance_mode dedicated has no effect on %s", config.name, config.transport)
            return [backend]
        pool = Pool(config, lambda c: self._make(c, SILENT, dynamic=dynamic, era=backend.era))
        self._pools[config.name] = pool
        return [backend, pool]

    def _replace(self, config: BackendConfig) -> None:
        """Put a new backend in the place of an old one, which ends its open calls first.

        Calls find the new one at once and wait for it: none is lost to the change.
        """
        old, old_pool = self._backends.pop(config.name), self._pools.pop(config.name, None)
        fresh = self._build(config, dynamic=False, era=old.era)
        if self._tasks is None:
            self._waiting = [w for w in self._waiting if w not in (old, old_pool)] + fresh
        else:
            self._tasks.start_soon(self._change, old, old_pool, fresh)

    async def _change(self, old: Backend, old_pool: Pool | None, fresh: list[Backend | Pool]) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(old.retire)
            if old_pool is not None:
                tasks.start_soon(old_pool.retire)
        for runner in fresh:
            self._launch(runner)

    def _launch(self, runner: Backend | Pool) -> None:
        if self._tasks is None:
            self._waiting.append(runner)
        else:
            self._tasks.start_soon(runner.run)

    async def _seat(self, backend: Backend, caller: Caller, deadline: float) -> Backend:
        """The instance that serves a session; backends without a pool serve everybody."""
        pool = self._pools.get(backend.config.name)
        if pool is None or caller.session is None:
            return backend
        return await pool.instance(caller.session, deadline)

    def _opener(self, config: BackendConfig, permitted: Permitted | None) -> OpenLink:
        if config.name in self._waits:
            return _open_when_replaced
        plain = self._plain_opener(config, permitted)
        if config.prerequisite is not None:
            return partial(_open_with_prerequisite, config, self._prerequisites, plain)
        return plain

    def _plain_opener(self, config: BackendConfig, permitted: Permitted | None) -> OpenLink:
        match config.transport:
            case "stdio":
                return partial(open_stdio, config, children=self._children)
            case "python":
                return partial(open_python, config)
            case "streamable-http":
                return partial(open_streamable, config, permitted=permitted)
            case "sse":
                return partial(open_sse, config, permitted=permitted)
            case "cli-adapter":
                return partial(open_cli, config, children=self._children)

    async def _watch_memory(self) -> None:
        while True:
            await anyio.sleep(self._health.memory_check_interval)
            await self.measure_memory()

    async def measure_new(self) -> None:
        """Measure now if a child never was: who looks right after the start would see nothing of it."""
        if any(b.pid is not None and b.memory.rss is None for b in self._running()):
            await self.measure_memory()

    async def measure_memory(self) -> None:
        """Measure all children in one pass, off the event loop; the results are in their status."""
        pids = {b.pid: b for b in self._running() if b.pid is not None}
        if pids:
            sizes = await anyio.to_thread.run_sync(resident_sizes, list(pids))
            for pid, backend in pids.items():
                if pid in sizes and backend.pid == pid:
                    backend.sampled(sizes[pid], anyio.current_time())


@asynccontextmanager
async def _open_when_replaced(receiver: Receiver) -> AsyncIterator[Link]:
    """Of a backend that may not run yet: another one takes its place, within the bounds of whoever is asked for it."""
    del receiver
    await anyio.sleep_forever()
    raise AssertionError("never comes here")
    yield


@asynccontextmanager
async def _open_with_prerequisite(
    config: BackendConfig, prerequisites: Prerequisites, open_link: OpenLink, receiver: Receiver
) -> AsyncIterator[Link]:
    async with prerequisites.running(config), open_link(receiver) as link:
        yield link


def _not_added(failed: BackendError, backend: Backend) -> BackendError:
    """Why a backend was not added, without "a call starts it again" or "try later": nothing of it stays."""
    if isinstance(failed, BackendStarting):
        waited = f"{backend.config.connect_timeout:g} s (connect_timeout)"
        name, said = backend.config.name, stderr_text(backend.stderr_tail())
        failed = BackendStopped(f"{name} did not list its tools in {waited}{said}")
    known = backend.error
    failed.hint = known.hint if known is not None and not isinstance(known, BackendCrashed) else None
    failed.hint = failed.hint or "nothing of it was kept: mend what it needs, then add it again"
    return failed


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
