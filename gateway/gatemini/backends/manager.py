"""All backends of one gateway: start each in its own task, find them by name, pass calls to them."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.abc
from anyio.abc import TaskStatus

from gatemini import __version__
from gatemini.backends.actor import Backend
from gatemini.backends.backend_table import NO_SESSION, BackendTable
from gatemini.backends.calls.callers import NOBODY, Caller, Clients, ProgressFn
from gatemini.backends.calls.failures import not_added, stderr_text
from gatemini.backends.conversation.handshake import SavedFacts
from gatemini.backends.dedicated.instances import Instances, kind_of
from gatemini.backends.dedicated.session_book import SessionBook
from gatemini.backends.fallback_chain import Admit, Call, Check, call_tool, candidates, fall_back, read
from gatemini.backends.mcp_session import McpSession
from gatemini.backends.oauth.logins import Logins
from gatemini.backends.singleton.singletons import Singletons
from gatemini.backends.snapshot import watch_memory
from gatemini.backends.status import SILENT, Era, Events, State
from gatemini.backends.transports.http_link import Permitted
from gatemini.backends.transports.interface import OpenLink
from gatemini.backends.transports.opening import open_never, opener
from gatemini.config.model.schema import BackendConfig, HealthConfig
from gatemini.config.session_values import SessionValues, for_session
from gatemini.errors import BackendError, BackendNotFound, BackendStopped
from gatemini.model import CallOutcome, Json, Offer, Tool
from gatemini.processes.children import Children
from gatemini.processes.prerequisites import Prerequisites
from gatemini.state.replicas.peers import Peers, alone

STOP_MARGIN_SECONDS = 15.0
"""The most that stopping all backends may take beyond the longest grace period."""

_T = TypeVar("_T")

logger = logging.getLogger(__name__)


class Manager(BackendTable):
    """The backends of one gateway, by name.

    `on_tools(name, tools)` is called when a backend has listed, `on_tools(name, None)` when it was removed;
    `on_state` on every change of state; `on_era` when a backend's era became known; `on_offers(name, offers)` when it has
    listed its resources and prompts. All are plain functions called on the event loop. `clients` answers requests of
    backends outside of any call.
    """

    def __init__(
        self,
        *,
        on_tools: Callable[[str, list[Tool] | None], None],
        on_state: Callable[[str, State], None] | None = None,
        on_era: Callable[[str, Era], None] | None = None,
        on_offers: Callable[[str, list[Offer]], None] | None = None,
        client_info: Json | None = None,
        clients: Clients | None = None,
        health: HealthConfig | None = None,
        record_dir: Path | None = None,
        own_session: SessionValues | None = None,
        logins: Logins | None = None,
        peers: Peers | None = None,
    ) -> None:
        super().__init__(health or HealthConfig(), logins)
        self._on_tools = on_tools
        state, era, offers = on_state or SILENT.state, on_era or SILENT.era, on_offers or SILENT.offers
        self._events = Events(on_tools, state, era, offers)
        self._client_info = client_info or {"name": "gatemini", "version": __version__}
        self._clients = clients or Clients()
        self._log_level: str | None = None
        self.permitted: Permitted | None = None
        """Checks the addresses that registered backends may connect to; configured backends may connect anywhere."""
        self.sessions = SessionBook(own_session)
        self.check_tool: Check | None = None
        """Called right before a call of a tool is sent; raises PolicyError for one that is not as it was approved."""
        self._children = Children(record_dir)
        self._prerequisites = Prerequisites(self._children)
        self.singletons = Singletons(peers or alone(), self._children, self._backends.get)
        self._tasks: anyio.abc.TaskGroup | None = None

    # -- start and stop ----------------------------------------------------------------------------

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Own all backends until cancelled; then every one is stopped and no process of theirs is left."""
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                await anyio.to_thread.run_sync(self._children.sweep)
                tasks.start_soon(watch_memory, self._health.memory_check_interval, self._running)
                await tasks.start(self.singletons.run)
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
        """Start a backend and return at once; `run` must be running. `era` is the result of an earlier handshake.

        `waits` names what its configuration still lacks: it is starting until `apply` brings a complete one. Raises
        `ValueError` for a name that is taken.
        """
        if config.name in self._backends:
            raise ValueError(f"there is already a backend {config.name!r}")
        if waits is not None:
            self._waits[config.name] = waits
        for runner in self._build(config, dynamic=dynamic, era=era):
            self._group.start_soon(runner.run)

    async def add_and_wait(self, config: BackendConfig, owner: str = "") -> list[Tool]:
        """Start a backend, wait until it has listed, and return its tools; then a backend of its name is stopped.

        Only the session `owner` may use it, and it ends with that.

        Raises `BackendError` with its last stderr lines, and then removes it; one before it runs on as it was.
        """
        name = config.name
        before, instances = self._backends.pop(name, None), self._instances.pop(name, None)
        owned = self.owners.get(name)
        self.owners[name] = owner
        self.add(config.model_copy(update={"lazy": False}), dynamic=True)
        backend = self._backends[name]
        try:
            await backend.ready(time.monotonic() + config.connect_timeout)
            if not backend.tools:
                raise BackendStopped(f"{name} lists no tools{stderr_text(backend.stderr_tail())}")
            return list(backend.tools.values())
        except BaseException as exc:
            with anyio.move_on_after(config.shutdown_grace_period + STOP_MARGIN_SECONDS, shield=True):
                if self._backends.get(name) is backend:
                    await self.remove(name)
            if isinstance(exc, BackendError):
                raise not_added(exc, config, backend.error, backend.stderr_tail()) from exc.__cause__
            raise
        finally:
            self._keep_or_retire(name, before, instances, owned)

    def _keep_or_retire(
        self, name: str, backend: Backend | None, instances: Instances | None, owner: str | None
    ) -> None:
        """Use a running backend again if its name is free, because its replacement failed; else end it."""
        if name in self._backends:
            for runner in (backend, instances):
                if runner is not None:
                    self._group.start_soon(runner.retire)
        elif backend is not None:
            self._backends[name] = backend
            if owner is not None:
                self.owners[name] = owner
            if instances is not None:
                self._instances[name] = instances
            self._events.tools(name, list(backend.tools.values()))
            self._events.offers(name, backend.offers)

    async def remove(self, name: str) -> int:
        """Stop a backend and forget it; the number of tools it had."""
        backend = self._find(name)
        instances = self._instances.pop(name, None)
        running: list[Backend | Instances] = [backend] if instances is None else [backend, instances]
        for runner in running:
            runner.stop()
        if self._tasks is not None:
            for runner in running:
                await runner.finished.wait()
        if self._backends.get(name) is backend:
            del self._backends[name]
            self._on_tools(name, None)
            self.owners.pop(name, None)
        return len(backend.tools)

    async def _discard(self, backend: Backend) -> None:
        name = backend.config.name
        if self._backends.get(name) is backend:  # else another session has registered the name
            with suppress(BackendNotFound):
                await self.remove(name)

    async def apply(
        self, configs: Mapping[str, BackendConfig], waits: Mapping[str, str] | None = None
    ) -> list[str]:
        """Put new configurations in force: start new backends, stop missing ones, replace changed ones.

        Unchanged and dynamic backends are not touched, except a dynamic one whose name is now configured. `waits` as
        for `add`, by name. Returns the names of backends that were touched.
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
            self.owners.pop(name, None)
            self._replace(configs[name])
        new = [name for name in configs if name not in self._backends]
        for name in new:
            self.add(configs[name])
        return sorted({*gone, *changed, *new})

    def _build(self, config: BackendConfig, *, dynamic: bool, era: Era | None) -> list[Backend | Instances]:
        """Make a backend, and the instances of a dedicated one, under its name; the caller runs them."""
        backend = self._backends[config.name] = self._make(config, self._events, dynamic=dynamic, era=era)
        kind = kind_of(config)
        if kind is None:
            return [backend]

        def make(session: str | None) -> Backend:
            own = for_session(config, self.sessions.of(session))
            return self._make(own, SILENT, dynamic=dynamic, era=backend.era, session=session)

        instances = self._instances[config.name] = kind(config, make)
        return [backend, instances]

    def _make(
        self,
        config: BackendConfig,
        events: Events,
        *,
        dynamic: bool,
        era: Era | None,
        session: str | None = None,
    ) -> Backend:
        permitted = self.permitted if dynamic else None
        who, session = (session or "", None) if config.is_per_user else ("", session)
        login = self.logins.of(config, who) if self.logins is not None else None

        def open_link_of(c: BackendConfig) -> OpenLink:
            return opener(c, self._children, self._prerequisites, permitted, login)

        whole = config.name not in self._waits
        open_link = self.sessions.opener(config, open_link_of) if whole else open_never
        open_link = open_link if dynamic else self.singletons.opener(config, open_link)
        info, clients, saved = self._client_info, self._clients.of(session, config.name), SavedFacts()
        return Backend(
            config,
            open_link=open_link,
            new_session=partial(McpSession, config, client_info=info, clients=clients, saved=saved),
            events=events,
            health=self._health,
            dynamic=dynamic,
            era=era,
            log_level=self._log_level,
            login=login,
        )

    def _replace(self, config: BackendConfig) -> None:
        """Replace a backend, which ends its open calls first; new calls wait for the new one, so none is lost."""
        old, old_instances = self._backends.pop(config.name), self._instances.pop(config.name, None)
        fresh = self._build(config, dynamic=False, era=old.era)

        async def change() -> None:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(old.retire)
                if old_instances is not None:
                    tasks.start_soon(old_instances.retire)
            for runner in fresh:
                self._group.start_soon(runner.run)

        self._group.start_soon(change)

    @property
    def _group(self) -> anyio.abc.TaskGroup:
        if self._tasks is None:
            raise RuntimeError("the manager is not running")
        return self._tasks

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
        admit: Admit | None = None,
        check: Check | None = None,
    ) -> CallOutcome:
        """Call one tool, waiting for a starting backend; raises the `BackendError` that names the cause.

        The `caller` selects the instance of a dedicated backend, and gets questions and notifications meanwhile. Where
        the call did not run, or may run twice, the backends of `fallback_chain` that have the tool are tried, each with
        an equal part of the time for getting ready; `admit` raises PolicyError for one that may not, and `check` right
        before the call is sent.
        """
        deadline = time.monotonic() + timeout
        checks = tuple(each for each in (self.check_tool, check) if each is not None)
        call = Call(tool, arguments, timeout, deadline, on_progress, caller, admit, checks)
        while True:
            own, now = self._find(backend), time.monotonic()
            begin_by = now + (deadline - now) / (1 + len(candidates(tool, own, self._backends)))
            try:
                return await call_tool(await self._instance(own, caller, begin_by), call, begin_by)
            except BackendError as error:
                if self._replaced(own, error, deadline):
                    continue
                if outcome := await fall_back(call, own, error, self._backends, self._instance):
                    return outcome
                self._raise_if_incomplete(backend, error)
                raise

    async def read(
        self,
        backend: str,
        send: Callable[[McpSession, float], Awaitable[_T]],
        *,
        timeout: float,
        caller: Caller = NOBODY,
    ) -> _T:
        """The answer to a request that changes nothing; `send(session, seconds)` sends it, perhaps again."""
        deadline = time.monotonic() + timeout

        async def read_from(own: Backend) -> _T:
            instance = await self._instance(own, caller, deadline)
            return await read(instance, send, timeout=max(0.001, deadline - time.monotonic()))

        return await self._on_current(backend, deadline, read_from, repeatable=True)

    async def wait_ready(self, name: str, timeout: float) -> None:
        """Wait until a backend answers calls and has listed its tools, starting it if necessary; raises `BackendError`."""
        deadline = time.monotonic() + timeout
        session = await self._on_current(name, deadline, lambda own: own.ready(deadline))
        await session.until_listed(deadline)

    async def _on_current(
        self,
        name: str,
        deadline: float,
        use: Callable[[Backend], Awaitable[_T]],
        *,
        repeatable: bool = False,
    ) -> _T:
        """Use the backend of this name; if a new configuration replaces it meanwhile, use the new one."""
        while True:
            backend = self._find(name)
            try:
                return await use(backend)
            except BackendError as error:
                if self._replaced(backend, error, deadline, repeatable=repeatable):
                    continue
                self._raise_if_incomplete(name, error)
                raise

    def _replaced(self, used: Backend, error: BackendError, end: float, *, repeatable: bool = False) -> bool:
        """Whether a new configuration replaced the backend meanwhile, so that the new one is used."""
        replaced = self._backends.get(used.config.name, used) is not used
        return replaced and (repeatable or not error.sent) and time.monotonic() < end

    async def _instance(self, backend: Backend, caller: Caller, deadline: float) -> Backend:
        """The instance that serves the caller's session or principal; another backend serves all."""
        instances = self._instances.get(backend.config.name)
        owner = None if instances is None else instances.owner(caller)
        if instances is None or owner is None:
            return backend
        return await instances.lease(owner, deadline)

    def end_session(self, session: str) -> None:
        """Stop the instances of dedicated backends that served this session."""
        self.sessions.end(session)
        for name in self.registered(session) if self._tasks is not None else ():
            self.owners[name] = NO_SESSION
            self._group.start_soon(self._discard, self._backends[name])
        for instances in self._instances.values():
            instances.release(session)

    def roots_changed(self) -> None:
        """Notify backends that the client's roots have changed."""
        self._for_all(Backend.roots_changed)

    def set_log_level(self, level: str) -> None:
        """Set the lowest level at which backends of the handshake era log."""
        self._log_level = level
        self._for_all(lambda backend: backend.set_log_level(level))

    def _for_all(self, act: Callable[[Backend], Coroutine[Any, Any, None]]) -> None:
        if self._tasks is not None:
            for backend in self._running():
                self._tasks.start_soon(act, backend)
