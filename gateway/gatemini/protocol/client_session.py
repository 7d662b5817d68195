"""The state of one client's session.

A session may outlive one connection; in direct mode there is exactly one.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace

from gatemini.chain.replay.journal import JournalBook, SessionJournals
from gatemini.output.store.results import ResultStore
from gatemini.policy.principal import Principal, local

DEFAULT_LOG_LEVEL = "info"
"""Log level until the client sets one."""


@dataclass(slots=True)
class Session:
    """Identity, announced client name, and the session's own results and journals of chains."""

    results: ResultStore
    journals: SessionJournals = field(default_factory=lambda: JournalBook().session())
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    client: str | None = None
    principal: Principal = field(default_factory=lambda: local("stdio"))
    """On behalf of which calls are made; its client is the announced name unless a token names one."""
    log_level: str = DEFAULT_LOG_LEVEL
    """Least level of backends' log messages that a client of the handshake era receives."""

    @property
    def who(self) -> Principal:
        """The principal with the name of the client and the id of the session."""
        client = self.principal.client or self.client or ""
        if (client, self.id) != (self.principal.client, self.principal.session):
            self.principal = replace(self.principal, client=client, session=self.id)
        return self.principal

    def close(self) -> None:
        self.journals.close()
        self.results.close()
