"""One running gateway: it owns the root task group, follows the configuration, and begins and ends sessions.

`async with App.open(config)` starts all backends concurrently and yields at once; leaving it stops all of them and saves
the cache.
"""

from __future__ import annotations

import functools
import gc
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import anyio
from anyio.abc import TaskGroup

from gatemini import demo
from gatemini.backends.transports.composite import composite_tools
from gatemini.cache import Cache
from gatemini.chain.guest.sandbox_settings import limits_of, open_chains, warm
from gatemini.config.load import Loaded, load_config
from gatemini.config.model.schema import CompositeTool
from gatemini.config.session_values import SessionValues, session_environ
from gatemini.config.variables.redaction import Redactor
from gatemini.discovery.types.identifiers import COMPOSITE_BACKEND
from gatemini.model import Json
from gatemini.parts import Parts
from gatemini.policy.audit.configured_log import kept_log
from gatemini.policy.principal import Principal, local
from gatemini.processes.workers.compute_process import compute_process
from gatemini.protocol.questions.clients import ConnectedClients
from gatemini.protocol.resources.view import View
from gatemini.protocol.sessions.budgets import budget_for
from gatemini.protocol.sessions.client_session import Session, store_of
from gatemini.protocol.surface import Surface
from gatemini.state.opening import open_state
from gatemini.upkeep.housekeeping import sweep_results
from gatemini.upkeep.problems import config_problems
from gatemini.upkeep.reload import PROCESS_KEYS, FileState, file_state, read_only_at_start, watch_config
from gatemini.upkeep.slow_secrets import Awaited

logger = logging.getLogger(__name__)

CLOSING_SECONDS = 15.0
"""The most that stopping may take: draining calls, ending children and saving the cache."""


def freeze_start() -> None:
    """Let the garbage collector skip the objects that exist now, which imports and the start have made.

    To look through these 120,000 objects takes 70 to 90 ms a pass; without that a call takes a sixth to a third less CPU time.
    For a process that runs one gateway, once that is open: a cycle among these objects is never freed.
    """
    gc.freeze()


