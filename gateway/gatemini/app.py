"""The composition root: one gateway put together, owning the one root task group.

`async with App.open(config)` starts every backend concurrently and yields at once; leaving it stops all of
them and saves the cache. Above: server/direct.py, cli/. Below: everything.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import anyio

from gatemini import demo
from gatemini.accounts import AccountBook
from gatemini.awaited import Awaited
from gatemini.backends.manager import Manager
from gatemini.backends.status import Era, State
from gatemini.backends.transports.composite import composite_tools
from gatemini.cache import Cache, config_hash, default_path
from gatemini.chain.journal import JournalBook
from gatemini.chain.services import ChainServices
from gatemini.changes import Changes
from gatemini.config.load import Loaded, load_config
from gatemini.config.schema import BackendConfig, CompositeTool, SandboxConfig
from gatemini.config.secrets import Redactor
from gatemini.embedding import Embedding
from gatemini.history import SearchHistory, history_path
from gatemini.indexing import Indexing
from gatemini.model import Json, Tool
from gatemini.output.results import ResultStore
from gatemini.output.spill import sweep_abandoned
from gatemini.processes.compute import compute_process
from gatemini.registry import Registry
from gatemini.reload import FileState, file_state, read_only_at_start, watch_config
from gatemini.search.index import SearchIndex
from gatemini.server.admission import Admission
from gatemini.server.budgets import budget_for
from gatemini.server.catalog import Catalog
from gatemini.server.clients import ConnectedClients
from gatemini.server.discovery import keys_of
from gatemini.server.parking import Parking
from gatemini.server.registration import Registration
from gatemini.server.resources import View
from gatemini.server.session import Session
from gatemini.server.surface import Surface
from gatemini.server.tools import MetaTools
from gatemini.tracker import RECENT_CALLS, Tracker
from gatemini.types.identifiers import COMPOSITE_BACKEND
from gatemini.unlisted import Unlisted
from gatemini_sandbox import Limits, Sandbox, SandboxError

logger = logging.getLogger(__name__)

HOUSEKEEPING_SECONDS = 5.0
"""How often the cache and the account are looked at: they are written when due, at most this often."""

OPEN_TO_RUNNING = 8
"""Chains that may hold a guest for each one that may run: those that wait for calls cost two MiB and no thread."""

CLOSING_SECONDS = 15.0
"""Bounds the whole of stopping: draining, ending children and saving the cache."""


class App:
    """One running gateway. Made by `open`."""

    def __init__(
        self,
        loaded: Loaded,
        cache: Cache,
        redactor: Redactor,
        clients: ConnectedClients,
        awaited: Awaited,
    ) -> None:
        config = loaded.config
        self.loaded = loaded
        self.awaited = awaited
        self.cache = cache
        self.changes = Changes()
        self.tracker = Tracker(on_call=functools.partial(self.changes.tell, "calls"))
        self.tracker.load_usage(cache.usage)
        self.accounts = AccountBook(account_folder(cache.path))
        self._accounted = 0
        self.registry = Registry()
        self.registry.set_aliases(config.aliases)
        self.index = SearchIndex(
            config.search.ranking,
            k1=config.search.k1,
            b=config.search.b,
            name_weight=config.search.name_weight,
        )
        self.indexing = Indexing(self.index)
        self.registry.listen(self.indexing.follow)
        self.registry.listen(lambda backend, _: self.changes.tell("tools", backend))
        self.embedding = Embedding(
            self.index, self.indexing, cache.path.with_name("vectors.sqlite"), config.semantic.model
        )
        self.clients = clients
        self.manager = Manager(
            on_tools=self._on_tools,
            on_era=self._on_era,
            on_state=self._on_state,
            health=config.health,
            clients=clients,
            record_dir=cache.path.parent / "children",
        )
        self.sandbox = Sandbox(
            limits_of(config.sandbox),
            # Of the machine, not of a configuration: the compiled module is the same for all of them.
            cache_dir=default_path().parent / "engine",
            isolation=config.sandbox.isolation,
        )
        self._hashes: dict[str, str] = {}
        self._state_changed = anyio.Event()
        self._waited_for: set[str] = set()
        self._sessions: list[Session] = []
        self._last_client: str | None = None
        self._reload_problem: str | None = None
        self._began = config
        self._waiting: str | None = None
        self.journals = JournalBook()
        self.parking = Parking()
        self.catalog = Catalog(
            self.registry,
            self.index,
            self.tracker,
            self.required_keys,
            self.backend_names,
            self.embedding,
        )
        self.history = SearchHistory(history_path(cache.path) if config.search.history else None)
        admission = Admission(config.registration, str(loaded.source or "the config file"))
        self.manager.permitted = admission.permitted
        self.registration = Registration(
            self.manager,
            admission,
            config.max_dynamic_backends,
            frozenset(loaded.origins),
        )
        self.chain = ChainServices(
            registry=self.registry,
            backends=self.manager,
            tracker=self.tracker,
            sandbox=self.sandbox,
            config=config.sandbox,
            guests=anyio.CapacityLimiter(open_chains(config.sandbox)),
            discovery=self.catalog.call_inside,
            redactor=redactor,
            unlisted=self.unlisted,
            disabled=lambda: self.loaded.disabled,
        )
        self.tools = MetaTools(
            self.chain,
            self.catalog,
            self.registration,
            self.tracker,
            config.sandbox,
            self.history,
            redactor,
        )

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        config_path: Path | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        redactor: Redactor | None = None,
        serving: bool = False,
    ) -> AsyncIterator[App]:
        """A running gateway: backends start concurrently, nothing is waited for.

        `serving`: a client will come, and say what it can be asked before backends are told. `redactor`, where the caller has one (for its log), learns every secret of the configuration. Raises
        ConfigError when the configuration as a whole cannot be used.
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
        app = cls(loaded, cache, redactor, ConnectedClients(expected=serving), awaited)
        async with compute_process(), anyio.create_task_group() as group:
            await group.start(app.manager.run)
            await group.start(app.parking.run)
            app.set_composite_tools(loaded.config.composite_tools, loaded.faulty)
            app._start_backends()
            group.start_soon(app._warm_sandbox)
            group.start_soon(app.indexing.run)
            group.start_soon(app.embedding.run)
            group.start_soon(app._keep_house)
            group.start_soon(app._sweep_results)
            if loaded.source is not None:
                await group.start(awaited.run, loaded)
                group.start_soon(app._follow_config, load, seen)
            try:
                yield app
            finally:
                group.cancel_scope.cancel()
                with anyio.move_on_after(CLOSING_SECONDS, shield=True):
                    await app._close()

    def new_session(self) -> Session:
        """One client's stay, with its own result store."""
        results = self.loaded.config.results
        session = Session(
            ResultStore(
                memory_bytes=results.memory_mb << 20,
                disk_bytes=results.disk_mb << 20,
                idle_seconds=results.idle,
            ),
            self.journals.session(),
        )
        self._sessions.append(session)
        return session

    async def call_meta_tool(self, name: str, arguments: Any, session: Session | None = None) -> Json:
        """A meta-tool without a protocol, for the terminal: the MCP result as a dict."""
        own = session or self.new_session()
        try:
            return await self.tools.call(name, arguments, own)
        finally:
            if session is None:
                self.end_session(own)

    def end_session(self, session: Session) -> None:
        """A client's stay is over: nothing of it is kept, and its instances of dedicated backends are stopped."""
        self.parking.end_session(session.id)
        self.clients.forget(session.id)
        self.manager.end_session(session.id)
        self.tracker.end_session(session.id)
        session.close()
        self._sessions.remove(session)
        self._last_client = session.client or self._last_client

    def surface(self, session: Session) -> Surface:
        """What one client sees of this gateway."""
        return Surface(
            self.tools,
            self._view,
            self.index,
            session,
            self.parking,
            self.changes,
            self.clients,
            self.manager,
        )

    def _view(self, session: Session) -> View:
        return View(
            self.registry,
            self.manager.statuses(),
            self.tracker,
            session.results,
            self.problems(),
            self.catalog.catalog_bytes(),
            self.chain.redactor.redact,
            budget_for(session.client).result,
        )

    def backend_names(self) -> list[str]:
        """Every backend that was configured or registered, disabled ones left out."""
        return self.manager.names()

    async def settled(self, timeout: float) -> bool:
        """Wait until no backend is starting any more; False when the time was over first."""
        with anyio.move_on_after(timeout) as scope:
            await self._until(lambda: not any(s.state == State.STARTING for s in self.manager.statuses()))
        return not scope.cancelled_caught

    async def _until(self, holds: Callable[[], bool]) -> None:
        """Until `holds` after a change of a backend's state; the caller bounds the wait."""
        while not holds():
            if self._state_changed.is_set():  # another one that waits may have made it new already
                self._state_changed = anyio.Event()
            await self._state_changed.wait()

    async def unlisted(self, seconds: float, *, live: bool = False) -> Unlisted:
        """A `Look`: waits for backends of which nothing, or not all, can be found yet (`live`: or only as of last time)."""

        def unknown() -> list[str]:
            known = self.registry.backends()
            return [
                n for n in self.manager.names() if n not in known or (live and not self.registry.is_live(n))
            ]

        def starting() -> list[str]:
            return [n for n in unknown() if self.manager.state(n) == State.STARTING]

        # One slow starter costs one wait, not one with every question until it is there.
        waited_for: set[str] = set() if live else self._waited_for
        with anyio.move_on_after(seconds):
            await self._until(lambda: waited_for.issuperset(starting()))
            if self.index.incomplete():
                await self.indexing.idle()
        waited_for.intersection_update(starting())
        waited_for.update(starting())
        late = [*starting(), *self.index.incomplete()]
        down = {name: self.manager.error(name) or "" for name in unknown() if name not in late}
        troubled = {**self.loaded.unusable, **{name: why for name, why in down.items() if why}}
        return Unlisted(late, troubled, self.loaded.disabled)

    def problems(self) -> list[str]:
        """Everything about the configuration that its owner should know, one sentence each."""
        found = [str(problem) for problem in self.loaded.problems]
        if self.loaded.source is None:
            found.append("no configuration file: serving the embedded demo backends (shop, notes, clock)")
        if self._reload_problem:
            found.append(f"the changed configuration is not in force: {self._reload_problem}")
        if self._waiting:
            found.append(self._waiting)
        if self.cache.problem:
            found.append(self.cache.problem)
        return found

    def required_keys(self, backend: str) -> tuple[Iterable[str], Iterable[str]]:
        """Names of the variables a backend needs, and of those without a value."""
        if backend == COMPOSITE_BACKEND:
            return (), ()
        known = self.loaded.keys.get(backend)
        if known is not None:
            return known.keys, known.missing
        return keys_of(self.manager.config(backend), os.environ)

    def set_composite_tools(
        self, configured: Mapping[str, CompositeTool], faulty: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Replace the composite tools by those of a configuration; chains see them from their next call on. `faulty`
        says of others why they cannot be called."""
        self.chain.composites = dict(configured)
        self.registry.set_faulty(COMPOSITE_BACKEND, faulty)
        if configured or faulty:
            self.registry.replace(COMPOSITE_BACKEND, composite_tools(configured))
        else:
            self.registry.remove(COMPOSITE_BACKEND)
        self.tracker.set_catalog_bytes(self.catalog.catalog_bytes())

    # -- hot reload ----------------------------------------------------------------------------------

    async def reconfigure(self, loaded: Loaded) -> list[str]:
        """Put a newly read configuration in force; only backends that changed restart. Their names.

        What is read only at the start is not (`reload.READ_ONCE`).
        """
        config = loaded.config
        gone = self.loaded.origins.keys() - loaded.origins.keys()
        self.cache.forget(gone)
        for name in gone:
            self._hashes.pop(name, None)  # nor is what it still lists while it is being stopped kept
        self.loaded = loaded
        self._waiting = read_only_at_start(self._began, config)
        if self._waiting:
            logger.warning("%s", self._waiting)
        self.registration.set_configured(loaded.origins)
        self.tools.redactor.add(loaded.secrets)
        logging.getLogger().setLevel(config.log_level.upper())
        self.registry.set_aliases(config.aliases)
        running = config.sandbox.model_copy(update={"isolation": self.sandbox.isolation})
        self.chain.guests.total_tokens += open_chains(running) - open_chains(self.chain.config)
        self.chain.config = self.tools.config = running
        self.sandbox.set_limits(limits_of(running))
        self.registration.admission.policy = config.registration
        self.registration.limit = config.max_dynamic_backends
        self.set_composite_tools(config.composite_tools, loaded.faulty)
        self.awaited.follow(loaded)
        wanted = {name: backend for name, backend in config.backends.items() if not backend.disabled}
        for name, backend in wanted.items():
            self._hashes[name] = config_hash(loaded.written.get(name, backend))
        return await self.manager.apply(wanted, loaded.waits)

    async def _follow_config(self, load: Callable[[], Loaded], seen: FileState) -> None:
        """Read the configuration again when its files change, and when a secret has come that it lacked."""

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
        self._reload_problem = problem
        self.changes.tell("state")

    # -- backends ------------------------------------------------------------------------------------

    def _start_backends(self) -> None:
        configs = list(self.loaded.config.backends.values())
        if self.loaded.source is None:
            configs = demo.backends()
        for config in configs:
            if not config.disabled:
                self._start(config)

    def _start(self, config: BackendConfig) -> None:
        key = self._hashes[config.name] = config_hash(self.loaded.written.get(config.name, config))
        cached = self.cache.tools(config.name, key)
        if cached:
            self.registry.replace(config.name, cached, live=False)
        era = self.cache.era(config.name, key)
        self.manager.add(
            config,
            era="modern" if era == "modern" else "legacy" if era == "legacy" else None,
            waits=self.loaded.waits.get(config.name),
        )

    def _on_tools(self, name: str, tools: list[Tool] | None) -> None:
        if tools is None:
            self.registry.remove(name)
        else:
            self.registry.replace(name, tools)
            known = name in self._hashes and not self.cache.put_tools(name, self._hashes[name], tools)
            if not known:  # the vectors of tools that were cached are stored already
                self.embedding.tools_changed()
        self.tracker.set_catalog_bytes(self.catalog.catalog_bytes())

    def _on_state(self, name: str, state: State) -> None:
        logger.debug("backend %s is %s", name, state)
        self._state_changed.set()
        self.changes.tell("state", name)

    def _on_era(self, name: str, era: Era) -> None:
        if name in self._hashes:
            self.cache.put_era(name, self._hashes[name], era)

    # -- in the background ---------------------------------------------------------------------------

    async def _warm_sandbox(self) -> None:
        """Ahead of the first chain, which tries again and tells its client what is wrong."""
        try:
            await anyio.to_thread.run_sync(self.sandbox.warm, abandon_on_cancel=True)
        except SandboxError as exc:
            logger.warning("the sandbox is not ready: %s", exc)

    async def _sweep_results(self) -> None:
        swept = await anyio.to_thread.run_sync(sweep_abandoned, abandon_on_cancel=True)
        if swept:
            logger.info("removed the spilled results of %d gateways that were killed", swept)

    async def _keep_house(self) -> None:
        while True:
            await anyio.sleep(HOUSEKEEPING_SECONDS)
            self.cache.put_usage(self.tracker.dump_usage())
            if self.cache.due:
                await anyio.to_thread.run_sync(self.cache.save)
            if self.history.due:
                await anyio.to_thread.run_sync(self.history.write)
            await self._write_account(ended=False)

    async def _write_account(self, *, ended: bool) -> None:
        """What was counted, for the terminal; a gateway that nobody used leaves nothing."""
        recorded = self.tracker.recorded
        if not recorded or (recorded == self._accounted and not ended):
            return
        self._accounted = recorded
        clients = [self._last_client, *(session.client for session in self._sessions)]
        hide = self.tools.redactor.value  # a backend may have called a tool after its key
        write = functools.partial(
            self.accounts.write,
            config=account_name(self.loaded.source),
            client=next((name for name in reversed(clients) if name), None),
            stats=hide(self.tracker.stats()),
            recent=hide(self.tracker.recent(RECENT_CALLS)),
            backends=self.catalog.backend_sizes(),
            usage=hide(self.tracker.dump_usage()),
            ended=ended,
        )
        await anyio.to_thread.run_sync(write)

    async def _close(self) -> None:
        await self._write_account(ended=True)
        for session in self._sessions:
            session.close()
        self.sandbox.close()
        if self.history.due:
            await anyio.to_thread.run_sync(self.history.write)
        if self.loaded.source is not None:
            self.cache.put_usage(self.tracker.dump_usage())
            await anyio.to_thread.run_sync(self.cache.save)


def account_folder(cache_path: Path) -> Path:
    """Where gateways with this cache leave their accounts."""
    return cache_path.parent / "accounts"


def account_name(source: Path | None) -> str | None:
    """How an account names the configuration it was made under."""
    return os.path.realpath(source) if source else None


def open_chains(config: SandboxConfig) -> int:
    """Chains that may hold a guest at once, running or waiting; in process mode each holds a worker."""
    return config.max_concurrent_sandboxes * (1 if config.isolation == "process" else OPEN_TO_RUNNING)


def limits_of(config: SandboxConfig) -> Limits:
    """The sandbox's limits as the configuration sets them."""
    return Limits(
        cpu_seconds=config.cpu_seconds,
        memory_mb=config.memory_mb,
        total_memory_mb=config.total_memory_mb,
        depth=config.max_depth,
        code_bytes=config.max_code_bytes,
        calls=config.max_calls,
        argument_bytes=config.max_argument_bytes,
        result_bytes=config.max_result_bytes,
        value_bytes=config.max_value_bytes,
        console_bytes=config.max_console_bytes,
        console_line=config.max_console_line,
        guests=config.max_concurrent_sandboxes,
    )
