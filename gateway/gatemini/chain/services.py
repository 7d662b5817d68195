"""What a chain needs from the rest of the gateway; `app.py` fills it in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import anyio
from cachetools import LRUCache

from gatemini.backends.calls.callers import Caller
from gatemini.backends.manager import Manager
from gatemini.chain.deadline import ChainTime
from gatemini.config.model.schema import CompositeTool, SandboxConfig
from gatemini.config.variables.redaction import Redactor
from gatemini.discovery.types.identifiers import backend_identifiers
from gatemini.errors import BackendError, GateminiError, LoginRequired
from gatemini.model import Json, Offer, Tool
from gatemini.policy.door import Door
from gatemini.policy.principal import Principal
from gatemini.policy.visibility import Listing
from gatemini.registry import Registry
from gatemini.tracker import Tracker
from gatemini.unlisted import FIRST_LISTING_SECONDS, Look, Unlisted, none_unlisted
from gatemini_sandbox.host import Sandbox

_T = TypeVar("_T")

Discovery = Callable[[str, Json, Listing], Awaitable[object]]
"""A discovery meta-tool by name, over what a principal finds, for `gatemini.search_tools(…)` inside a chain; raises GateminiError."""

DOWN = ("starting", "stopped", "login_required")
"""States of backends that may have listed no tools; using one starts it or says why it cannot be started."""
REGISTRIES_KEPT = 64
"""Registries without the backends of other sessions, one for each session that is served at the same time."""


@dataclass(slots=True)
class ChainServices:
    """The parts of the gateway that chains use."""

    registry: Registry
    backends: Manager
    tracker: Tracker
    sandbox: Sandbox
    config: SandboxConfig
    guests: anyio.CapacityLimiter
    discovery: Discovery
    door: Door | None = None
    """Decides about every call; None where nothing of a policy is configured. Replaced by a changed configuration."""
    redactor: Redactor = field(default_factory=Redactor)
    """Takes the secrets of the configuration out of what is answered."""
    learn: Callable[[Tool, Any], None] = lambda tool, value: None
    """Notes the value that a tool's call gave, for the types of its results."""
    unlisted: Look = none_unlisted
    """Called before a chain gets lists of tools: right after the start many backends have not listed theirs."""
    disabled: Callable[[], Mapping[str, str]] = dict
    """Configured backends that are not there, each with the reason."""
    composites: Mapping[str, CompositeTool] = field(default_factory=dict)
    """Composite tools by name; replaced as a whole when the configuration changes."""
    lists: set[str] = field(default_factory=set)
    """Qualified names of tools that have answered with several content blocks."""
    _reachable: LRUCache[tuple[frozenset[str], int], Registry] = field(
        default_factory=lambda: LRUCache(REGISTRIES_KEPT)
    )

    def lend_place(self, lent: bool) -> None:
        """A chain that waits for the user gives its place among the running guests to another."""
        self.guests.total_tokens += 1 if lent else -1

    async def listed(self, chain_time: ChainTime, *, live: bool = False) -> Unlisted:
        """Wait a moment, within the chain's time, for backends that have not listed their tools."""
        return await self.unlisted(max(0.0, min(FIRST_LISTING_SECONDS, chain_time.left())), live=live)

    def backend_names(self, who: Principal) -> list[str]:
        """Every name a chain may say before the dot: backends, and the namespaces they set."""
        return sorted({*self.backends.names(who.session), *self.reachable(who).spaces()})

    def backend_of(self, space: str, who: Principal) -> str:
        """The backend whose namespace this is, if one alone has it; any other name as it is."""
        names = self.backends.names(who.session)
        owners = [] if space in names else [n for n in names if self.backends.config(n).namespace == space]
        return owners[0] if len(owners) == 1 else space

    def identifiers(self, who: Principal) -> tuple[Mapping[str, str], Mapping[str, Sequence[str]]]:
        """(global identifier → name, ambiguous identifier → the names that share it)."""
        return backend_identifiers(self.backend_names(who))

    def reachable(self, who: Principal) -> Registry:
        """The tools that may be named: all but those of backends that other sessions have registered."""
        others = self.backends.of_others(who.session)
        if not others:
            return self.registry
        key = others, self.registry.version
        if key not in self._reachable:
            self._reachable[key] = self.registry.only(lambda tool: tool.backend not in others, others)
        return self._reachable[key]

    def listing(self, who: Principal) -> Listing:
        """The tools that a principal finds; `reachable` has all, for calls by name, which explain a denial."""
        registry, others = self.reachable(who), self.backends.of_others(who.session)
        listing = Listing(registry) if self.door is None else self.door.listing(registry, who)
        if not others:
            return listing
        shows = listing.shows
        return replace(
            listing, shows=lambda tool: tool.backend not in others and (shows is None or shows(tool))
        )

    async def with_login(
        self, backend: str, caller: Caller, chain_time: ChainTime, act: Callable[[], Awaitable[_T]]
    ) -> _T:
        """Act again once the person behind the caller has logged in, where that is what a backend lacks."""
        try:
            return await act()
        except LoginRequired:
            with chain_time.standing_still():
                accepted = await self.backends.ask_login(backend, caller)
            if self.door is not None and self.door.audit is not None:
                self.door.audit.event(
                    "login",
                    backend=backend,
                    outcome="accepted" if accepted else "failed",
                    session=caller.session,
                    principal=caller.principal,
                )
            if not accepted:
                raise
        return await act()

    async def find_tool(
        self, backend: str, spelled: str, time_left: Callable[[str], float], who: Principal
    ) -> Tool:
        """Return the tool that a call names; a backend that starts, or that has announced other tools, may take the time
        that `time_left` gives it."""
        try:
            return self.reachable(who).find(backend, spelled)
        except GateminiError:
            reachable = backend not in self.backends.of_others(who.session)
            if reachable and self.backends.state(backend) == "healthy":
                with suppress(BackendError):
                    await self.backends.wait_ready(backend, time_left(backend))
            if not reachable or self.backends.state(backend) not in DOWN:
                return self.listing(who).registry.find(backend, spelled)  # its error names no hidden tool
            # A fallback's listing may differ: the backend's own counts, if it arrives within its part of the time.
            config = self.backends.config(backend)
            unlisted = Tool(backend, spelled, namespace=config.namespace, tags=config.tags)
            if self.door is not None:
                self.door.refuse_unlisted(unlisted, who)
            most = time_left(backend) / (1 + len(config.fallback_chain))
            try:
                await self.backends.wait_ready(backend, most)
            except BackendError:
                # Without the annotations of the fallback: the backend may start in time and take the call itself.
                shown = self.listing(who).registry  # an error about arguments describes the tool
                for name in config.fallback_chain:
                    with suppress(GateminiError):
                        tool = shown.find(name, spelled)
                        return replace(
                            unlisted,
                            name=tool.name,
                            description=tool.description,
                            input_schema=tool.input_schema,
                            output_schema=tool.output_schema,
                        )
                raise
            try:
                return self.reachable(who).find(backend, spelled)
            except GateminiError:
                # Its error, too, names no hidden tool.
                return self.listing(who).registry.find(backend, spelled)

    def shown_offers(self, backend: str, offers: list[Offer], who: Principal) -> list[Offer]:
        """Return the resources and prompts of a backend that a principal may see listed."""
        return offers if self.door is None else self.door.shown_offers(backend, offers, who)

    async def discover(self, name: str, arguments: Json, who: Principal) -> object:
        """Answer a discovery tool for code in a chain."""
        return await self.discovery(name, arguments, self.listing(who))

    def resolve(self, name: str, who: Principal) -> Tool:
        """Return the tool of a name by itself. Raises ToolNotFound or AmbiguousTool, which name no hidden tool."""
        try:
            return self.reachable(who).resolve(name)
        except GateminiError:
            return self.listing(who).registry.resolve(name)

    def is_backend(self, identifier: str, who: Principal) -> bool:
        """Whether a chain's global of this name is a backend."""
        return identifier in self.identifiers(who)[0]