class App(Parts):
    """One running gateway. Made by `open`."""

    files_read: FileState
    """The files of the configuration as they were when the one in force was read."""
    reload_problem: str | None = None
    """Why a changed configuration is not in force."""
    _waiting: str | None = None
    """Which keys of the changed configuration are in force only after the next start."""

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        config_path: Path | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        redactor: Redactor | None = None,
        serving: bool | None = False,
        shared: bool = False,
    ) -> AsyncIterator[App]:
        """Run a gateway for the length of the context, without waiting for its backends.

        `shared`: clients bring folders and variables of their own. `serving`: a client will connect, and backends get
        its capabilities in their handshake (None: those of clients that come and go). `redactor` learns every secret
        of the configuration; a caller passes one that its log uses too. Raises ConfigError when the configuration
        as a whole cannot be used.
        """
        environ = dict(os.environ if environ is None else environ)
        awaited = Awaited()
        load = functools.partial(load_config, config_path, environ=environ, answers=awaited.answers)
        loaded = await anyio.to_thread.run_sync(load)
        seen = file_state(loaded.files)
        load = functools.partial(load, variables=loaded.variables)
        redactor = redactor or Redactor()
        redactor.add(loaded.secrets)
        cache = Cache(loaded.config.cache_path, redact=redactor.value)
        await anyio.to_thread.run_sync(cache.load)
        own = None if shared else SessionValues(os.getcwd(), session_environ(environ, loaded.config))
        async with open_state(loaded.config.state, loaded.state_keys) as state:
            app = cls(loaded, cache, redactor, ConnectedClients(expected=serving), awaited, own, state)
            app.files_read = seen
            async with compute_process(), kept_log(app.audit, serving), anyio.create_task_group() as group:
                await app._start(group)
                if loaded.source is not None:
                    await group.start(awaited.run, loaded)
                    group.start_soon(app._follow_config, load, seen)
                try:
                    yield app
                finally:
                    group.cancel_scope.cancel()
                    with anyio.move_on_after(CLOSING_SECONDS, shield=True):
                        await app._close()

    async def _start(self, group: TaskGroup) -> None:
        """Start the tasks of all parts."""
        for part in (self.peers, self.manager, self.parking, self.approvals):
            await group.start(part.run)
        await self.pinning.read(self.loaded)
        self.set_composite_tools(self.loaded.config.composite_tools, self.loaded.faulty)
        self._start_backends()
        group.start_soon(warm, self.sandbox, self.warmed)
        for owner in (self.indexing, self.pinning, self.embedding, self.housekeeping):
            group.start_soon(owner.run)
        group.start_soon(sweep_results)

    def new_session(
        self,
        principal: Principal | None = None,
        values: SessionValues | None = None,
        *,
        shared: bool = False,
        ident: str | None = None,
    ) -> Session:
        """Start the session of one client, or of clients that share one (`shared`), with its `values`. `ident`: another
        replica knows it by this id.
        """
        store = store_of(self.loaded.config.results, shared=shared)
        session = Session(store, self.journals.session(), principal=principal or local("stdio"))
        if ident is not None:
            session.id = ident
        if self.chain.door is not None:
            session.reads = self.chain.door.begin_session(session.id)
        self.sessions.begin(session)
        self.manager.sessions.begin(session.id, values)
        return session

    async def call_meta_tool(self, name: str, arguments: Any, session: Session | None = None) -> Json:
        """Call a meta-tool from the terminal, without the protocol; return the MCP result as a dict."""
        own = session or self.new_session()
        try:
            return await self.tools.call(name, arguments, own)
        finally:
            if session is None:
                self.end_session(own)

    def end_session(self, session: Session) -> None:
        """End a session: drop its state and stop its instances of dedicated backends."""
        self.sessions.end(session)

    def surface(self, session: Session, *, whole: bool = False) -> Surface:
        """Return what one client can call and read. `whole`: results of chains are not reduced."""
        return Surface(
            self.tools.unreduced() if whole else self.tools,
            self._view,
            self.index,
            session,
            self.parking,
            self.changes,
            self.clients,
            self.manager,
        )

    def _view(self, session: Session) -> View:
        listing = self.chain.listing(session.who)
        return View(
            listing.registry,
            self.pinning.statuses(session.id),
            self.tracker,
            session.results,
            self.problems(),
            self.loaded.disabled,
            self.facts.facts,
            self.catalog.catalog_bytes(),
            self.chain.redactor.redact,
            budget_for(session.client).result,
            listing.shows,
            listing.hidden,
        )

    async def settled(self, timeout: float) -> bool:
        """Wait until no backend is starting; return False if the timeout passes first."""
        return await self.readiness.settled(timeout)

    def problems(self) -> list[str]:
        """Return the problems of the configuration and of files, one sentence each."""
        audit = self.audit.problem if self.audit is not None else None
        others = (self._waiting, self.cache.problem, audit, self.state.problem)
        found = config_problems(self.loaded, self.reload_problem)
        return [*found, *(problem for problem in others if problem), *self.pins.problems()]

    def set_composite_tools(
        self, configured: Mapping[str, CompositeTool], faulty: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Replace the composite tools; running chains see the new ones. `faulty` has why others cannot be called."""
        self.chain.composites = dict(configured)
        self.registry.set_faulty(COMPOSITE_BACKEND, faulty)
        if configured or faulty:
            self.registry.replace(COMPOSITE_BACKEND, composite_tools(configured))
        else:
            self.registry.remove(COMPOSITE_BACKEND)
        self.tracker.set_catalog_bytes(self.catalog.catalog_bytes())

    # -- hot reload ----------------------------------------------------------------------------------

    async def reconfigure(self, loaded: Loaded) -> list[str]:
        """Put a new configuration in force, except what is read only at the start (`reload.READ_ONCE`).

        Only backends whose configuration changed restart; their names are returned.
        """
        config = loaded.config
        self.known.forget(self.loaded.origins.keys() - loaded.origins.keys())
        before, self.loaded, self.files_read = self.loaded.config, loaded, file_state(loaded.files)
        self._waiting = read_only_at_start(self.config_at_start, config)
        if self._waiting:
            logger.warning("%s", self._waiting)
        self.registration.set_configured(loaded.origins, loaded.spaces)
        self.tools.redactor.add(loaded.secrets)
        logging.getLogger().setLevel(config.least_level.upper())
        self.registry.set_aliases(config.aliases)
        kept = {key: getattr(self.config_at_start.sandbox, key) for key in PROCESS_KEYS}
        running = config.sandbox.model_copy(update=kept)
        self.chain.guests.total_tokens += open_chains(running) - open_chains(self.chain.config)
        self.chain.config = self.tools.config = running
        self.chain.door = self.new_door(config.policy, self.chain.door, loaded.webhook_key)
        self.sandbox.set_limits(limits_of(running))
        self.registration.admission.policy = config.registration
        self.registration.limit = config.max_dynamic_backends
        self.set_composite_tools(config.composite_tools, loaded.faulty)
        if self.audit is not None:
            self.audit.config_changed(before, config)
        self.awaited.follow(loaded)
        wanted = {name: backend for name, backend in config.backends.items() if not backend.disabled}
        for backend in wanted.values():
            self.known.configured(backend, loaded)
        await self.pinning.read(loaded)
        return await self.manager.apply(wanted, loaded.waits)

    async def _follow_config(self, load: Callable[[], Loaded], seen: FileState) -> None:
        """Read the configuration again when its files change, and when a missing secret arrives."""

        def load_again(changed: bool) -> Loaded:
            if changed:
                self.awaited.anew()
            return load()

        await watch_config(
            lambda: self.loaded.files,
            load_again,
            self.reconfigure,
            self._note_reload,
            seen,
            self.awaited.news,
        )

    def _note_reload(self, problem: str | None) -> None:
        self.reload_problem = problem
        self.changes.tell("state")

    # -- backends ------------------------------------------------------------------------------------

    def _start_backends(self) -> None:
        configured = self.loaded.config.backends.values()
        for config in demo.backends() if self.loaded.source is None else configured:
            if not config.disabled:
                self.known.configured(config, self.loaded)
                era = self.known.restore(config.name)
                self.manager.add(config, era=era, waits=self.loaded.waits.get(config.name))

    async def _close(self) -> None:
        await self.housekeeping.write_account(ended=True)
        self.sessions.close()
        self.sandbox.close()
        await self.housekeeping.close()
