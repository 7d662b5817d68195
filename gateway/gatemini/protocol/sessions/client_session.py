"""The state of one client's session.

A session may outlive one connection; in direct mode there is exactly one.
"""

from __future__ import annotations

import secrets
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

from gatemini.chain.replay.journals_in_memory import JournalBook, SessionJournals
from gatemini.config.model.schema import ResultsConfig
from gatemini.output.store.results import ResultStore
from gatemini.output.store.shared import SharedResults
from gatemini.policy.flow.labels import Held
from gatemini.policy.principal import Principal, local

DEFAULT_LOG_LEVEL = "info"
"""Log level until the client sets one."""

_of_request: ContextVar[Principal | None] = ContextVar("gatemini_principal", default=None)
_login: ContextVar[object] = ContextVar("gatemini_login", default=None)
"""What the HTTP server keeps of the login of a request; only it looks inside."""


def on_behalf_of(principal: Principal, login: object = None) -> None:
    """Set the principal and the login of the request that the current task serves, where requests log in one by one."""
    _of_request.set(principal)
    _login.set(login)


def login_of_request() -> object:
    """Return the login of the request at hand, None where requests do not log in."""
    return _login.get()


@dataclass(slots=True)
class Session:
    """Identity, announced client name, and the session's own results and journals of chains."""

    results: ResultStore
    journals: SessionJournals = field(default_factory=lambda: JournalBook().session())
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    client: str | None = None
    principal: Principal = field(default_factory=lambda: local("stdio"))
    """On behalf of which calls are made; its client is the announced name unless a token names one."""
    reads: Held | None = None
    """Labels of what it has read; None where no guard gathers them."""
    log_level: str = DEFAULT_LOG_LEVEL
    """Least level of backends' log messages that a client of the handshake era receives."""

    @property
    def shared(self) -> bool:
        """Whether several clients may be in it, of which one does not know of the others."""
        return isinstance(self.results, SharedResults)

    @property
    def who(self) -> Principal:
        """The principal of the request at hand, else that of the session, with the name of the client and the session."""
        if (of_request := _of_request.get()) is not None:
            return replace(of_request, client=of_request.client or self.client or "", session=self.id)
        client = self.principal.client or self.client or ""
        if (client, self.id) != (self.principal.client, self.principal.session):
            self.principal = replace(self.principal, client=client, session=self.id)
        return self.principal

    def close(self) -> None:
        self.journals.close()
        self.results.close()


def store_of(kept: ResultsConfig, *, shared: bool = False) -> ResultStore:
    """Return a new result store with the configured caps; `shared` results are found by their handle only."""
    return (SharedResults if shared else ResultStore)(
        memory_bytes=kept.memory_mb << 20, disk_bytes=kept.disk_mb << 20, idle_seconds=kept.idle
    )
