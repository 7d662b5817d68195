"""Make the parts of one gateway, and connect them."""

from __future__ import annotations

import functools
import logging

import anyio

from gatemini.backends.manager import Manager
from gatemini.backends.oauth.logins import Logins
from gatemini.backends.status import State
from gatemini.cache import Cache
from gatemini.chain.guest.sandbox_settings import new_sandbox, open_chains
from gatemini.chain.replay.journals_in_memory import JournalBook
from gatemini.chain.services import ChainServices
from gatemini.config.load import Loaded
from gatemini.config.model.policy import PolicyConfig
from gatemini.config.model.schema import Config
from gatemini.config.session_values import SessionValues
from gatemini.config.variables.redaction import Redactor
from gatemini.discovery.embedding import Embedding
from gatemini.discovery.history import SearchHistory, history_path
from gatemini.discovery.indexing import Indexing
from gatemini.discovery.search.index import SearchIndex
from gatemini.discovery.types.seen import SeenResults
from gatemini.model import Offer, Tool
from gatemini.policy.approvals.asking import Approvals
from gatemini.policy.audit.configured_log import open_log
from gatemini.policy.door import Door, door_of
from gatemini.policy.limits.shared import SharedLimits
from gatemini.protocol.answers.backend_facts import BackendFacts
from gatemini.protocol.answers.discovery_tools import Catalog
from gatemini.protocol.questions.clients import ConnectedClients
from gatemini.protocol.questions.parking import Parking
from gatemini.protocol.registration.admission import Admission
from gatemini.protocol.registration.registering import Registration
from gatemini.protocol.sessions.open_sessions import OpenSessions
from gatemini.protocol.tools import MetaTools
from gatemini.registry import Registry
from gatemini.state.replicas.peers import Peers, new_replica
from gatemini.state.store import StateStore
from gatemini.tracker import Tracker
from gatemini.upkeep.changes import Changes
from gatemini.upkeep.housekeeping import Housekeeping
from gatemini.upkeep.known_backends import KnownBackends
from gatemini.upkeep.pinning import Pinning
from gatemini.upkeep.readiness import Readiness
from gatemini.upkeep.shared_usage import SharedUsage
from gatemini.upkeep.slow_secrets import Awaited

logger = logging.getLogger(__name__)


class Parts:
    """The parts of one gateway, which `App` runs."""

    def __init__(
        self,
        loaded: Loaded,
        cache: Cache,
        redactor: Redactor,
        clients: ConnectedClients,
        awaited: Awaited,
        own_session: SessionValues | None,
        state: StateStore,
    ) -> None:
        config, self.loaded = loaded.config, loaded
        self.awaited, self.cache, self.state = awaited, cache, state
        self.changes = Changes()
        self.peers = Peers(state, new_replica())
        self.tracker = Tracker(on_call=functools.partial(self.changes.tell, "calls"))
        self.tracker.load_usage(cache.usage)
        self.registry = Registry()
        self.registry.set_aliases(config.aliases)
        search = config.search
        self.index = SearchIndex(search.ranking, k1=search.k1, b=search.b, name_weight=search.name_weight)
        self.indexing = Indexing(self.index)
        self.registry.listen(self.indexing.follow)
        self.registry.listen(lambda backend, _: self.changes.tell("tools", backend))
        vectors = cache.path.with_name("vectors.sqlite")
        self.embedding = Embedding(self.index, self.indexing, vectors, config.semantic.model)
        self.clients = clients
        self.manager = Manager(
            on_tools=self._on_tools,
            on_era=lambda name, era: self.known.shook_hands(name, era),
            on_offers=self._on_offers,
            on_state=self._on_state,
            health=config.health,
            clients=clients,
            record_dir=cache.path.parent / "children",
            own_session=own_session,
            logins=Logins(redactor.replace, state),
            peers=self.peers,
        )
        self.sandbox, self.warmed = new_sandbox(config.sandbox), anyio.Event()
        self.config_at_start = config
        self.readiness = Readiness(
            self.manager, self.registry, self.index, self.indexing, lambda: self.loaded
        )
        self.journals = JournalBook()
        self.parking, self.approvals = Parking(loaded.state_keys), Approvals(redactor.arguments, state)
        self.sessions = OpenSessions(self._session_ended)
        self._build_services(config, redactor)

    def _build_policy(self, config: Config, redactor: Redactor) -> None:
        """Make what decides about calls and records them."""
        self.audit = open_log(config.audit, self.loaded.source, redactor)
        self.pinning = Pinning(self.loaded, redactor, self.audit, self.manager)
        self.pins = self.pinning.pins
        self.known = KnownBackends(self.cache, self.registry, self.pinning)
        refuse, idle = config.state.on_failure == "refuse", config.http.sessions.idle
        self.limits = SharedLimits(self.state, refuse=refuse, idle=idle)

    def _build_services(self, config: Config, redactor: Redactor) -> None:
        """Make what answers clients, on top of backends, registry and sandbox."""
        loaded = self.loaded
        self._build_policy(config, redactor)
        self.seen = SeenResults(self.cache.seen)
        self.facts = BackendFacts(self.manager, lambda: self.loaded, self.seen, self.pins.is_withheld)
        self.catalog = Catalog(
            self.registry, self.index, self.tracker, self.facts, self.manager.configured, self.embedding
        )
        self.history = SearchHistory(history_path(self.cache.path) if config.search.history else None)
        self.housekeeping = Housekeeping(
            self.cache,
            self.history,
            self.tracker,
            redactor.value,
            loaded.source,
            self.sessions.latest_client,
            self.catalog.backend_sizes,
            self.seen.shapes,
            SharedUsage(self.state, self.tracker),
        )
        admission = Admission(config.registration, str(loaded.source or "the config file"), redactor)
        self.manager.permitted = admission.permitted
        self.registration = Registration(
            self.manager,
            admission,
            config.max_dynamic_backends,
            frozenset(loaded.origins),
            loaded.spaces,
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
            learn=self.seen.learn,
            unlisted=self.readiness.unlisted,
            disabled=lambda: self.loaded.disabled,
            door=self.new_door(config.policy, None, loaded.webhook_key),
        )
        self.tools = MetaTools(
            self.chain, self.catalog, self.registration, self.tracker, config.sandbox, self.history, redactor
        )

    def new_door(self, policy: PolicyConfig | None, before: Door | None, key: str = "") -> Door | None:
        """Return the door with these rules, None where nothing is to be decided; `key` is the webhook's."""
        parts = self.audit, self.pins, self.limits, self.manager.owners
        return door_of(policy, before, self.approvals, key, *parts)

    def _session_ended(self, session: str) -> None:
        for end in (
            self.parking.end_session,
            self.clients.forget,
            self.manager.end_session,
            self.tracker.end_session,
        ):
            end(session)
        if self.chain.door is not None:
            self.chain.door.end_session(session)

    def _on_tools(self, name: str, tools: list[Tool] | None) -> None:
        if tools is None:
            self._on_offers(name, [])
        if self.known.listed(name, tools):
            self.embedding.tools_changed()
        self.tracker.set_catalog_bytes(self.catalog.catalog_bytes())

    def _on_offers(self, name: str, offers: list[Offer]) -> None:
        self.indexing.follow(f"{name}: resources and prompts", self.pins.offered(name, offers))
        self.changes.tell("state", name)

    def _on_state(self, name: str, state: State) -> None:
        logger.debug("backend %s is %s", name, state)
        self.readiness.state_changed()
        self.changes.tell("state", name)
