"""The backends of one gateway by name, and what is known of each without asking it."""

from __future__ import annotations

from dataclasses import replace

import anyio

from gatemini.backends.actor import Backend
from gatemini.backends.calls.callers import Caller
from gatemini.backends.calls.failures import no_backend
from gatemini.backends.dedicated.instances import Instances
from gatemini.backends.oauth.interface import TokenSource
from gatemini.backends.oauth.logins import Logins
from gatemini.backends.snapshot import measure_memory, status_of
from gatemini.backends.status import BackendStatus, State
from gatemini.config.model.schema import BackendConfig, HealthConfig
from gatemini.errors import BackendError, BackendStarting

NO_SESSION = ""
"""The owner of a registered backend whose session has ended: it is being stopped."""

REPLACED_SECONDS = 2.0
"""How long a call waits until a backend that has replaced another one finds the login that was made for that one."""


class BackendTable:
    """Backends by name, with the instances of dedicated ones."""

    def __init__(self, health: HealthConfig, logins: Logins | None = None) -> None:
        self._health = health
        self.logins = logins
        self._backends: dict[str, Backend] = {}
        self._instances: dict[str, Instances] = {}
        self.owners: dict[str, str] = {}
        """Registered backends, and the sessions that have registered them."""
        self._waits: dict[str, str] = {}
        """Backends with an incomplete configuration, and what is missing: `apply` completes it."""

    def names(self, session: str | None = None) -> list[str]:
        """Return the names of all backends; with a session of those that it may use."""
        if session is None:
            return sorted(self._backends)
        return sorted(self._backends.keys() - self.of_others(session))

    def configured(self) -> set[str]:
        """Return the backends that no session has registered."""
        return self._backends.keys() - self.owners.keys()

    def registered(self, session: str) -> list[str]:
        """Return the backends that a session has registered."""
        return sorted(name for name, owner in self.owners.items() if owner == session)

    def is_taken(self, name: str, session: str) -> bool:
        """Whether another session that still lasts has registered a backend of this name."""
        return self.owners.get(name, session) not in (session, NO_SESSION)

    def of_others(self, session: str) -> frozenset[str]:
        """Return the backends that other sessions have registered: they do not exist for this one."""
        if not self.owners:
            return frozenset()
        return frozenset(name for name, owner in self.owners.items() if owner != session)

    def config(self, name: str) -> BackendConfig:
        return self._find(name).config

    def state(self, name: str) -> State | None:
        backend = self._backends.get(name)
        return backend.state if backend else None

    def error(self, name: str) -> str | None:
        backend = self._backends.get(name)
        return self._waits.get(name) or (backend.error.message if backend and backend.error else None)

    def status(self, name: str) -> BackendStatus:
        status, instances = status_of(self._find(name)), self._instances.get(name)
        if name in self._waits:
            status = replace(status, error=self._waits[name])
        if instances is None:
            return status
        return replace(status, instances=len(instances.instances), idle_instances=instances.idle)

    def statuses(self, session: str | None = None) -> list[BackendStatus]:
        return [self.status(name) for name in self.names(session)]

    def client_token(self, principal: str, token: str) -> None:
        """Note the token with which a principal has logged in, where a backend gets its own for that."""
        if self.logins is not None and self.logins.exchanges:
            self.logins.client_tokens[principal] = token

    async def ask_login(self, name: str, caller: Caller) -> bool:
        """Ask the person behind a caller to log in to a backend; whether somebody has."""
        login = self._login_of(name, caller)
        if self.logins is None or login is None or not await self.logins.ask(login, caller):
            return False
        current = self._login_of(name, caller)
        if current is not None and current is not login:  # the configuration has changed meanwhile
            with anyio.move_on_after(REPLACED_SECONDS):
                await current.until_login()
        return True

    def _login_of(self, name: str, caller: Caller) -> TokenSource | None:
        backend: Backend | None = self._find(name)
        instances = self._instances.get(name)
        owner = None if instances is None else instances.owner(caller)
        if instances is not None and owner is not None:
            backend = instances.leased(owner)
        return backend.login if backend is not None else None

    async def measure_new(self) -> None:
        """Measure the memory of all children now if one has never been measured."""
        if any(b.pid is not None and b.memory.rss is None for b in self._running()):
            await measure_memory(self._running())

    def _running(self) -> list[Backend]:
        """All backends and all instances of dedicated ones."""
        return [*self._backends.values(), *(b for i in self._instances.values() for b in i.instances)]

    def _raise_if_incomplete(self, name: str, error: BackendError) -> None:
        """Raise what is missing, where a backend did not start because its configuration is incomplete."""
        if isinstance(error, BackendStarting) and name in self._waits:
            text = f"{name} {self._waits[name]}; the time for this call is over"
            raise BackendStarting(text, hint=error.hint) from error

    def _find(self, name: str) -> Backend:
        backend = self._backends.get(name)
        if backend is None:
            raise no_backend(name, sorted(self.configured()))
        return backend
