"""The state of one client's session.

A session may outlive one connection; in direct mode there is exactly one.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from gatemini.chain.replay.journal import JournalBook, SessionJournals
from gatemini.output.store.results import ResultStore

DEFAULT_LOG_LEVEL = "info"
"""Log level until the client sets one."""


@dataclass(slots=True)
class Session:
    """Identity, announced client name, and the session's own results and journals of chains."""

    results: ResultStore
    journals: SessionJournals = field(default_factory=lambda: JournalBook().session())
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    client: str | None = None
    shared: bool = False
    """Whether several clients may be in it, of which one does not know of the others."""
    log_level: str = DEFAULT_LOG_LEVEL
    """Least level of backends' log messages that a client of the handshake era receives."""

    def close(self) -> None:
        self.journals.close()
        self.results.close()
