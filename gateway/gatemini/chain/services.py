"""What a chain needs from the rest of the gateway; `app.py` fills it in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import anyio

from gatemini.backends.manager import Manager
from gatemini.chain.deadline import ChainTime
from gatemini.config.model.schema import CompositeTool, SandboxConfig
from gatemini.config.variables.redaction import Redactor
from gatemini.discovery.types.identifiers import backend_identifiers
from gatemini.errors import BackendError, GateminiError
from gatemini.model import Json, Tool
from gatemini.policy.door import Door
from gatemini.registry import Registry
from gatemini.tracker import Tracker
from gatemini.unlisted import FIRST_LISTING_SECONDS, Look, Unlisted, none_unlisted
from gatemini_sandbox.host import Sandbox

Discovery = Callable[[str, Json], Awaitable[object]]
"""A discovery meta-tool by name, for `gatemini.search_tools(…)` inside a chain; raises GateminiError."""


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
    """Asked before a chain is told what tools there are: at the start many backends have not said so yet."""
    disabled: Callable[[], Mapping[str, str]] = dict
    """Configured backends that are not there, each with the reason."""
    composites: Mapping[str, CompositeTool] = field(default_factory=dict)
    """Composite tools by name; replaced as a whole when the configuration changes."""
    lists: set[str] = field(default_factory=set)
    """Qualified names of tools that have answered with several content blocks."""

    def lend_place(self, lent: bool) -> None:
        """A chain that waits for the user gives its place among the running guests to another."""
        self.guests.total_tokens += 1 if lent else -1

    async def listed(self, chain_time: ChainTime, *, live: bool = False) -> Unlisted:
        """Wait a moment, within the chain's time, for backends that have not listed their tools."""
        return await self.unlisted(max(0.0, min(FIRST_LISTING_SECONDS, chain_time.left())), live=live)

    def backend_names(self) -> list[str]:
        """Every name a chain may say before the dot: backends, and the namespaces they set."""
        return sorted({*self.backends.names(), *self.registry.spaces()})

    def identifiers(self) -> tuple[Mapping[str, str], Mapping[str, Sequence[str]]]:
        """(global identifier → name, ambiguous identifier → the names that share it)."""
        return backend_identifiers(self.backend_names())

    async def find(self, backend: str, spelled: str, time_left: Callable[[str], float]) -> Tool:
        """Return the tool that a call names; a starting backend may take the time that `time_left` gives it."""
        try:
            return self.registry.find(backend, spelled)
        except GateminiError:
            if self.backends.state(backend) not in ("starting", "stopped"):
                raise
            # A fallback's listing may differ: the backend's own counts, if it arrives within its part of the time.
            fallbacks = self.backends.config(backend).fallback_chain
            most = time_left(backend) / (1 + len(fallbacks))
            try:
                await self.backends.wait_ready(backend, most)
            except BackendError:
                # Without the annotations of the fallback: the backend may start in time and take the call itself.
                for name in fallbacks:
                    with suppress(GateminiError):
                        tool = self.registry.find(name, spelled)
                        return replace(tool, backend=backend, namespace=None, annotations={})
                raise
            return self.registry.find(backend, spelled)

    def owners(self, tool: str) -> list[str]:
        """The qualified names of the tools with this bare name, or of the one with this alias."""
        found = [known.qualified for known in self.registry.tools() if known.name == tool]
        target = self.registry.alias(tool)
        return found or ([target.qualified] if target is not None else [])

    def is_backend(self, identifier: str) -> bool:
        """Whether a chain's global of this name is a backend."""
        return identifier in self.identifiers()[0]
